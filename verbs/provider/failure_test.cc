// Wrong arguments, wrong requests and absent peers, and the state of a queue
// pair afterwards.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <functional>
#include <memory>
#include <thread>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

class FailureTest : public testing::Test {
 protected:
  void Make(const PairOptions& options = {}) {
    pair_ = std::make_unique<Pair>(device_, options);
  }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }
  int Write(size_t offset, uint32_t bytes, uint32_t rkey) {
    return a().PostSend({a().Sge(0, bytes)}, [&](ibv_send_wr& wr) {
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.wr.rdma.remote_addr = b().address(offset);
      wr.wr.rdma.rkey = rkey;
    });
  }
  int PostOpcode(int opcode) {
    return a().PostSend({a().Sge(0, 8)}, [&](ibv_send_wr& wr) {
      wr.opcode = static_cast<ibv_wr_opcode>(opcode);
    });
  }

  OpenDevice device_;
  std::unique_ptr<Pair> pair_;
};

//= IBTA 10.3.1
TEST_F(FailureTest, PostingDependsOnTheState) {
  End end(device_, {});
  EXPECT_EQ(end.PostRecv(0, {}), EINVAL) << "RESET";
  EXPECT_EQ(end.PostSend({}), EINVAL);
  EXPECT_EQ(end.ToInit(), 0);
  EXPECT_EQ(end.PostRecv(0, {}), 0) << "INIT";
  EXPECT_EQ(end.PostSend({}), EINVAL);
  EXPECT_EQ(end.ToRtr(end.qp()->qp_num), 0);
  EXPECT_EQ(end.PostSend({}), EINVAL) << "RTR";
  EXPECT_EQ(end.ToRts(), 0);
  EXPECT_EQ(end.PostSend({}), 0) << "RTS";
}

TEST_F(FailureTest, PostingChecksTheRequest) {
  Make();
  const uint32_t sges = a().cap().max_send_sge;
  std::vector<ibv_sge> list(sges + 1, a().Sge(0, 8));
  EXPECT_EQ(a().PostSend(list), EINVAL);
  list.resize(b().cap().max_recv_sge + 1);
  EXPECT_EQ(b().PostRecv(1, list), EINVAL);
  EXPECT_EQ(a().PostSend({}, [](ibv_send_wr& wr) { wr.num_sge = -1; }), EINVAL);
  const uint32_t too_much = a().cap().max_inline_data + 1;
  EXPECT_EQ(
      a().PostSend({a().Sge(0, too_much)},
                   [](ibv_send_wr& wr) { wr.send_flags |= IBV_SEND_INLINE; }),
      EINVAL);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_READ;
                           wr.send_flags |= IBV_SEND_INLINE;
                         }),
            EINVAL);
  EXPECT_EQ(
      a().PostSend({a().Sge(0, 8)},
                   [](ibv_send_wr& wr) { wr.send_flags |= IBV_SEND_IP_CSUM; }),
      EINVAL);
  constexpr int kFlush = 14;  // only with ibv_wr_flush
  for (int opcode : {int{IBV_WR_TSO}, int{IBV_WR_DRIVER1}, kFlush}) {
    EXPECT_EQ(PostOpcode(opcode), EOPNOTSUPP) << opcode;
  }
  for (int opcode : {16, 31, 32, 1000, -1}) {
    EXPECT_EQ(PostOpcode(opcode), EINVAL) << opcode;
  }
  EXPECT_TRUE(a().Quiet()) << "nothing of that was posted";
}

TEST_F(FailureTest, ReadsNeedMaxRdAtomic) {
  PairOptions options;
  options.rd_atomic = 0;
  Make(options);
  EXPECT_EQ(PostOpcode(IBV_WR_RDMA_READ), EINVAL);
  EXPECT_EQ(PostOpcode(IBV_WR_ATOMIC_FETCH_AND_ADD), EINVAL);
}

TEST_F(FailureTest, AFullQueueGivesEnomem) {
  Make();
  // No receive is posted, so the sends wait.
  uint32_t posted = 0;
  int error = 0;
  while ((error = a().PostSend({a().Sge(0, 8)})) == 0) ++posted;
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(posted, a().cap().max_send_wr);
  posted = 0;
  while ((error = a().PostRecv(posted, {})) == 0) ++posted;
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(posted, a().cap().max_recv_wr);
}

TEST_F(FailureTest, ABadLocalKeyFailsTheQueuePairAndFlushes) {
  Make();
  ibv_sge sge = a().Sge(0, 8);
  sge.lkey ^= 0x100;
  EXPECT_EQ(a().PostRecv(77, {}), 0);
  EXPECT_EQ(a().PostSend({sge}, [](ibv_send_wr& wr) { wr.wr_id = 1; }), 0);
  EXPECT_EQ(
      a().PostSend({a().Sge(0, 8)}, [](ibv_send_wr& wr) { wr.wr_id = 2; }), 0);
  ibv_wc wc = a().Poll();
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 1u);
  bool receive_seen = false;
  bool send_seen = false;
  for (int i = 0; i < 2; ++i) {
    wc = a().Poll();
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    receive_seen |= wc.wr_id == 77;
    send_seen |= wc.wr_id == 2;
  }
  EXPECT_TRUE(receive_seen && send_seen);
  EXPECT_EQ(a().State(), IBV_QPS_ERR);
  // Later requests are flushed as well.
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a().PostRecv(78, {}), 0);
  wc = a().Poll();
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 78u);
}

TEST_F(FailureTest, RemoteKeysRangesAndRightsAreChecked) {
  Make();
  EXPECT_EQ(Write(0, 8, b().mr()->rkey + 1), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  Make();
  EXPECT_EQ(Write(End::kBytes - 4, 8, b().mr()->rkey), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b().State(), IBV_QPS_ERR);
  Make();
  ibv_mr* read_only =
      ibv_reg_mr(b().pd(), b().memory(), 4096, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(Write(0, 8, read_only->rkey), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(read_only), 0);
  // A region of another protection domain.
  Make();
  EXPECT_EQ(Write(0, 8, a().mr()->rkey), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FailureTest, AKeyIsInvalidAfterDeregistration) {
  Make();
  ibv_mr* mr = ibv_reg_mr(b().pd(), b().memory(), 4096, kAllRights);
  const uint32_t key = mr->rkey;
  EXPECT_EQ(Write(0, 8, key), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(Write(0, 8, key), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FailureTest, UnmappedMemoryFailsTheQueuePair) {
  constexpr size_t kPage = 4096;
  for (const bool source : {true, false}) {
    Make();
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    ibv_mr* mr =
        ibv_reg_mr(source ? a().pd() : b().pd(), page, kPage, kAllRights);
    ASSERT_NE(mr, nullptr);
    munmap(page, kPage);
    const ibv_sge gone = {reinterpret_cast<uint64_t>(page), 8, mr->lkey};
    EXPECT_EQ(a().PostSend({source ? gone : a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             wr.opcode = IBV_WR_RDMA_WRITE;
                             Target(wr, b(), 0);
                             if (source) return;
                             wr.wr.rdma.remote_addr = gone.addr;
                             wr.wr.rdma.rkey = mr->rkey;
                           }),
              0);
    EXPECT_EQ(a().Poll().status,
              source ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
}

// Each way to block the signals that the memory guard needs, in a thread that
// has used verbs before and is known not to block them.
TEST_F(FailureTest, UnmappedMemoryIsFoundAlsoWhenAThreadBlocksTheSignalsLater) {
  constexpr size_t kPage = 4096;
  sigset_t all;
  sigfillset(&all);
  const std::function<void()> ways[] = {
      [&] { pthread_sigmask(SIG_SETMASK, &all, nullptr); },
      [&] { sigprocmask(SIG_BLOCK, &all, nullptr); },
  };
  for (const auto& block : ways) {
    Make();
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    ibv_mr* mr = ibv_reg_mr(b().pd(), page, kPage, kAllRights);
    ASSERT_NE(mr, nullptr);
    const auto write = [&] {
      EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                             [&](ibv_send_wr& wr) {
                               wr.opcode = IBV_WR_RDMA_WRITE;
                               Target(wr, b(), 0);
                               wr.wr.rdma.remote_addr =
                                   reinterpret_cast<uint64_t>(page);
                               wr.wr.rdma.rkey = mr->rkey;
                             }),
                0);
      return a().Poll().status;
    };
    std::thread([&] {
      EXPECT_EQ(write(), IBV_WC_SUCCESS);
      munmap(page, kPage);
      block();
      EXPECT_EQ(write(), IBV_WC_REM_OP_ERR);
    }).join();
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
}

TEST_F(FailureTest, AReceiveThatIsTooSmallIsALengthError) {
  Make();
  EXPECT_EQ(b().PostRecv(5, {b().Sge(0, 7)}), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  const ibv_wc wc = b().Poll();
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(FailureTest, WithoutReceivesASenderGivesUpAfterItsRetries) {
  PairOptions options;
  options.rnr_retry = 3;
  Make(options);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  const ibv_wc wc = a().Poll();
  EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(wc.vendor_err, 1002u);  // urnic explain 1002
}

TEST_F(FailureTest, ALateReceiveIsFound) {
  Make();
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  EXPECT_TRUE(a().Quiet());
  EXPECT_EQ(b().PostRecv(1, {b().Sge(0, 8)}), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
}

TEST_F(FailureTest, ADeadPeerExhaustsTheRetries) {
  PairOptions options;
  options.timeout = 8;  // 1 ms
  options.retry_cnt = 3;
  Make(options);
  b().DestroyQp();
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  ibv_wc wc = a().Poll();
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(wc.vendor_err, 1001u);
  EXPECT_EQ(a().State(), IBV_QPS_ERR);
  wc = a().Poll();
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.vendor_err, 1012u);
}

TEST_F(FailureTest, ErrFlushesAndResetForgets) {
  Make();
  EXPECT_EQ(a().PostRecv(1, {}), 0);
  EXPECT_EQ(a().PostRecv(2, {}), 0);
  EXPECT_EQ(a().To(IBV_QPS_ERR), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a().Poll().wr_id, 2u);
  EXPECT_TRUE(a().Quiet());
  EXPECT_EQ(a().To(IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(a().PostRecv(3, {}), 0);
  EXPECT_EQ(a().To(IBV_QPS_RESET), 0);
  EXPECT_TRUE(a().Quiet()) << "its completion went with the reset";
}

// No packet arrives that would make the engine check the queue pair.
//= IBTA 10.3.1
TEST_F(FailureTest, AStoppedSendQueueFlushesWhatIsPostedLater) {
  PairOptions options;
  options.type = IBV_QPT_UC;
  Make(options);
  const auto post = [&](uint64_t id, uint32_t lkey) {
    ibv_sge sge = a().Sge(0, 8);
    sge.lkey = lkey;
    EXPECT_EQ(a().PostSend({sge}, [&](ibv_send_wr& wr) { wr.wr_id = id; }), 0);
  };
  for (uint64_t round = 0; round < 3; ++round) {
    post(1, a().mr()->lkey ^ 0x100);
    EXPECT_EQ(a().Poll().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(a().State(), IBV_QPS_SQE);
    for (const uint64_t id : {uint64_t{2}, uint64_t{3}}) {
      post(id, a().mr()->lkey);
      const ibv_wc wc = a().Poll();
      EXPECT_EQ(wc.wr_id, id);
      ASSERT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    EXPECT_EQ(a().To(IBV_QPS_RTS), 0);
    EXPECT_TRUE(a().Quiet());
    EXPECT_EQ(b().PostRecv(round, {b().Sge(0, 8)}), 0);
    post(4, a().mr()->lkey);
    EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b().Poll().wr_id, round);
  }
}

TEST_F(FailureTest, DestroyRemovesTheCompletions) {
  Make();
  EXPECT_EQ(a().PostRecv(1, {}), 0);
  EXPECT_EQ(a().To(IBV_QPS_ERR), 0);
  a().DestroyQp();
  EXPECT_TRUE(a().Quiet());
}

TEST_F(FailureTest, CreationChecksItsArguments) {
  End end(device_, {});
  const auto create = [&](auto change) {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = end.cq();
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    change(init);
    errno = 0;
    ibv_qp* qp = ibv_create_qp(end.pd(), &init);
    if (qp != nullptr) ibv_destroy_qp(qp);
    return qp != nullptr ? 0 : errno;
  };
  EXPECT_EQ(create([](auto&) {}), 0);
  EXPECT_EQ(create([](auto& i) { i.cap.max_send_wr = 16385; }), EINVAL);
  EXPECT_EQ(create([](auto& i) { i.cap.max_recv_sge = 33; }), EINVAL);
  EXPECT_EQ(create([](auto& i) { i.cap.max_inline_data = 513; }), EINVAL);
  EXPECT_EQ(create([](auto& i) { i.send_cq = nullptr; }), EINVAL);
  EXPECT_EQ(create([](auto& i) { i.recv_cq = nullptr; }), EINVAL);
  EXPECT_EQ(create([](auto& i) { i.qp_type = IBV_QPT_RAW_PACKET; }),
            EOPNOTSUPP);
  EXPECT_EQ(create([](auto& i) { i.qp_type = IBV_QPT_XRC_RECV; }), EINVAL)
      << "without an XRC domain";
  EXPECT_EQ(create([](auto& i) { i.qp_type = static_cast<ibv_qp_type>(77); }),
            EINVAL);
  for (int cqe : {0, -1, 4194305}) {
    EXPECT_EQ(ibv_create_cq(device_, cqe, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL) << cqe;
  }
  EXPECT_EQ(ibv_create_cq(device_, 1, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(end.pd(), nullptr, 4096, 0), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(ibv_reg_mr(end.pd(), end.memory(), 8, IBV_ACCESS_REMOTE_WRITE),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(FailureTest, ModifyChecksItsArguments) {
  End end(device_, {});
  EXPECT_EQ(end.ToRtr(1), EINVAL) << "RESET to RTR";
  for (int state : {7, 8, 259, -1}) {
    EXPECT_EQ(end.To(static_cast<ibv_qp_state>(state)), EINVAL) << state;
  }
  EXPECT_EQ(end.To(IBV_QPS_INIT), EINVAL) << "attributes are missing";
  EXPECT_EQ(end.ToInit(), 0);
  EXPECT_EQ(end.ToRtr(1 << 24), EINVAL);
  PairOptions strange;
  strange.mtu = 256 + IBV_MTU_1024;
  End odd(device_, strange);
  EXPECT_EQ(odd.ToInit(), 0);
  EXPECT_EQ(odd.ToRtr(1), EINVAL);
  EXPECT_EQ(end.qp()->state, IBV_QPS_INIT);
  PairOptions options;
  options.gid_index = 32;  // empty
  End empty(device_, options);
  EXPECT_EQ(empty.ToInit(), 0);
  EXPECT_EQ(empty.ToRtr(1), EINVAL);
}

TEST_F(FailureTest, ModifyRefusesAlternatePathsAndOtherLinks) {
  End end(device_, {});
  EXPECT_EQ(end.ToInit(), 0);
  ibv_gid elsewhere = {};
  ibv_query_gid(device_, 1, kGidIndexIpv4, &elsewhere);
  ++elsewhere.raw[12];
  end.set_peer(elsewhere);
  EXPECT_EQ(end.ToRtr(1), ENETUNREACH);
  EXPECT_EQ(end.State(), IBV_QPS_INIT);
  Make();
  ibv_qp_attr attr = {};
  EXPECT_EQ(ibv_modify_qp(a().qp(), &attr, IBV_QP_ALT_PATH), EOPNOTSUPP);
  attr.path_mig_state = IBV_MIG_ARMED;
  EXPECT_EQ(ibv_modify_qp(a().qp(), &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
  EXPECT_EQ(a().State(), IBV_QPS_RTS);
}

TEST_F(FailureTest, BusyObjectsAreNotDestroyed) {
  Make();
  EXPECT_EQ(ibv_destroy_cq(a().cq()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(a().pd()), EBUSY);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_WRITE;
                           Target(wr, b(), 0);
                         }),
            0);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS) << "they still work";
}

TEST_F(FailureTest, AFullCompletionQueueRaisesAnEventAndOverwritesNothing) {
  End sender(device_, {});
  ibv_cq* small = ibv_create_cq(device_, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = small;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 1;
  init.cap.max_recv_wr = 16;
  ibv_qp* qp = ibv_create_qp(sender.pd(), &init);
  ASSERT_NE(qp, nullptr);
  ibv_qp_attr a = {};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &a,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              IBV_QP_ACCESS_FLAGS),
            0);
  for (uint64_t i = 0; i < 16; ++i) {
    ibv_recv_wr wr = {};
    wr.wr_id = i;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  a.qp_state = IBV_QPS_ERR;  // flushes all sixteen
  ASSERT_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, small);
  ibv_ack_async_event(&event);
  ibv_wc wc[16];
  EXPECT_EQ(ibv_poll_cq(small, 16, wc), 4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(wc[i].wr_id, i);
  // No completion follows the lost ones, although there is room now.
  ibv_recv_wr late = {};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ibv_post_recv(qp, &late, &bad), 0);
    EXPECT_EQ(ibv_poll_cq(small, 16, wc), 0);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

// A queue pair whose completions are lost must stop: otherwise its later work
// would be lost silently.
TEST_F(FailureTest, AFullCompletionQueueEndsItsQueuePairs) {
  PairOptions options;
  options.depth = 4;  // and 8 completions
  Make(options);
  ibv_wc wc;
  for (int i = 0; i < 9; ++i) {
    // Runs the engine without polling a's completions.
    int error = ENOMEM;
    while (error == ENOMEM) {
      ibv_poll_cq(b().cq(), 1, &wc);
      error = Write(0, 8, b().mr()->rkey);
    }
    ASSERT_EQ(error, 0);
  }
  for (ibv_event_type type : {IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL}) {
    ibv_async_event event;
    ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
    EXPECT_EQ(event.event_type, type);
    ibv_ack_async_event(&event);
  }
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(a().qp(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
}

}  // namespace
}  // namespace urnic
