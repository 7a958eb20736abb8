// A thread that is cancelled ends after a verb, not inside it with a lock that
// others need. rdma-core's rping ends its threads by cancelling them.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

// A thread that will be cancelled at its first cancellation point.
struct Doomed {
  std::function<void()> body;
  std::atomic<bool> cancelled = false;
  bool came_through = false;
};

void* Run(void* arg) {
  auto* doomed = static_cast<Doomed*>(arg);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  while (!doomed->cancelled) sched_yield();
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  doomed->body();
  doomed->came_through = true;
  pthread_testcancel();
  return nullptr;
}

// Whether `body` has no cancellation point.
bool ComesThrough(std::function<void()> body) {
  Doomed doomed{std::move(body)};
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, nullptr, Run, &doomed), 0);
  EXPECT_EQ(pthread_cancel(thread), 0);
  doomed.cancelled = true;
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  return doomed.came_through;
}

class CancelTest : public ::testing::Test {
 protected:
  CancelTest() : channel_(ibv_create_comp_channel(device_)) {}
  ~CancelTest() override { EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0); }
  PairOptions OnChannel() const {
    PairOptions options;
    options.channel = channel_;
    return options;
  }
  // Sleeps for the next event, so that the helper takes over, and then sleeps.
  void AwaitEvent() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
  }

  OpenDevice device_;
  ibv_comp_channel* channel_;
};

// A post wakes the helper.
TEST_F(CancelTest, APostIsNotACancellationPoint) {
  Pair pair(device_, OnChannel());
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.cq(), 0), 0);
    EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
    const bool whole = ComesThrough(
        [&] { EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0); });
    ASSERT_TRUE(whole);
    AwaitEvent();
    EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  }
}

// A poll, which runs the engine, writes another queue's event.
TEST_F(CancelTest, APollIsNotACancellationPoint) {
  Pair pair(device_, OnChannel());
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.cq(), 0), 0);
    EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    ASSERT_TRUE(
        ComesThrough([&] { EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS); }));
    AwaitEvent();
    EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
  }
}

// Memory, attributes, and the destruction of objects with unread events.
// libibverbs' own reads of sysfs (a pair's GIDs) are not covered.
TEST_F(CancelTest, ControlCallsAreNotCancellationPoints) {
  for (int i = 0; i < 20; ++i) {
    auto pair = std::make_unique<Pair>(device_, OnChannel());
    const bool whole = ComesThrough([&] {
      EXPECT_EQ(pair->a.To(IBV_QPS_RESET), 0);
      pair->a.Connect(pair->b.qp()->qp_num);
      ibv_mr* mr = ibv_reg_mr(pair->a.pd(), pair->a.memory(), 8, 0);
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
      EXPECT_EQ(ibv_req_notify_cq(pair->b.cq(), 0), 0);
      EXPECT_EQ(pair->a.To(IBV_QPS_ERR), 0);
      EXPECT_EQ(pair->b.To(IBV_QPS_ERR), 0);
      EXPECT_EQ(pair->b.PostRecv(1, {pair->b.Sge(0, 8)}), 0);
      EXPECT_EQ(pair->b.Poll().status, IBV_WC_WR_FLUSH_ERR);
      pair.reset();
    });
    ASSERT_TRUE(whole);
  }
}

// The last to close a device waits for its threads.
TEST(CancelDeviceTest, ClosingADeviceIsNotACancellationPoint) {
  for (int i = 0; i < 3; ++i) {
    auto device = std::make_unique<OpenDevice>();
    const bool whole = ComesThrough([&] { device.reset(); });
    ASSERT_TRUE(whole);
  }
}

}  // namespace
}  // namespace urnic
