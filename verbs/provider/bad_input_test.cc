// Each verb with each kind of wrong argument: the errno that its manual page
// names, and nothing has changed. What has tests of its own is not repeated:
// posting and modifying (failure_test), binding and advice (window_test),
// extended queues (cq_ex_test, qp_ex_test).

#include <gtest/gtest.h>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() : end_(device_, {}), foreign_(other_, {}) {}

  // Of a call that returns a pointer: 0, or the errno.
  template <typename T>
  static int Errno(T* object) {
    return object != nullptr ? 0 : errno;
  }

  ibv_qp_init_attr QpAttributes() {
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = end_.cq();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    return attr;
  }
  ibv_ah_attr Address() {
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.sgid_index = kGidIndexIpv4;
    ibv_query_gid(device_, 1, kGidIndexIpv4, &attr.grh.dgid);
    return attr;
  }

  OpenDevice device_;
  OpenDevice other_;  // another context of the same device
  End end_;
  End foreign_;
};

TEST_F(BadInputTest, QueuesOfAnotherContextAreNotTaken) {
  ibv_srq_init_attr srq_attr = {};
  srq_attr.attr.max_wr = 1;
  ibv_srq* srq = ibv_create_srq(foreign_.pd(), &srq_attr);
  for (int i = 0; i < 3; ++i) {
    ibv_qp_init_attr attr = QpAttributes();
    if (i == 0) attr.send_cq = foreign_.cq();
    if (i == 1) attr.recv_cq = foreign_.cq();
    if (i == 2) attr.srq = srq;
    EXPECT_EQ(Errno(ibv_create_qp(end_.pd(), &attr)), EINVAL) << i;
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0) << "not in use";
  ibv_td_init_attr td_attr = {};
  ibv_td* td = ibv_alloc_td(other_, &td_attr);
  ibv_parent_domain_init_attr parent = {};
  parent.pd = end_.pd();
  parent.td = td;
  EXPECT_EQ(Errno(ibv_alloc_parent_domain(device_, &parent)), EINVAL);
  parent.td = nullptr;
  parent.pd = foreign_.pd();
  EXPECT_EQ(Errno(ibv_alloc_parent_domain(device_, &parent)), EINVAL);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_NE(ibv_rereg_mr(end_.mr(), IBV_REREG_MR_CHANGE_PD, foreign_.pd(),
                         nullptr, 0, 0),
            0);
}

TEST_F(BadInputTest, SharedReceiveQueues) {
  const auto create = [&](uint32_t max_wr, uint32_t max_sge) {
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = max_wr;
    attr.attr.max_sge = max_sge;
    return Errno(ibv_create_srq(end_.pd(), &attr));
  };
  EXPECT_EQ(create(0, 1), EINVAL);
  EXPECT_EQ(create(1u << 20, 1), EINVAL);
  EXPECT_EQ(create(1, 1000), EINVAL);
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = 16;
  attr.attr.max_sge = 2;
  ibv_srq* srq = ibv_create_srq(end_.pd(), &attr);
  ASSERT_NE(srq, nullptr);
  const auto modify = [&](uint32_t max_wr, uint32_t limit, int mask) {
    ibv_srq_attr change = {.max_wr = max_wr, .max_sge = 0, .srq_limit = limit};
    return ibv_modify_srq(srq, &change, mask);
  };
  EXPECT_EQ(modify(0, 0, 1 << 5), EINVAL);
  EXPECT_EQ(modify(0, 0, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(1u << 20, 0, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(modify(0, 17, IBV_SRQ_LIMIT), EINVAL);
  ibv_srq_attr now = {};
  EXPECT_EQ(ibv_query_srq(srq, &now), 0);
  EXPECT_EQ(now.max_wr, 16u);
  EXPECT_EQ(now.srq_limit, 0u);
  ibv_recv_wr wr = {};
  ibv_recv_wr* bad = nullptr;
  wr.num_sge = 3;
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  wr.num_sge = -1;
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  wr.num_sge = 0;
  for (int i = 0; i < 16; ++i) EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  EXPECT_EQ(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
  EXPECT_EQ(modify(8, 0, IBV_SRQ_MAX_WR), EINVAL) << "16 are posted";
  ibv_qp_init_attr user = QpAttributes();
  user.srq = srq;
  ibv_qp* qp = ibv_create_qp(end_.pd(), &user);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), EINVAL)
      << "it has no queue of its own";
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(BadInputTest, AddressHandles) {
  const auto create = [&](auto change) {
    ibv_ah_attr attr = Address();
    change(attr);
    ibv_ah* ah = ibv_create_ah(end_.pd(), &attr);
    const int error = Errno(ah);
    if (ah != nullptr) {
      EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
    return error;
  };
  EXPECT_EQ(create([](auto&) {}), 0);
  EXPECT_EQ(create([](auto& a) { a.is_global = 0; }), EINVAL);
  EXPECT_EQ(create([](auto& a) { a.port_num = 2; }), EINVAL);
  EXPECT_EQ(create([](auto& a) { a.port_num = 0; }), EINVAL);
  EXPECT_EQ(create([](auto& a) { a.grh.sgid_index = 255; }), EINVAL);
}

TEST_F(BadInputTest, Groups) {
  ibv_gid group = {};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  EXPECT_EQ(ibv_attach_mcast(end_.qp(), &group, 0), EINVAL) << "RC";
  EXPECT_EQ(ibv_detach_mcast(end_.qp(), &group, 0), EINVAL);
  ibv_qp_init_attr attr = QpAttributes();
  attr.qp_type = IBV_QPT_UD;
  ibv_qp* ud = ibv_create_qp(end_.pd(), &attr);
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0), EINVAL) << "not attached";
  ibv_gid single = {};
  ibv_query_gid(device_, 1, kGidIndexIpv4, &single);
  EXPECT_EQ(ibv_attach_mcast(ud, &single, 0), EINVAL) << "no group";
  EXPECT_EQ(ibv_attach_mcast(ud, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(ud), 0) << "leaves";
}

TEST_F(BadInputTest, Regions) {
  uint8_t* at = end_.memory();
  const auto reg = [&](void* address, size_t bytes, int access) {
    errno = 0;
    ibv_mr* mr = ibv_reg_mr(end_.pd(), address, bytes, access);
    const int error = Errno(mr);
    if (mr != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    return error;
  };
  EXPECT_EQ(reg(at, 64, 0), 0);
  EXPECT_EQ(reg(at, 0, 0), EINVAL);
  EXPECT_EQ(reg(at, SIZE_MAX, 0), EINVAL);
  EXPECT_EQ(reg(at, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(reg(at, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(reg(at, 64, 1 << 15), EINVAL);
  EXPECT_EQ(reg(nullptr, 64, 0), EFAULT);
  EXPECT_EQ(reg(const_cast<char*>("constant"), 4, IBV_ACCESS_LOCAL_WRITE),
            EFAULT);
}

TEST_F(BadInputTest, ExtendedConnectionOptions) {
  ibv_ece ece = {.vendor_id = 1, .options = 2, .comp_mask = 0};
  EXPECT_EQ(ibv_set_ece(end_.qp(), &ece), EINVAL);
  EXPECT_EQ(ibv_query_ece(end_.qp(), &ece), 0);
  EXPECT_EQ(ece.vendor_id, 0u);
  EXPECT_EQ(ece.options, 0u);
  EXPECT_EQ(ibv_set_ece(end_.qp(), &ece), EOPNOTSUPP)
      << "libibverbs itself, to vendor 0";
  EXPECT_EQ(ibv_query_qp_data_in_order(end_.qp(), IBV_WR_RDMA_WRITE, 0), 0);
}

TEST_F(BadInputTest, NothingOfThatHasHurt) {
  Pair pair(device_);
  EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 64)}), 0);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 64)}), 0);
  EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace urnic
