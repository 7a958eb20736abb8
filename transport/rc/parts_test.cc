// The small parts of the core by themselves: replay ring, scatter walk, rings
// as a hostile program writes them, timer tables.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "transport/rc/recv_queue.h"
#include "transport/rc/replay.h"
#include "transport/rc/sge_walk.h"
#include "transport/rc/types.h"

namespace urnic::rc {
namespace {

using testing::FakeHost;
using testing::FakeRings;

class ReplayRingTest : public ::testing::Test {
 protected:
  ReplaySlot* AddRead(uint32_t psn, uint32_t packets) {
    ReplaySlot* slot = ring_.Add();
    if (slot == nullptr) return nullptr;
    slot->kind = ReplaySlot::Kind::kRead;
    slot->first_psn = Psn(psn);
    slot->packets = packets;
    ring_.MarkPending(*slot);
    return slot;
  }

  ReplaySlot storage_[kReplaySlots];
  ReplayRing ring_{storage_};
};

TEST_F(ReplayRingTest, HoldsAsManyAsItsLimit) {
  ring_.Reset(3);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_NE(AddRead(i, 1), nullptr);
  EXPECT_EQ(AddRead(3, 1), nullptr);
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_NE(AddRead(3, 1), nullptr);
  EXPECT_EQ(ring_.Find(Psn(0)), nullptr);
  EXPECT_NE(ring_.Find(Psn(1)), nullptr);
}

TEST_F(ReplayRingTest, HoldsNothingWithLimitZero) {
  ring_.Reset(0);
  EXPECT_EQ(AddRead(0, 1), nullptr);
  EXPECT_FALSE(ring_.AnyPending());
}

TEST_F(ReplayRingTest, FindsAPsnInsideARangeThatWraps) {
  ring_.Reset(16);
  AddRead(0xfffffe, 4);
  AddRead(2, 1);
  EXPECT_EQ(ring_.Find(Psn(0xfffffd)), nullptr);
  for (const uint32_t psn : {0xfffffeu, 0xffffffu, 0u, 1u}) {
    ASSERT_NE(ring_.Find(Psn(psn)), nullptr);
    EXPECT_EQ(ring_.Find(Psn(psn))->packets, 4u);
  }
  EXPECT_EQ(ring_.Find(Psn(2))->packets, 1u);
  EXPECT_EQ(ring_.Find(Psn(3)), nullptr);
}

TEST_F(ReplayRingTest, AnswersInPsnOrderWhateverIsAskedForAgain) {
  ring_.Reset(4);
  for (uint32_t i = 0; i < 4; ++i) AddRead(i, 1);
  for (uint32_t i = 0; i < 4; ++i) ring_.MarkAnswered(ring_.OldestPending());
  ring_.MarkPending(*ring_.Find(Psn(2)));
  ring_.MarkPending(*ring_.Find(Psn(1)));
  ring_.MarkPending(*ring_.Find(Psn(1)));
  EXPECT_EQ(ring_.OldestPending().first_psn, Psn(1));
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_EQ(ring_.OldestPending().first_psn, Psn(2));
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_FALSE(ring_.AnyPending());
}

TEST_F(ReplayRingTest, GivesUpASecondAnswerForANewRequest) {
  ring_.Reset(1);
  AddRead(0, 1);
  ring_.MarkAnswered(ring_.OldestPending());
  ring_.MarkPending(*ring_.Find(Psn(0)));
  EXPECT_NE(AddRead(1, 1), nullptr);
  EXPECT_EQ(ring_.OldestPending().first_psn, Psn(1));
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_FALSE(ring_.AnyPending());
}

TEST_F(ReplayRingTest, DropsWhatFailed) {
  ring_.Reset(4);
  for (uint32_t i = 0; i < 4; ++i) AddRead(i, 1);
  ring_.DropFrom(Psn(1));
  EXPECT_NE(ring_.Find(Psn(0)), nullptr);
  EXPECT_EQ(ring_.Find(Psn(1)), nullptr);
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_FALSE(ring_.AnyPending());
  for (uint32_t i = 1; i < 4; ++i) EXPECT_NE(AddRead(i, 1), nullptr);
}

class SgeWalkTest : public ::testing::Test {
 protected:
  SgeWalkTest() {
    key_ = host_.Register(1, 0, 4096, mem::kLocalWrite);
    other_key_ = host_.Register(2, 0, 4096, mem::kLocalWrite);
  }
  void Post(std::vector<urnic_sge> sges) {
    rings_.WriteSend(0, {.sges = std::move(sges)});
  }
  WalkResult Walk(uint32_t sges, uint64_t offset, uint32_t bytes) {
    pieces_.clear();
    return WalkSges<urnic_sq_wqe>(
        rings_.sq().view(), 0, sges, cursor_, offset, bytes, host_.mrs(), 1,
        mem::kLocalWrite, [this](uint64_t address, uint32_t piece) {
          pieces_.push_back({address - host_.address(0), piece});
        });
  }
  urnic_sge Sge(uint64_t offset, uint32_t length) {
    return {host_.address(offset), length, key_};
  }

  using Pieces = std::vector<std::pair<uint64_t, uint32_t>>;
  FakeHost host_{8192};
  FakeRings rings_{4, 4, 0, 4, 4};
  uint32_t key_ = 0;
  uint32_t other_key_ = 0;
  SgeCursor cursor_;
  Pieces pieces_;
};

TEST_F(SgeWalkTest, CutsAMessageAtEntriesAndOffsets) {
  Post({Sge(0, 10), Sge(100, 0), Sge(200, 5), Sge(300, 20)});
  EXPECT_EQ(Walk(4, 0, 4), WalkResult::kOk);
  EXPECT_EQ(pieces_, (Pieces{{0, 4}}));
  EXPECT_EQ(Walk(4, 4, 8), WalkResult::kOk);
  EXPECT_EQ(pieces_, (Pieces{{4, 6}, {200, 2}}));
  EXPECT_EQ(Walk(4, 12, 23), WalkResult::kOk);
  EXPECT_EQ(pieces_, (Pieces{{202, 3}, {300, 20}}));
  // Back to the middle, as a retransmission goes.
  EXPECT_EQ(Walk(4, 9, 2), WalkResult::kOk);
  EXPECT_EQ(pieces_, (Pieces{{9, 1}, {200, 1}}));
}

TEST_F(SgeWalkTest, SaysWhenTheListIsTooShort) {
  Post({Sge(0, 10), Sge(100, 5)});
  EXPECT_EQ(Walk(2, 0, 16), WalkResult::kTooShort);
  EXPECT_EQ(Walk(1, 0, 11), WalkResult::kTooShort);
  EXPECT_EQ(Walk(0, 0, 1), WalkResult::kTooShort);
  EXPECT_EQ(Walk(0, 0, 0), WalkResult::kOk);
}

TEST_F(SgeWalkTest, ChecksEachKeyWhereItIsUsed) {
  Post({Sge(0, 10), {host_.address(0), 10, other_key_}});
  EXPECT_EQ(Walk(2, 0, 10), WalkResult::kOk);
  EXPECT_EQ(Walk(2, 0, 11), WalkResult::kFault);
  Post({{host_.address(4090), 10, key_}});
  EXPECT_EQ(Walk(1, 0, 6), WalkResult::kOk);
  EXPECT_EQ(Walk(1, 6, 1), WalkResult::kFault);
  Post({{UINT64_MAX - 3, 10, key_}});
  EXPECT_EQ(Walk(1, 0, 10), WalkResult::kFault);
}

TEST_F(SgeWalkTest, GivesAtMostOnePiecePerEntryHoweverTheRingChanges) {
  // Another thread lengthens the entry while it is walked: emulated by the
  // callback.
  Post({Sge(0, 4), Sge(100, 4), Sge(200, 4), Sge(300, 4)});
  uint32_t pieces = 0;
  const WalkResult result = WalkSges<urnic_sq_wqe>(
      rings_.sq().view(), 0, 4, cursor_, 0, 64, host_.mrs(), 1,
      mem::kLocalWrite, [&](uint64_t, uint32_t) {
        ++pieces;
        const uint32_t longer = 4 + 4 * pieces;
        Post({Sge(0, longer), Sge(100, 4), Sge(200, 4), Sge(300, 4)});
      });
  EXPECT_EQ(result, WalkResult::kTooShort);
  EXPECT_EQ(pieces, 4u);
}

TEST(WorkQueueViewTest, RefusesImpossibleIndices) {
  FakeRings rings(8, 1, 0, 8, 1);
  WorkQueueView view = rings.sq().view();
  EXPECT_EQ(view.Posted(0), 0u);
  rings.sq().indices().producer = 8;
  EXPECT_EQ(view.Posted(0), 8u);
  EXPECT_EQ(view.Posted(8), 0u);
  rings.sq().indices().producer = 9;
  EXPECT_EQ(view.Posted(0), UINT32_MAX);
  // Indices run freely through zero.
  rings.sq().indices().producer = 3;
  EXPECT_EQ(view.Posted(0xfffffffe), 5u);
  EXPECT_EQ(view.Posted(4), UINT32_MAX);
}

TEST(RecvQueueTest, TakesOnceAndPublishesWhatWasConsumed) {
  FakeRings rings(8, 1, 0, 8, 2);
  RecvQueue queue(rings.rq().view(), 2);
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kEmpty);
  ASSERT_TRUE(rings.PostRecv({.wr_id = 5}));
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_EQ(queue.Consume(), 5u);
  EXPECT_EQ(rings.rq().indices().consumer, 0u);
  queue.PublishConsumer();
  EXPECT_EQ(rings.rq().indices().consumer, 1u);
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kEmpty);
  rings.rq().indices().producer = 1000;
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kBroken);
}

TEST(RecvQueueTest, WithoutARingIsEmpty) {
  RecvQueue queue;
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kEmpty);
  queue.Reset();
}

TEST(TimerTest, RnrCodesAreThoseOfTable46) {
  //= IBTA 9.7.5.2.8
  //= type=test
  EXPECT_EQ(RnrTimer(0), Duration::Microseconds(655360));
  EXPECT_EQ(RnrTimer(1), Duration::Microseconds(10));
  EXPECT_EQ(RnrTimer(12), Duration::Microseconds(640));
  EXPECT_EQ(RnrTimer(14), Duration::Microseconds(1280));
  EXPECT_EQ(RnrTimer(31), Duration::Microseconds(491520));
  for (uint8_t code = 2; code < 32; ++code) {
    EXPECT_GT(RnrTimer(code), RnrTimer(code - 1));
  }
}

TEST(TimerTest, AckTimeoutIsFourMicrosecondsTimesAPowerOfTwo) {
  //= IBTA 9.9.2.1.1
  //= type=test
  EXPECT_EQ(AckTimeout(0), Duration());
  EXPECT_EQ(AckTimeout(1), Duration::Nanoseconds(8192));
  EXPECT_EQ(AckTimeout(14), Duration::Nanoseconds(67108864));
  EXPECT_EQ(AckTimeout(31), Duration::Nanoseconds(int64_t{4096} << 31));
}

}  // namespace
}  // namespace urnic::rc
