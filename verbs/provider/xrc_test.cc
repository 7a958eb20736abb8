// XRC: domains, target queue pairs with several openers, and shared receive
// queues that peers address by number.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

constexpr uint32_t kPsn = 0x123;

// An initiator and a target of one device, the target's domain and its queue.
class XrcTest : public testing::Test {
 protected:
  XrcTest() : end_(device_, {}) {
    domain_ = OpenDomain(device_, -1, O_CREAT);
    recv_cq_ = ibv_create_cq(device_, 2, nullptr, nullptr, 0);
    srq_ = MakeQueue();
    target_ = MakeTarget();
    ibv_qp_init_attr_ex init = {};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.send_cq = end_.cq();
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 0,
                .max_send_sge = 1,
                .max_recv_sge = 0,
                .max_inline_data = 0};
    init.sq_sig_all = 1;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = end_.pd();
    initiator_ = ibv_create_qp_ex(device_, &init);
  }
  ~XrcTest() override {
    EXPECT_EQ(ibv_destroy_qp(initiator_), 0);
    if (target_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(target_), 0);
    }
    EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    EXPECT_EQ(ibv_destroy_cq(recv_cq_), 0);
    EXPECT_EQ(ibv_close_xrcd(domain_), 0);
  }

  static ibv_xrcd* OpenDomain(ibv_context* context, int fd, int flags) {
    ibv_xrcd_init_attr attr = {};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    attr.oflags = flags;
    return ibv_open_xrcd(context, &attr);
  }
  ibv_srq* MakeQueue() {
    ibv_srq_init_attr_ex init = {};
    init.attr.max_wr = 8;
    init.attr.max_sge = 1;
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = end_.pd();
    init.xrcd = domain_;
    init.cq = recv_cq_;
    return ibv_create_srq_ex(device_, &init);
  }
  ibv_qp* MakeTarget() {
    ibv_qp_init_attr_ex init = {};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = domain_;
    return ibv_create_qp_ex(device_, &init);
  }
  static ibv_qp* Open(ibv_context* context, ibv_xrcd* xrcd, uint32_t number,
                      uint32_t more = 0, ibv_qp_type type = IBV_QPT_XRC_RECV) {
    ibv_qp_open_attr attr = {};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
                     IBV_QP_OPEN_ATTR_TYPE | more;
    attr.qp_num = number;
    attr.xrcd = xrcd;
    attr.qp_type = type;
    errno = 0;
    return ibv_open_qp(context, &attr);
  }

  void Connect() {
    const uint32_t number = target_->qp_num;
    for (ibv_qp* qp : {initiator_, target_}) {
      const bool target = qp == target_;
      ibv_qp_attr a = {};
      a.qp_state = IBV_QPS_INIT;
      a.port_num = 1;
      a.qp_access_flags = kAllRights & ~IBV_ACCESS_LOCAL_WRITE;
      ASSERT_EQ(ibv_modify_qp(qp, &a,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                  IBV_QP_ACCESS_FLAGS),
                0);
      a.qp_state = IBV_QPS_RTR;
      a.path_mtu = IBV_MTU_1024;
      a.dest_qp_num = target ? initiator_->qp_num : number;
      a.rq_psn = kPsn;
      a.max_dest_rd_atomic = 1;
      a.min_rnr_timer = 1;
      a.ah_attr.is_global = 1;
      a.ah_attr.port_num = 1;
      a.ah_attr.grh.sgid_index = kGidIndexIpv4;
      ibv_query_gid(device_, 1, kGidIndexIpv4, &a.ah_attr.grh.dgid);
      ASSERT_EQ(ibv_modify_qp(
                    qp, &a,
                    target ? End::kRtrMask
                           : End::kRtrMask & ~int{IBV_QP_MAX_DEST_RD_ATOMIC |
                                                  IBV_QP_MIN_RNR_TIMER}),
                0);
      a.qp_state = IBV_QPS_RTS;
      a.sq_psn = kPsn;
      a.timeout = 14;
      a.retry_cnt = a.rnr_retry = 7;
      a.max_rd_atomic = 1;
      ASSERT_EQ(ibv_modify_qp(
                    qp, &a,
                    target ? int{IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN}
                           : End::kRtsMask),
                0);
    }
  }
  void PostReceives(int count) {
    for (int i = 0; i < count; ++i) {
      ibv_sge sge = end_.Sge(0, 64);
      ibv_recv_wr wr = {};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_srq_recv(srq_, &wr, &bad), 0);
    }
  }
  // Sends to the shared queue, or to the one with this number. Returns the
  // status of the request.
  ibv_wc_status Send() {
    uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq_, &number), 0);
    return Send(number);
  }
  ibv_wc_status Send(uint32_t number) {
    ibv_sge sge = end_.Sge(128, 8);
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.qp_type.xrc.remote_srqn = number;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(initiator_, &wr, &bad), 0);
    return end_.Poll().status;
  }
  static ibv_async_event Next(ibv_context* context) {
    ibv_async_event event;
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
    return event;
  }

  OpenDevice device_;
  End end_;
  ibv_xrcd* domain_ = nullptr;
  ibv_cq* recv_cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp* target_ = nullptr;
  ibv_qp* initiator_ = nullptr;
};

TEST_F(XrcTest, AMessageNamesItsQueue) {
  Connect();
  PostReceives(1);
  EXPECT_EQ(Send(), IBV_WC_SUCCESS);
  ibv_wc wc;
  ASSERT_EQ(ibv_poll_cq(recv_cq_, 1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 8u);
}

TEST_F(XrcTest, ADestroyedQueueIsNotFoundByItsNumber) {
  Connect();
  uint32_t gone = 0;
  ASSERT_EQ(ibv_get_srq_num(srq_, &gone), 0);
  ibv_srq* other = MakeQueue();
  std::swap(srq_, other);
  EXPECT_EQ(ibv_destroy_srq(other), 0);
  PostReceives(1);
  EXPECT_EQ(Send(gone), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Next(device_).event_type, IBV_EVENT_QP_ACCESS_ERR);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(recv_cq_, 1, &wc), 0);
}

// rdma_create_qp() takes the protection domain of an id from its queue pair,
// and rdma_create_srq() takes the queue's from the id (rdma_xserver -c x).
TEST_F(XrcTest, ATargetKeepsTheProtectionDomainThatItIsGiven) {
  ibv_qp_init_attr_ex init = {};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD;
  init.xrcd = domain_;
  init.pd = end_.pd();
  ibv_qp* qp = ibv_create_qp_ex(device_, &init);
  ASSERT_NE(qp, nullptr) << strerror(errno);
  EXPECT_EQ(qp->pd, end_.pd());
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(XrcTest, ATargetIsSharedByItsNumber) {
  Connect();
  ibv_qp* other = Open(device_, domain_, target_->qp_num);
  ASSERT_NE(other, nullptr) << strerror(errno);
  EXPECT_EQ(other->qp_num, target_->qp_num);
  EXPECT_EQ(other->state, IBV_QPS_RTS);
  ibv_qp_attr a = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(ibv_query_qp(other, &a, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(a.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.qp_type, IBV_QPT_XRC_RECV);
  // The creator destroys its handle, and the connection stays.
  EXPECT_EQ(ibv_destroy_qp(target_), 0);
  target_ = nullptr;
  PostReceives(1);
  EXPECT_EQ(Send(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_close_xrcd(domain_), EBUSY);
  const uint32_t number = other->qp_num;
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  EXPECT_EQ(Open(device_, domain_, number), nullptr) << "gone with the last";
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcTest, AllOpenersOfATargetGetItsEvents) {
  const int fd = memfd_create("a file", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  OpenDevice second;
  ibv_xrcd* mine = OpenDomain(device_, fd, O_CREAT);
  ibv_xrcd* theirs = OpenDomain(second, fd, 0);
  ASSERT_TRUE(mine != nullptr && theirs != nullptr);
  std::swap(mine, domain_);
  EXPECT_EQ(ibv_destroy_qp(target_), 0);
  target_ = MakeTarget();
  std::swap(mine, domain_);
  ibv_qp* other = Open(second, theirs, target_->qp_num);
  ASSERT_NE(other, nullptr) << strerror(errno);
  Connect();
  // The queue is of another domain: refused, and both openers get the event.
  PostReceives(1);
  EXPECT_EQ(Send(), IBV_WC_REM_ACCESS_ERR);
  const ibv_async_event here = Next(device_);
  const ibv_async_event there = Next(second);
  EXPECT_EQ(here.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(there.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(here.element.qp, target_);
  EXPECT_EQ(there.element.qp, other);
  EXPECT_EQ(ibv_destroy_qp(target_), 0);
  target_ = nullptr;
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  EXPECT_EQ(ibv_close_xrcd(mine), 0);
  EXPECT_EQ(ibv_close_xrcd(theirs), 0);
  close(fd);
}

TEST_F(XrcTest, OpeningWithWrongArgumentsIsRefused) {
  const uint32_t number = target_->qp_num;
  OpenDevice second;
  ibv_xrcd* elsewhere = OpenDomain(second, -1, O_CREAT);
  EXPECT_EQ(Open(device_, domain_, number + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Open(device_, domain_, initiator_->qp_num), nullptr);
  EXPECT_EQ(errno, EINVAL) << "no target";
  EXPECT_EQ(Open(second, elsewhere, number), nullptr);
  EXPECT_EQ(errno, EINVAL) << "another domain";
  EXPECT_EQ(Open(second, domain_, number), nullptr);
  EXPECT_EQ(errno, EINVAL) << "another context";
  EXPECT_EQ(Open(device_, nullptr, number), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Open(device_, domain_, number, 0, IBV_QPT_RC), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Open(device_, domain_, number, 1 << 10), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp_open_attr nothing = {};
  EXPECT_EQ(ibv_open_qp(device_, &nothing), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_xrcd(elsewhere), 0) << "nothing of that stays";
}

TEST_F(XrcTest, AnOrdinaryQueuePairRefusesAnXrcQueue) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    ibv_qp_init_attr init = {};
    init.qp_type = type;
    init.send_cq = init.recv_cq = end_.cq();
    init.srq = srq_;
    errno = 0;
    EXPECT_EQ(ibv_create_qp(end_.pd(), &init), nullptr) << type;
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(XrcTest, OpeningADomainChecksTheFileAndTheFlags) {
  const int fd = memfd_create("a file", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  errno = 0;
  EXPECT_EQ(OpenDomain(device_, fd, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "there is none";
  ibv_xrcd* first = OpenDomain(device_, fd, O_CREAT | O_EXCL);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(OpenDomain(device_, fd, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL) << "there is one";
  EXPECT_EQ(OpenDomain(device_, 9999, O_CREAT), nullptr);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(OpenDomain(device_, -1, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd_init_attr less = {};
  less.comp_mask = IBV_XRCD_INIT_ATTR_FD;
  EXPECT_EQ(ibv_open_xrcd(device_, &less), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_xrcd(domain_), EBUSY) << "queues are in it";
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  close(fd);
}

bool IsOpen(const std::string& target) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string link = std::filesystem::read_symlink(entry, error);
    if (link.find(target) != std::string::npos) return true;
  }
  return false;
}

// Otherwise another file could get its inode number.
TEST_F(XrcTest, ADomainKeepsItsFile) {
  const int fd = memfd_create("to be kept", MFD_CLOEXEC);
  ibv_xrcd* domain = OpenDomain(device_, fd, O_CREAT);
  ASSERT_NE(domain, nullptr);
  close(fd);
  EXPECT_TRUE(IsOpen("to be kept"));
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  EXPECT_FALSE(IsOpen("to be kept"));
}

// A shared queue that cannot report its receives takes no more messages.
//= IBTA 11.6.3.3
TEST_F(XrcTest, AFullCompletionQueueEndsItsSharedQueue) {
  Connect();
  PostReceives(8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Send(), IBV_WC_SUCCESS);
  const ibv_async_event first = Next(device_);
  EXPECT_EQ(first.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(first.element.cq, recv_cq_);
  // Runs the engine, which may not have noticed yet.
  (void)end_.Quiet();
  const ibv_async_event second = Next(device_);
  EXPECT_EQ(second.event_type, IBV_EVENT_SRQ_ERR);
  EXPECT_EQ(second.element.srq, srq_);
  EXPECT_EQ(Send(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Next(device_).event_type, IBV_EVENT_QP_ACCESS_ERR);
}

}  // namespace
}  // namespace urnic
