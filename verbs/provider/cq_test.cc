// Completion queues that change: ibv_resize_cq(3), ibv_modify_cq(3).

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

class CqTest : public testing::Test {
 protected:
  CqTest() : channel_(ibv_create_comp_channel(device_)) {
    PairOptions options;
    options.channel = channel_;
    pair_ = std::make_unique<Pair>(device_, options);
  }
  ~CqTest() override {
    pair_.reset();
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
  }
  End& a() { return pair_->a; }
  ibv_cq* cq() { return a().cq(); }
  // Posts a request of a that completes with `id`.
  void Post(uint64_t id) {
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.wr_id = id;
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             Target(wr, pair_->b, 0);
                           }),
              0);
  }
  // Posts `count` requests and waits until their completions are in the queue.
  void Fill(uint64_t first, int count) {
    for (int i = 0; i < count; ++i) Post(first + static_cast<uint64_t>(i));
    // The engine runs in calls for another queue.
    ibv_wc wc;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int quiet = 0; quiet < 1000;) {
      ASSERT_EQ(ibv_poll_cq(pair_->b.cq(), 1, &wc), 0);
      ++quiet;
      if (std::chrono::steady_clock::now() > end) break;
    }
  }
  bool EventWithin(int timeout_ms) {
    pollfd p = {channel_->fd, POLLIN, 0};
    return poll(&p, 1, timeout_ms) == 1;
  }
  void TakeEvent() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
  }
  int Moderate(uint16_t count, uint16_t period_us) {
    ibv_modify_cq_attr attr = {};
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate = {count, period_us};
    return ibv_modify_cq(cq(), &attr);
  }

  OpenDevice device_;
  ibv_comp_channel* channel_;
  std::unique_ptr<Pair> pair_;
};

TEST_F(CqTest, ResizingKeepsTheCompletionsInOrder) {
  // First, the ring wraps.
  for (uint64_t i = 0; i < 100; ++i) {
    Post(i);
    EXPECT_EQ(a().Poll().wr_id, i);
  }
  Fill(1000, 20);
  EXPECT_EQ(ibv_resize_cq(cq(), 500), 0);
  EXPECT_EQ(cq()->cqe, 512);
  EXPECT_EQ(a().Poll().wr_id, 1000u);
  Fill(1020, 10);
  EXPECT_EQ(ibv_resize_cq(cq(), 16), EINVAL) << "29 are in it";
  EXPECT_EQ(cq()->cqe, 512);
  EXPECT_EQ(ibv_resize_cq(cq(), 32), 0);
  EXPECT_EQ(cq()->cqe, 32);
  for (uint64_t id = 1001; id < 1030; ++id) EXPECT_EQ(a().Poll().wr_id, id);
  for (uint64_t i = 0; i < 100; ++i) {
    Post(i);
    EXPECT_EQ(a().Poll().wr_id, i);
  }
}

TEST_F(CqTest, SizesOutOfRangeChangeNothing) {
  const int before = cq()->cqe;
  for (const int cqe : {0, -1, 4194305}) {
    EXPECT_EQ(ibv_resize_cq(cq(), cqe), EINVAL) << cqe;
  }
  EXPECT_EQ(cq()->cqe, before);
  EXPECT_EQ(ibv_resize_cq(cq(), 65536), 0);
  EXPECT_EQ(cq()->cqe, 65536);
}

TEST_F(CqTest, AModeratedEventComesAfterItsCount) {
  EXPECT_EQ(Moderate(4, 0xffff), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq(), 0), 0);
  for (uint64_t i = 0; i < 4; ++i) Post(i);
  EXPECT_TRUE(EventWithin(60'000));
  TakeEvent();
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(a().Poll().wr_id, i);
}

TEST_F(CqTest, AModeratedEventComesAfterItsPeriod) {
  EXPECT_EQ(Moderate(1000, 1000), 0);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ibv_req_notify_cq(cq(), 0), 0);
    Post(1);
    EXPECT_TRUE(EventWithin(60'000)) << "alone";
    TakeEvent();
    EXPECT_EQ(a().Poll().wr_id, 1u);
  }
}

TEST_F(CqTest, AQueueThatHoldsAnEventBackMayBeDestroyed) {
  EXPECT_EQ(Moderate(1000, 0xffff), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq(), 0), 0);
  Post(1);
  EXPECT_EQ(a().Poll().wr_id, 1u);
  pair_.reset();
  EXPECT_FALSE(EventWithin(100));
}

// The destroying thread waits for an acknowledgement. Meanwhile the period of a
// delayed event ends.
TEST_F(CqTest, AQueueThatIsBeingDestroyedRaisesNoEvent) {
  ibv_modify_cq_attr attr = {};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {1000, 0xffff};
  PairOptions options;
  options.cq = ibv_create_cq(device_, 16, nullptr, channel_, 0);
  auto pair = std::make_unique<Pair>(device_, options);
  const auto send = [&] {
    EXPECT_EQ(pair->b.PostRecv(1, {pair->b.Sge(0, 8)}), 0);
    ASSERT_EQ(ibv_req_notify_cq(options.cq, 0), 0);
    EXPECT_EQ(pair->a.PostSend({pair->a.Sge(0, 8)}), 0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair->a.Poll().status, IBV_WC_SUCCESS);
    }
  };
  send();
  ibv_cq* got = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &got, &context), 0);
  EXPECT_EQ(got, options.cq);
  ASSERT_EQ(ibv_modify_cq(options.cq, &attr), 0);
  send();
  pair.reset();
  std::thread destroyer([&] { EXPECT_EQ(ibv_destroy_cq(options.cq), 0); });
  EXPECT_FALSE(EventWithin(300));
  ibv_ack_cq_events(got, 1);
  destroyer.join();
  EXPECT_FALSE(EventWithin(0)) << "of a queue that is gone";
}

TEST_F(CqTest, WrongModerationIsRefused) {
  EXPECT_EQ(Moderate(2, 0), EINVAL) << "an event might wait forever";
  ibv_modify_cq_attr attr = {};
  attr.attr_mask = 1u << 5;
  EXPECT_EQ(ibv_modify_cq(cq(), &attr), EINVAL);
  attr.attr_mask = 0;
  EXPECT_EQ(ibv_modify_cq(cq(), &attr), 0);
  EXPECT_EQ(Moderate(0, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq(), 0), 0);
  Post(1);
  EXPECT_TRUE(EventWithin(60'000));
  TakeEvent();
  EXPECT_EQ(a().Poll().wr_id, 1u);
}

}  // namespace
}  // namespace urnic
