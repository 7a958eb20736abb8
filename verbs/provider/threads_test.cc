// Several threads of a program on one device that talks to itself, and on two
// that meet at a ring: with queue pairs of their own, and sharing them. Runs
// under ThreadSanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

constexpr int kThreads = 4;

void RunThreads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& t : threads) t.join();
}

// What the ends of a pair are opened on.
struct Devices {
  OpenDevice a;
  OpenDevice b{OpenDevice::kLast};
};

// A thread may wait long for its CPU under a sanitizer: no loss is expected.
PairOptions Patient() {
  PairOptions options;
  options.timeout = 20;  // 4.3 s
  return options;
}

// One message from a to b, and its completions.
void Exchange(End& a, End& b) {
  EXPECT_EQ(b.PostRecv(1, {b.Sge(0, 256)}), 0);
  EXPECT_EQ(a.PostSend({a.Sge(0, 256)}), 0);
  EXPECT_EQ(b.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a.Poll().status, IBV_WC_SUCCESS);
}

TEST(ThreadsTest, EachWithAPairOfItsOwn) {
  Devices devices;
  RunThreads([&](int) {
    Pair pair(devices.a, devices.b, Patient());
    for (int i = 0; i < 200; ++i) Exchange(pair.a, pair.b);
  });
}

TEST(ThreadsTest, ObjectsComeAndGoWhileOthersWork) {
  Devices devices;
  Pair busy(devices.a, devices.b, Patient());
  std::atomic<bool> stop = false;
  std::thread worker([&] {
    while (!stop) Exchange(busy.a, busy.b);
  });
  RunThreads([&](int) {
    for (int i = 0; i < 10; ++i) {
      Pair pair(devices.a, devices.b, Patient());
      Exchange(pair.a, pair.b);
    }
  });
  stop = true;
  worker.join();
}

TEST(ThreadsTest, AllPostToAndPollOneQueuePair) {
  Devices devices;
  PairOptions options = Patient();
  options.depth = 1024;
  Pair pair(devices.a, devices.b, options);
  constexpr int kEach = 200;
  std::atomic<int> sent = 0;
  std::atomic<int> received = 0;
  RunThreads([&](int thread) {
    const auto poll = [&](End& end, std::atomic<int>& count) {
      ibv_wc wc[4];
      const int n = ibv_poll_cq(end.cq(), 4, wc);
      ASSERT_GE(n, 0);
      for (int i = 0; i < n; ++i) EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
      count += n;
    };
    for (int i = 0; i < kEach; ++i) {
      const size_t at = static_cast<size_t>(thread * kEach + i) * 16;
      EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(at, 16)}), 0);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(at, 16)}), 0);
      poll(pair.a, sent);
      poll(pair.b, received);
    }
    while (sent < kThreads * kEach) poll(pair.a, sent);
    while (received < kThreads * kEach) poll(pair.b, received);
  });
  EXPECT_EQ(sent, kThreads * kEach);
  EXPECT_EQ(received, kThreads * kEach);
}

TEST(ThreadsTest, SleepersWakeWithoutLosingAnEvent) {
  Devices devices;
  RunThreads([&](int) {
    ibv_comp_channel* channel = ibv_create_comp_channel(devices.b);
    PairOptions options = Patient();
    options.channel = channel;
    {
      Pair pair(devices.a, devices.b, options);
      for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(ibv_req_notify_cq(pair.b.cq(), 0), 0);
        EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
        EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
        ibv_ack_cq_events(cq, 1);
        EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
      }
    }
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  });
}

// The race that a lost wake-up hides in: the completion comes while the
// program arms.
TEST(ThreadsTest, ArmThenPollThenSleepLosesNothing) {
  Devices devices;
  ibv_comp_channel* channel = ibv_create_comp_channel(devices.b);
  PairOptions options = Patient();
  options.channel = channel;
  constexpr int kMessages = 2000;
  {
    Pair pair(devices.a, devices.b, options);
    std::thread sender([&] {
      for (int i = 0; i < kMessages; ++i) {
        EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)},
                                  [&](ibv_send_wr& wr) {
                                    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
                                    Target(wr, pair.b, 0);
                                  }),
                  0);
        EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
      }
    });
    for (uint32_t i = 0; i < options.depth; ++i) pair.b.PostRecv(i, {});
    int received = 0;
    const auto drain = [&] {
      ibv_wc wc;
      const int before = received;
      while (ibv_poll_cq(pair.b.cq(), 1, &wc) == 1) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        pair.b.PostRecv(0, {});
        ++received;
      }
      return received != before;
    };
    while (received < kMessages) {
      ASSERT_EQ(ibv_req_notify_cq(pair.b.cq(), 0), 0);
      if (drain()) continue;
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
      ibv_ack_cq_events(cq, 1);
      drain();
    }
    sender.join();
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

}  // namespace
}  // namespace urnic
