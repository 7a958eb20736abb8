// Gather lists, rings as a hostile program writes them, receive queues.

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "transport/work/recv_queue.h"
#include "transport/work/sge_walk.h"
#include "transport/work/types.h"

namespace urnic {
namespace {

using testing::FakeHost;
using testing::FakeRings;
using testing::OwnRecvQueue;

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
    return WalkSges(sges, ReadSge(), cursor_, offset, bytes, host_.mrs(), 1,
                    mem::kLocalWrite, [this](uint64_t address, uint32_t piece) {
                      pieces_.push_back({address - host_.address(0), piece});
                    });
  }
  std::function<urnic_sge(uint32_t)> ReadSge() {
    return [this](uint32_t i) {
      return rings_.sq().view().ReadSge<urnic_sq_wqe>(0, i);
    };
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
  // Back to the middle, as for a retransmission.
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

TEST_F(SgeWalkTest, GivesAtMostOnePiecePerEntryIfTheRingChanges) {
  // The callback emulates another thread that lengthens the entry during the
  // walk.
  Post({Sge(0, 4), Sge(100, 4), Sge(200, 4), Sge(300, 4)});
  uint32_t pieces = 0;
  const WalkResult result =
      WalkSges(4, ReadSge(), cursor_, 0, 64, host_.mrs(), 1, mem::kLocalWrite,
               [&](uint64_t, uint32_t) {
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
  // Indices wrap around.
  rings.sq().indices().producer = 3;
  EXPECT_EQ(view.Posted(0xfffffffe), 5u);
  EXPECT_EQ(view.Posted(4), UINT32_MAX);
}

TEST(RecvQueueTest, TakesOnceAndPublishesWhatWasTaken) {
  FakeRings rings(8, 1, 0, 8, 2);
  OwnRecvQueue own(rings.rq().view(), 2);
  RecvQueue& queue = own.queue();
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

TEST(RecvQueueTest, AQueueWithoutARingIsEmpty) {
  OwnRecvQueue own(WorkQueueView(), 0);
  RecvQueue& queue = own.queue();
  EXPECT_EQ(queue.Take(), RecvQueue::TakeResult::kEmpty);
  queue.Reset();
}

TEST(RecvQueueTest, UsersOfASharedRingTakeDifferentRequests) {
  FakeRings rings(8, 1, 0, 8, 1);
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(rings.PostRecv({.wr_id = id}));
  }
  RecvRing ring(rings.rq().view(), 1);
  urnic_sge sges[2];
  RecvQueue a(&ring, &sges[0], /*shared=*/true);
  RecvQueue b(&ring, &sges[1], /*shared=*/true);
  EXPECT_EQ(a.Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_EQ(b.Take(), RecvQueue::TakeResult::kTaken);
  a.PublishConsumer();
  EXPECT_EQ(rings.rq().indices().consumer, 2u) << "both slots are free";
  EXPECT_EQ(b.Consume(), 2u);
  EXPECT_EQ(a.Consume(), 1u);
  // One queue pair does not flush or forget requests that have not been taken.
  EXPECT_FALSE(a.TakeToFlush());
  a.Reset();
  EXPECT_EQ(b.Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_TRUE(b.TakeToFlush());
  EXPECT_EQ(b.Consume(), 3u);
}

TEST(RecvRingTest, ReportsOnceThatItRunsLow) {
  //= IBTA 10.2.9.1
  FakeRings rings(8, 1, 0, 8, 1);
  for (uint64_t id = 0; id < 4; ++id) {
    ASSERT_TRUE(rings.PostRecv({.wr_id = id}));
  }
  OwnRecvQueue own(rings.rq().view(), 1);
  RecvRing& ring = own.ring();
  ring.SetLimit(3);
  EXPECT_EQ(own.queue().Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_FALSE(ring.TakeLimitReached()) << "three are left";
  own.queue().Consume();
  EXPECT_EQ(own.queue().Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_TRUE(ring.TakeLimitReached()) << "two are left";
  EXPECT_FALSE(ring.TakeLimitReached());
  EXPECT_EQ(ring.limit(), 0u) << "disarmed";
  own.queue().Consume();
  EXPECT_EQ(own.queue().Take(), RecvQueue::TakeResult::kTaken);
  EXPECT_FALSE(ring.TakeLimitReached());
}

}  // namespace
}  // namespace urnic
