// Two threads use one object: one checks what the other changes. Either order
// is correct, and each pair of calls is repeated often enough to collide. Runs
// under ThreadSanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

constexpr int kRounds = 500;

// Runs both at the same time, as far as two threads can.
void Both(const std::function<void()>& one, const std::function<void()>& two) {
  std::atomic<int> ready = 0;
  const auto run = [&](const std::function<void()>& body) {
    ++ready;
    while (ready != 2) std::this_thread::yield();
    body();
  };
  std::thread other(run, two);
  run(one);
  other.join();
}

TEST(RacesTest, ARegionStaysIfAWindowIsBoundWhileItIsDeregistered) {
  OpenDevice device;
  alignas(64) static uint8_t memory[64];
  for (int i = 0; i < kRounds && !testing::Test::HasFailure(); ++i) {
    End end(device, {});
    end.Connect(end.qp()->qp_num);
    ibv_mr* mr = ibv_reg_mr(end.pd(), memory, sizeof(memory),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ibv_mw* mw = ibv_alloc_mw(end.pd(), IBV_MW_TYPE_2);
    // The bind is posted here, and executed after the read's data has arrived.
    EXPECT_EQ(end.PostSend({end.Sge(0, 1 << 16)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_READ;
                             Target(wr, end, 1 << 16);
                           }),
              0);
    EXPECT_EQ(end.PostSend({},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_BIND_MW;
                             wr.send_flags |= IBV_SEND_FENCE;
                             wr.bind_mw.mw = mw;
                             wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
                             wr.bind_mw.bind_info = {
                                 .mr = mr,
                                 .addr = reinterpret_cast<uint64_t>(memory),
                                 .length = sizeof(memory),
                                 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
                           }),
              0);
    int gone = 0;
    ibv_wc bound = {};
    Both([&] { gone = ibv_dereg_mr(mr); },
         [&] {
           EXPECT_EQ(end.Poll().status, IBV_WC_SUCCESS);
           bound = end.Poll();
         });
    if (gone == 0) {
      EXPECT_EQ(bound.status, IBV_WC_MW_BIND_ERR) << "to what is gone";
    } else {
      EXPECT_EQ(gone, EBUSY);
      EXPECT_EQ(bound.status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    if (gone != 0) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
  }
}

TEST(RacesTest, AQueuePairCanBeMovedToErrWhileItFails) {
  OpenDevice device;
  End end(device, {});
  ibv_sge nothing = end.Sge(0, 8);
  nothing.lkey ^= 0x100;
  for (int i = 0; i < kRounds && !testing::Test::HasFailure(); ++i) {
    end.Connect(end.qp()->qp_num);
    Both([&] { EXPECT_EQ(end.To(IBV_QPS_ERR), 0); },
         [&] { EXPECT_EQ(end.PostSend({nothing}), 0); });
    EXPECT_EQ(end.State(), IBV_QPS_ERR);
    EXPECT_EQ(end.To(IBV_QPS_RESET), 0);
  }
}

TEST(RacesTest, ASharedQueueShrinksToItsLimitAndNoFurther) {
  OpenDevice device;
  ibv_pd* pd = ibv_alloc_pd(device);
  for (int i = 0; i < kRounds && !testing::Test::HasFailure(); ++i) {
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = 16;
    attr.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(pd, &attr);
    ASSERT_NE(srq, nullptr);
    Both(
        [&] {
          ibv_srq_attr change = {.max_wr = 8, .max_sge = 0, .srq_limit = 0};
          const int error = ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR);
          EXPECT_TRUE(error == 0 || error == EINVAL);
        },
        [&] {
          ibv_srq_attr change = {.max_wr = 0, .max_sge = 0, .srq_limit = 16};
          const int error = ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT);
          EXPECT_TRUE(error == 0 || error == EINVAL);
          ibv_srq_attr now = {};
          EXPECT_EQ(ibv_query_srq(srq, &now), 0);
          EXPECT_LE(now.srq_limit, now.max_wr);
        });
    ibv_srq_attr now = {};
    EXPECT_EQ(ibv_query_srq(srq, &now), 0);
    EXPECT_LE(now.srq_limit, now.max_wr);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace urnic
