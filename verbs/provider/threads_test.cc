// Several threads of a program on one loopback device, and on two that are
// connected by a ring: with queue pairs of their own, and sharing them. Runs
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

// The devices of the two ends of a pair.
struct Devices {
  OpenDevice a;
  OpenDevice b{OpenDevice::kLast};
};

// Under a sanitizer, a thread may wait long for its CPU. No loss is expected.
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

TEST(ThreadsTest, EachThreadHasItsOwnPair) {
  Devices devices;
  RunThreads([&](int) {
    Pair pair(devices.a, devices.b, Patient());
    for (int i = 0; i < 200; ++i) Exchange(pair.a, pair.b);
  });
}

TEST(ThreadsTest, ObjectsAreCreatedAndDestroyedWhileOthersWork) {
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

// The race in which a wake-up is easily lost: the completion arrives while the
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

// Several threads build lists call by call for one queue pair. The lists do not
// mix.
TEST(ThreadsTest, AllBuildListsForOneQueuePair) {
  Devices devices;
  PairOptions options = Patient();
  options.depth = 1024;
  options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
  Pair pair(devices.a, devices.b, options);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(pair.a.qp());
  constexpr int kEach = 100;
  std::atomic<int> done = 0;
  RunThreads([&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      ibv_wr_start(ex);
      for (uint64_t part = 0; part < 2; ++part) {
        ex->wr_id = static_cast<uint64_t>(thread) * 2 + part;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(ex, pair.b.mr()->rkey, pair.b.address());
        ibv_wr_set_sge(ex, pair.a.mr()->lkey, pair.a.address(), 8);
      }
      if (i % 8 == 7) {
        ibv_wr_abort(ex);
        continue;
      }
      EXPECT_EQ(ibv_wr_complete(ex), 0);
      ibv_wc wc[2];
      const int n = ibv_poll_cq(pair.a.cq(), 2, wc);
      for (int k = 0; k < n; ++k) EXPECT_EQ(wc[k].status, IBV_WC_SUCCESS);
      done += n;
    }
  });
  constexpr int kAll = kThreads * 2 * (kEach - kEach / 8);
  for (; done < kAll; ++done) {
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  }
}

// A queue is resized and its events are moderated while threads poll it.
TEST(ThreadsTest, AQueueIsResizedWhileItIsPolled) {
  Devices devices;
  Pair pair(devices.a, devices.b, Patient());
  constexpr int kMessages = 500;
  std::atomic<int> seen = 0;
  RunThreads([&](int thread) {
    if (thread == 0) {
      for (int i = 0; seen < kMessages; ++i) {
        EXPECT_EQ(ibv_resize_cq(pair.a.cq(), i % 2 == 0 ? 512 : 256), 0);
        ibv_modify_cq_attr attr = {};
        attr.attr_mask = IBV_CQ_ATTR_MODERATE;
        attr.moderate = {static_cast<uint16_t>(i % 4), 100};
        EXPECT_EQ(ibv_modify_cq(pair.a.cq(), &attr), 0);
      }
      return;
    }
    if (thread == 1) {
      for (int i = 0; i < kMessages; ++i) {
        while (i - seen >= 32) std::this_thread::yield();
        EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)},
                                  [&](ibv_send_wr& wr) {
                                    wr.opcode = IBV_WR_RDMA_WRITE;
                                    Target(wr, pair.b, 0);
                                  }),
                  0);
      }
    }
    ibv_wc wc;
    while (seen < kMessages) {
      if (ibv_poll_cq(pair.a.cq(), 1, &wc) != 1) continue;
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      ++seen;
    }
  });
  EXPECT_EQ(seen, kMessages);
}

// Each thread binds, uses and frees its own windows on one device.
TEST(ThreadsTest, EachThreadHasItsOwnWindows) {
  Devices devices;
  RunThreads([&](int) {
    Pair pair(devices.a, devices.b, Patient());
    alignas(64) uint8_t memory[64] = {};
    ibv_mr* mr = ibv_reg_mr(pair.b.pd(), memory, sizeof(memory),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    for (int i = 0; i < 50; ++i) {
      ibv_mw* mw = ibv_alloc_mw(pair.b.pd(), IBV_MW_TYPE_2);
      const uint32_t key = ibv_inc_rkey(mw->rkey);
      EXPECT_EQ(pair.b.PostSend({},
                                [&](ibv_send_wr& wr) {
                                  wr.opcode = IBV_WR_BIND_MW;
                                  wr.bind_mw.mw = mw;
                                  wr.bind_mw.rkey = key;
                                  wr.bind_mw.bind_info = {
                                      mr, reinterpret_cast<uint64_t>(memory),
                                      64, IBV_ACCESS_REMOTE_WRITE};
                                }),
                0);
      EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 64)},
                                [&](ibv_send_wr& wr) {
                                  wr.opcode = IBV_WR_RDMA_WRITE;
                                  wr.wr.rdma.remote_addr =
                                      reinterpret_cast<uint64_t>(memory);
                                  wr.wr.rdma.rkey = key;
                                }),
                0);
      EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
      EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  });
}

}  // namespace
}  // namespace urnic
