// The small parts of the core by themselves: replay ring, timer tables.

#include <gtest/gtest.h>

#include "transport/rc/replay.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

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

TEST_F(ReplayRingTest, AnswersDuplicatesInPsnOrder) {
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

TEST_F(ReplayRingTest, ANewRequestCancelsTheSecondAnswer) {
  ring_.Reset(1);
  AddRead(0, 1);
  ring_.MarkAnswered(ring_.OldestPending());
  ring_.MarkPending(*ring_.Find(Psn(0)));
  EXPECT_NE(AddRead(1, 1), nullptr);
  EXPECT_EQ(ring_.OldestPending().first_psn, Psn(1));
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_FALSE(ring_.AnyPending());
}

TEST_F(ReplayRingTest, DropsFailedRequests) {
  ring_.Reset(4);
  for (uint32_t i = 0; i < 4; ++i) AddRead(i, 1);
  ring_.DropFrom(Psn(1));
  EXPECT_NE(ring_.Find(Psn(0)), nullptr);
  EXPECT_EQ(ring_.Find(Psn(1)), nullptr);
  ring_.MarkAnswered(ring_.OldestPending());
  EXPECT_FALSE(ring_.AnyPending());
  for (uint32_t i = 1; i < 4; ++i) EXPECT_NE(AddRead(i, 1), nullptr);
}

TEST_F(ReplayRingTest, KeepsItsRequestsInALargerStorage) {
  ReplaySlot small[2];
  ReplayRing ring{small};
  ring.Reset(4);
  for (uint32_t i = 0; i < 7; ++i) {
    ReplaySlot* slot = ring.Add();
    ASSERT_NE(slot, nullptr);
    slot->first_psn = Psn(i);
    slot->packets = 1;
    ring.MarkPending(*slot);
    if (i < 5) ring.MarkAnswered(ring.OldestPending());
  }
  EXPECT_EQ(ring.Add(), nullptr) << "there is room for two";
  ring.MoveTo(storage_);
  ring.SetLimit(4);
  EXPECT_EQ(ring.Find(Psn(4)), nullptr);
  EXPECT_EQ(ring.OldestPending().first_psn, Psn(5));
  ring.MarkAnswered(ring.OldestPending());
  EXPECT_EQ(ring.OldestPending().first_psn, Psn(6));
  EXPECT_NE(ring.Add(), nullptr);
  EXPECT_NE(ring.Add(), nullptr);
  EXPECT_NE(ring.Find(Psn(5)), nullptr);
}

TEST_F(ReplayRingTest, StartsWithoutStorage) {
  ReplayRing ring{{}};
  ring.Reset(1);
  EXPECT_EQ(ring.Add(), nullptr);
  ring.MoveTo(storage_);
  ring.Reset(1);
  EXPECT_NE(ring.Add(), nullptr);
}

TEST(TimerTest, RnrCodesAreThoseOfTable46) {
  //= IBTA 9.7.5.2.8
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
  EXPECT_EQ(AckTimeout(0), Duration());
  EXPECT_EQ(AckTimeout(1), Duration::Nanoseconds(8192));
  EXPECT_EQ(AckTimeout(14), Duration::Nanoseconds(67108864));
  EXPECT_EQ(AckTimeout(31), Duration::Nanoseconds(int64_t{4096} << 31));
}

}  // namespace
}  // namespace urnic::rc
