// Verbs that are called where they must not be: on objects that were destroyed,
// in signal handlers inside verbs, by threads that are late. The program goes
// on. Runs under ThreadSanitizer.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "verbs/provider/testing/logged.h"
#include "verbs/provider/testing/shown.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whether two new ends can still talk: the rest of the program is well.
void ExpectTransfers(OpenDevice& device) {
  Pair pair(device);
  EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
}

// --- Destroyed objects -------------------------------------------------------

TEST(DestroyedTest, AQueuePairIsRefused) {
  const auto lines = LogOf([](OpenDevice& device) {
    PairOptions options;
    options.send_ops = IBV_QP_EX_WITH_SEND;
    End end(device, options);
    end.Connect(end.qp()->qp_num);
    ibv_qp* const qp = end.qp();
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp);
    end.DestroyQp();
    ibv_send_wr send = {};
    ibv_send_wr* bad_send = nullptr;
    ibv_recv_wr receive = {};
    ibv_recv_wr* bad_receive = nullptr;
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);
    EXPECT_EQ(bad_send, &send);
    EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EINVAL);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, 0, 0, 0);
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
    ibv_wr_start(ex);
    ibv_wr_abort(ex);
    EXPECT_EQ(ibv_destroy_qp(qp), EINVAL);
    ExpectTransfers(device);
  });
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN2017"),
                                    HasSubstr("post_send: uRNIC-QP at 0x"),
                                    HasSubstr("was destroyed before"))));
  EXPECT_THAT(lines, Contains(HasSubstr("DestroyQp: uRNIC-QP")));
}

TEST(DestroyedTest, ACompletionQueueIsRefused) {
  OpenDevice device;
  ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
  ASSERT_EQ(ibv_destroy_cq(cq), 0);
  ibv_wc wc;
  errno = 0;
  EXPECT_LT(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, 16), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), EINVAL);
  ExpectTransfers(device);
}

TEST(DestroyedTest, AllOtherObjectsAreRefused) {
  OpenDevice device;
  ibv_pd* const gone = ibv_alloc_pd(device);
  ASSERT_EQ(ibv_dealloc_pd(gone), 0);
  ibv_pd* const pd = ibv_alloc_pd(device);
  ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
  ibv_cq* const gone_cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
  ASSERT_EQ(ibv_destroy_cq(gone_cq), 0);

  uint8_t memory[64] = {};
  EXPECT_EQ(ibv_reg_mr(gone, memory, sizeof(memory), 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(gone), EINVAL);
  ibv_srq_init_attr srq_init = {};
  srq_init.attr.max_wr = 8;
  srq_init.attr.max_sge = 1;
  EXPECT_EQ(ibv_create_srq(gone, &srq_init), nullptr);
  ibv_qp_init_attr init = {};
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.send_cq = cq;
  init.recv_cq = gone_cq;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);

  ibv_mr* const mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), EINVAL);
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE),
            0);
  ibv_mw* const mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  ASSERT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dealloc_mw(mw), EINVAL);
  ibv_srq* const srq = ibv_create_srq(pd, &srq_init);
  ASSERT_EQ(ibv_destroy_srq(srq), 0);
  ibv_recv_wr receive = {};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &receive, &bad), EINVAL);
  ibv_srq_attr attr = {};
  EXPECT_EQ(ibv_query_srq(srq, &attr), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(srq), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  ExpectTransfers(device);
}

TEST(DestroyedTest, WhatIsInAStructIsLookedAtToo) {
  OpenDevice device;
  ibv_pd* const gone = ibv_alloc_pd(device);
  ASSERT_EQ(ibv_dealloc_pd(gone), 0);
  ibv_parent_domain_init_attr parent = {};
  parent.pd = gone;
  errno = 0;
  EXPECT_EQ(ibv_alloc_parent_domain(device, &parent), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_cq_init_attr_ex cq_init = {};
  cq_init.cqe = 8;
  cq_init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_init.parent_domain = gone;
  EXPECT_EQ(ibv_create_cq_ex(device, &cq_init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd_init_attr xrcd_init = {};
  xrcd_init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd_init.fd = -1;
  xrcd_init.oflags = O_CREAT;
  ibv_xrcd* const xrcd = ibv_open_xrcd(device, &xrcd_init);
  ASSERT_NE(xrcd, nullptr);
  ASSERT_EQ(ibv_close_xrcd(xrcd), 0);
  ibv_qp_open_attr open = {};
  open.comp_mask =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.xrcd = xrcd;
  open.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_open_qp(device, &open), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(DestroyedTest, ADomainWithAnObjectThatIsJustMadeStays) {
  OpenDevice device;
  uint8_t memory[64] = {};
  for (int i = 0; i < 300; ++i) {
    ibv_pd* const pd = ibv_alloc_pd(device);
    std::atomic<int> ready = 0;
    ibv_mr* mr = nullptr;
    int made = 0;
    std::thread maker([&] {
      ++ready;
      while (ready != 2) std::this_thread::yield();
      mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
      made = mr != nullptr ? 0 : errno;
    });
    ++ready;
    while (ready != 2) std::this_thread::yield();
    const int gone = ibv_dealloc_pd(pd);
    maker.join();
    if (mr == nullptr) {
      EXPECT_EQ(made, EINVAL);
      EXPECT_EQ(gone, 0);
    } else {
      EXPECT_EQ(gone, EBUSY);
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
      EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    }
  }
}

TEST(DestroyedTest, APollerSurvivesTheEndOfItsQueue) {
  OpenDevice device;
  for (int i = 0; i < 100; ++i) {
    ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
    std::atomic<bool> polling = false;
    std::thread poller([&] {
      ibv_wc wc;
      while (ibv_poll_cq(cq, 1, &wc) == 0) polling = true;
      EXPECT_EQ(errno, EINVAL);
    });
    while (!polling) std::this_thread::yield();
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    poller.join();
  }
}

TEST(DestroyedTest, APosterSurvivesTheEndOfItsQueuePair) {
  OpenDevice device;
  for (int i = 0; i < 50; ++i) {
    End end(device, {});
    ASSERT_EQ(end.ToInit(), 0);
    ibv_qp* const qp = end.qp();
    std::atomic<bool> posting = false;
    std::thread poster([&] {
      for (;;) {
        ibv_recv_wr receive = {};
        ibv_recv_wr* bad = nullptr;
        if (ibv_post_recv(qp, &receive, &bad) == EINVAL) return;
        posting = true;
      }
    });
    while (!posting) std::this_thread::yield();
    end.DestroyQp();
    poster.join();
  }
}

TEST(DestroyedTest, OfTwoThreadsThatDestroyAnObjectOneDoes) {
  OpenDevice device;
  for (int i = 0; i < 200; ++i) {
    ibv_cq* const cq = ibv_create_cq(device, 8, nullptr, nullptr, 0);
    std::atomic<int> ready = 0;
    int results[2] = {-1, -1};
    const auto destroy = [&](int which) {
      ++ready;
      while (ready != 2) std::this_thread::yield();
      results[which] = ibv_destroy_cq(cq);
    };
    std::thread other(destroy, 1);
    destroy(0);
    other.join();
    EXPECT_THAT(results, ::testing::UnorderedElementsAre(0, EINVAL));
  }
}

// --- Signal handlers ---------------------------------------------------------

struct {
  ibv_qp* qp = nullptr;
  ibv_cq* cq = nullptr;
  std::atomic<uint64_t> refused = 0;
  std::atomic<uint64_t> allowed = 0;
} g_handler;

// Posts and polls, as a program must not.
void PostInHandler(int) {
  const int saved = errno;
  ibv_recv_wr receive = {};
  receive.wr_id = 99;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(g_handler.qp, &receive, &bad);
  ++(error == EDEADLK ? g_handler.refused : g_handler.allowed);
  errno = saved;
}

TEST(HandlerTest, AVerbInsideAVerbIsRefusedAndTheTransferGoesOn) {
  const auto lines = LogOf([](OpenDevice& device) {
    Pair pair(device);
    g_handler.qp = pair.b.qp();
    struct sigaction action = {};
    struct sigaction before = {};
    action.sa_handler = PostInHandler;
    ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
    const itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; g_handler.refused < 3; ++i) {
      ibv_wc wc;
      pair.a.PostSend({pair.a.Sge(0, 8)}, [&](ibv_send_wr& wr) {
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = pair.b.address();
        wr.wr.rdma.rkey = pair.b.mr()->rkey;
      });
      while (ibv_poll_cq(pair.a.cq(), 1, &wc) == 0) {
      }
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << i;
    }
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    ExpectTransfers(device);
  });
  EXPECT_GE(g_handler.refused, 3u);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN2019"),
                                    HasSubstr("was inside a verb"))));
}

TEST(HandlerTest, AListInsideAListIsRefused) {
  OpenDevice device;
  PairOptions options;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  Pair pair(device, options);
  EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(pair.a.qp());
  ibv_wr_start(ex);
  ex->wr_id = 5;
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(ex);
  // As a handler would, in the middle.
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_set_sge(ex, 1, 2, 3);
  EXPECT_EQ(ibv_wr_complete(ex), EDEADLK);
  ibv_wr_start(ex);
  ibv_wr_abort(ex);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), EDEADLK);
  ibv_wr_set_sge(ex, pair.a.mr()->lkey, pair.a.address(), 8);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(pair.a.Poll().wr_id, 5u);
  EXPECT_EQ(pair.b.Poll().byte_len, 8u);
  EXPECT_TRUE(pair.a.Quiet()) << "nothing else was posted";
}

// As by a handler inside a verb, whose wr_start had no effect.
TEST(HandlerTest, AListThatWasNotStartedIsRefused) {
  OpenDevice device;
  PairOptions options;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  Pair pair(device, options);
  ibv_qp_ex* const ex = ibv_qp_to_qp_ex(pair.a.qp());
  for (int i = 0; i < 3; ++i) {
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, pair.a.mr()->lkey, pair.a.address(), 8);
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
    ibv_wr_abort(ex);
  }
  EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 16)}), 0);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 16)}), 0);
  EXPECT_EQ(pair.b.Poll().byte_len, 16u) << "nothing came before it";
}

TEST(HandlerTest, WithAThreadDomainAListInsideAListIsRefusedToo) {
  OpenDevice device;
  ibv_pd* const pd = ibv_alloc_pd(device);
  ibv_td_init_attr td_init = {};
  ibv_td* const td = ibv_alloc_td(device, &td_init);
  ibv_parent_domain_init_attr parent_init = {};
  parent_init.pd = pd;
  parent_init.td = td;
  ibv_pd* const parent = ibv_alloc_parent_domain(device, &parent_init);
  {
    PairOptions options;
    options.pd = parent;
    options.send_ops = IBV_QP_EX_WITH_SEND;
    Pair pair(device, options);
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(pair.a.qp());
    ibv_wr_start(ex);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    EXPECT_EQ(ibv_wr_complete(ex), EDEADLK);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), EDEADLK);
    ibv_wr_abort(ex);
    EXPECT_TRUE(pair.a.Quiet());
  }
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(HandlerTest, ABatchInsideABatchIsRefused) {
  OpenDevice device;
  ibv_cq_init_attr_ex init = {};
  init.cqe = 64;
  ibv_cq_ex* const cq = ibv_create_cq_ex(device, &init);
  {
    PairOptions options;
    options.cq = ibv_cq_ex_to_cq(cq);
    Pair pair(device, options);
    EXPECT_EQ(pair.b.PostRecv(1, {pair.b.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    ibv_poll_cq_attr attr = {};
    while (ibv_start_poll(cq, &attr) == ENOENT) {
    }
    EXPECT_EQ(ibv_start_poll(cq, &attr), EDEADLK);
    ibv_end_poll(cq);
    ibv_end_poll(cq);  // once too often
    while (ibv_start_poll(cq, &attr) == ENOENT) {
    }
    ibv_end_poll(cq);
  }
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// --- Allocators of the program -----------------------------------------------

TEST(AllocatorTest, ItMayCallVerbs) {
  OpenDevice device;
  ibv_pd* const pd = ibv_alloc_pd(device);
  ibv_parent_domain_init_attr attr = {};
  attr.pd = pd;
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  attr.pd_context = pd;
  attr.alloc = [](ibv_pd*, void* domain, size_t bytes, size_t alignment,
                  uint64_t) {
    void* const memory = std::aligned_alloc(
        alignment, (bytes + alignment - 1) / alignment * alignment);
    ibv_mr* const mr =
        ibv_reg_mr(static_cast<ibv_pd*>(domain), memory, bytes, 0);
    EXPECT_NE(mr, nullptr) << strerror(errno);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    return memory;
  };
  attr.free = [](ibv_pd*, void*, void* memory, uint64_t) { std::free(memory); };
  ibv_pd* const parent = ibv_alloc_parent_domain(device, &attr);
  ASSERT_NE(parent, nullptr);
  {
    PairOptions options;
    options.pd = parent;
    End end(device, options);
  }
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// --- Events ------------------------------------------------------------------

TEST(EventsTest, AQueueWhoseEventsAreNotAcknowledgedIsNamed) {
  const auto lines = LogOf([](OpenDevice& device) {
    ibv_comp_channel* const channel = ibv_create_comp_channel(device);
    ASSERT_NE(channel, nullptr);
    PairOptions options;
    options.channel = channel;
    auto pair = std::make_unique<Pair>(device, options);
    ASSERT_EQ(ibv_req_notify_cq(pair->b.cq(), 0), 0);
    ASSERT_EQ(pair->b.PostRecv(0, {pair->b.Sge(0, 8)}), 0);
    ASSERT_EQ(pair->a.PostSend({pair->a.Sge(0, 8)}), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
    std::thread late([=] {
      while (Shown("offender").empty()) usleep(10'000);
      EXPECT_THAT(Shown("offender"), HasSubstr("blocks:events"));
      EXPECT_THAT(Shown("error"), HasSubstr("URN1917"));
      ibv_ack_cq_events(cq, 1);
    });
    pair.reset();
    late.join();
    EXPECT_EQ(Shown("offender"), "");
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  });
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("URN1917"),
                             HasSubstr("has not acknowledged its events"))));
}

// --- Threads that are late ---------------------------------------------------

TEST(LateTest, AThreadThatDoesNotLeaveIsNamed) {
  const auto lines = LogOf([](OpenDevice& device) {
    End end(device, {});
    ASSERT_EQ(end.ToInit(), 0);
    ibv_gid nobody = {};
    const uint8_t address[16] = {0, 0, 0,    0,    0,  0, 0, 0,
                                 0, 0, 0xff, 0xff, 10, 9, 0, 77};
    std::memcpy(nobody.raw, address, sizeof(address));
    end.set_peer(nobody);
    std::thread slow([&] {
      EXPECT_EQ(end.ToRtr(7), ETIMEDOUT) << "asks the network for 3 s";
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    end.DestroyQp();
    slow.join();
  });
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1910"),
                                    HasSubstr("does not leave ModifyQp"))));
}

}  // namespace
}  // namespace urnic
