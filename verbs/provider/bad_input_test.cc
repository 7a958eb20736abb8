// Each verb with each kind of wrong argument fails with the errno that its
// manual page names, and changes nothing. Not repeated here: posting and
// modifying (failure_test), binding and advice (window_test), extended queues
// (cq_ex_test, qp_ex_test).

#include <fcntl.h>
#include <gtest/gtest.h>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() : end_(device_, {}), foreign_(other_, {}) {}

  // The errno of a call that returns a pointer; 0: it succeeded.
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
  // Another device; if there is only one, another context of it.
  OpenDevice other_{OpenDevice::kLast};
  End end_;
  End foreign_;
};

TEST_F(BadInputTest, QueuesOfAnotherContextAreRefused) {
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
  ibv_comp_channel* channel = ibv_create_comp_channel(other_);
  EXPECT_EQ(Errno(ibv_create_cq(device_, 1, nullptr, channel, 0)), EINVAL);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
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
  ibv_xrcd_init_attr xrcd_attr = {};
  xrcd_attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd_attr.fd = -1;
  xrcd_attr.oflags = O_CREAT;
  ibv_xrcd* xrcd = ibv_open_xrcd(other_, &xrcd_attr);
  ibv_srq_init_attr_ex xrc = {};
  xrc.attr.max_wr = 1;
  xrc.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                  IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD;
  xrc.srq_type = IBV_SRQT_XRC;
  xrc.pd = end_.pd();
  xrc.xrcd = xrcd;
  xrc.cq = end_.cq();
  EXPECT_EQ(Errno(ibv_create_srq_ex(device_, &xrc)), EINVAL);
  ibv_qp_init_attr_ex target = {};
  target.qp_type = IBV_QPT_XRC_RECV;
  target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  target.xrcd = xrcd;
  EXPECT_EQ(Errno(ibv_create_qp_ex(device_, &target)), EINVAL);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

// Keys and handles are valid only in their own domain, even if another device
// has the same numbers.
TEST_F(BadInputTest, KeysOfAnotherContextAreInvalid) {
  const auto write = [](End& from, uint64_t address, uint32_t rkey) {
    EXPECT_EQ(from.PostSend({from.Sge(0, 8)},
                            [&](ibv_send_wr& wr) {
                              wr.opcode = IBV_WR_RDMA_WRITE;
                              wr.wr.rdma.remote_addr = address;
                              wr.wr.rdma.rkey = rkey;
                            }),
              0);
    return from.Poll().status;
  };
  {
    Pair pair(device_);
    EXPECT_EQ(write(pair.a, foreign_.address(), foreign_.mr()->rkey),
              IBV_WC_REM_ACCESS_ERR);
  }
  {
    Pair pair(device_);
    EXPECT_EQ(pair.a.PostSend({foreign_.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_LOC_PROT_ERR);
  }
  {
    Pair pair(device_);
    EXPECT_EQ(pair.b.PostRecv(1, {foreign_.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(pair.b.Poll().status, IBV_WC_LOC_PROT_ERR);
  }
  ibv_sge sge = foreign_.Sge(0, 8);
  EXPECT_NE(ibv_advise_mr(end_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1),
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
  EXPECT_EQ(modify(64, 65, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
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
  EXPECT_EQ(create([](auto& a) { ++a.grh.dgid.raw[12]; }), ENETUNREACH);
  EXPECT_EQ(create([](auto& a) { a.grh.dgid.raw[15] = 77; }), ETIMEDOUT)
      << "on the link, but nobody answers";
}

// A datagram needs an address handle of its queue pair's domain that still
// exists when it is sent. Otherwise its request completes with an error.
//= IBTA 10.2.3
TEST_F(BadInputTest, DatagramsNeedAnAddressHandleOfTheirDomain) {
  ibv_qp_init_attr init = QpAttributes();
  init.qp_type = IBV_QPT_UD;
  ibv_qp* ud = ibv_create_qp(end_.pd(), &init);
  ASSERT_NE(ud, nullptr);
  ibv_qp_attr a = {};
  a.port_num = 1;
  a.qkey = 0x11;
  const auto to = [&](ibv_qp_state state, int mask) {
    a.qp_state = state;
    EXPECT_EQ(ibv_modify_qp(ud, &a, IBV_QP_STATE | mask), 0) << state;
  };
  const auto reset = [&] {
    to(IBV_QPS_RESET, 0);
    to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    to(IBV_QPS_RTR, 0);
    to(IBV_QPS_RTS, IBV_QP_SQ_PSN);
  };
  const auto post = [&](ibv_ah* ah) {
    ibv_sge sge = end_.Sge(0, 8);
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = ud->qp_num;
    wr.wr.ud.remote_qkey = a.qkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(ud, &wr, &bad);
  };
  ibv_ah_attr address = Address();
  ibv_pd* other = ibv_alloc_pd(device_);
  ibv_ah* theirs = ibv_create_ah(other, &address);
  ibv_ah* ours = ibv_create_ah(end_.pd(), &address);
  ASSERT_TRUE(theirs != nullptr && ours != nullptr);
  reset();
  EXPECT_EQ(post(nullptr), EINVAL);
  EXPECT_EQ(post(ours), 0);
  EXPECT_EQ(end_.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(post(theirs), 0);
  EXPECT_EQ(end_.Poll().status, IBV_WC_LOC_QP_OP_ERR);
  reset();
  a.en_sqd_async_notify = 0;
  to(IBV_QPS_SQD, 0);
  EXPECT_EQ(post(ours), 0);
  EXPECT_EQ(ibv_destroy_ah(ours), 0);
  to(IBV_QPS_RTS, 0);
  EXPECT_EQ(end_.Poll().status, IBV_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(ibv_destroy_ah(theirs), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  EXPECT_EQ(ibv_destroy_qp(ud), 0);
}

// Each kind of object keeps its parents in use.
TEST_F(BadInputTest, DomainsAndQueuesAreBusyWithEachKindOfChild) {
  ibv_pd* pd = ibv_alloc_pd(device_);
  ibv_cq* cq = ibv_create_cq(device_, 1, nullptr, nullptr, 0);
  const auto busy = [&](auto* child, auto destroy) {
    ASSERT_NE(child, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
    EXPECT_EQ(destroy(child), 0);
  };
  busy(ibv_reg_mr(pd, end_.memory(), 8, 0),
       [](ibv_mr* mr) { return ibv_dereg_mr(mr); });
  busy(ibv_alloc_null_mr(pd), [](ibv_mr* mr) { return ibv_dereg_mr(mr); });
  busy(ibv_alloc_mw(pd, IBV_MW_TYPE_2),
       [](ibv_mw* mw) { return ibv_dealloc_mw(mw); });
  ibv_ah_attr address = Address();
  busy(ibv_create_ah(pd, &address), ibv_destroy_ah);
  ibv_srq_init_attr srq_attr = {};
  srq_attr.attr.max_wr = 1;
  busy(ibv_create_srq(pd, &srq_attr), ibv_destroy_srq);
  for (const bool send : {true, false}) {
    ibv_qp_init_attr attr = QpAttributes();
    (send ? attr.send_cq : attr.recv_cq) = cq;
    busy(ibv_create_qp(pd, &attr), [&](ibv_qp* qp) {
      EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
      return ibv_destroy_qp(qp);
    });
  }
  ibv_parent_domain_init_attr parent_attr = {};
  parent_attr.pd = pd;
  ibv_pd* parent = ibv_alloc_parent_domain(device_, &parent_attr);
  ibv_cq_init_attr_ex cq_attr = {};
  cq_attr.cqe = 1;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = parent;
  ibv_cq_ex* in_parent = ibv_create_cq_ex(device_, &cq_attr);
  ASSERT_NE(in_parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(in_parent)), 0);
  busy(parent, ibv_dealloc_pd);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(BadInputTest, Queries) {
  ibv_port_attr port = {};
  EXPECT_EQ(ibv_query_port(device_, 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(device_, 2, &port), EINVAL);
  ibv_gid gid = {};
  EXPECT_NE(ibv_query_gid(device_, 1, 255, &gid), 0);
  EXPECT_NE(ibv_query_gid(device_, 1, -1, &gid), 0);
  EXPECT_NE(ibv_query_gid(device_, 2, 0, &gid), 0);
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(device_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_NE(ibv_query_pkey(device_, 1, 1000, &pkey), 0);
  ibv_query_device_ex_input input = {.comp_mask = 1};
  ibv_device_attr_ex attr = {};
  EXPECT_EQ(ibv_query_device_ex(device_, &input, &attr), EINVAL);
  ibv_values_ex values = {};
  values.comp_mask = 1 << 7;
  EXPECT_EQ(ibv_query_rt_values_ex(device_, &values), EINVAL);
  uint32_t number = 0;
  ibv_srq_init_attr srq_attr = {};
  srq_attr.attr.max_wr = 1;
  ibv_srq* srq = ibv_create_srq(end_.pd(), &srq_attr);
  EXPECT_EQ(ibv_get_srq_num(srq, &number), EINVAL) << "not an XRC one";
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// EOPNOTSUPP, from libibverbs itself for operations that are not in the
// provider's table.
TEST_F(BadInputTest, FeaturesThatTheDeviceLacks) {
  ibv_alloc_dm_attr memory = {};
  memory.length = 64;
  EXPECT_EQ(Errno(ibv_alloc_dm(device_, &memory)), EOPNOTSUPP);
  ibv_wq_init_attr queue = {};
  EXPECT_EQ(Errno(ibv_create_wq(device_, &queue)), EOPNOTSUPP);
  ibv_rwq_ind_table_init_attr table = {};
  EXPECT_EQ(Errno(ibv_create_rwq_ind_table(device_, &table)), EOPNOTSUPP);
  ibv_flow_attr flow = {};
  EXPECT_EQ(Errno(ibv_create_flow(end_.qp(), &flow)), EOPNOTSUPP);
  ibv_counters_init_attr counters = {};
  EXPECT_EQ(Errno(ibv_create_counters(device_, &counters)), EOPNOTSUPP);
  EXPECT_EQ(Errno(ibv_reg_dmabuf_mr(end_.pd(), 0, 64, 0, 0, 0)), EOPNOTSUPP);
  EXPECT_EQ(Errno(ibv_import_pd(device_, 1)), EOPNOTSUPP);
  EXPECT_EQ(Errno(ibv_import_mr(end_.pd(), 1)), EOPNOTSUPP);
  ibv_qp_rate_limit_attr rate = {};
  EXPECT_EQ(ibv_modify_qp_rate_limit(end_.qp(), &rate), EOPNOTSUPP);
  ibv_ops_wr ops = {};
  ibv_ops_wr* bad = nullptr;
  ibv_srq_init_attr srq_attr = {};
  srq_attr.attr.max_wr = 1;
  ibv_srq* srq = ibv_create_srq(end_.pd(), &srq_attr);
  EXPECT_EQ(ibv_post_srq_ops(srq, &ops, &bad), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
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
  EXPECT_EQ(ibv_attach_mcast(ud, &group, 0), 0) << "is attached";
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0), EINVAL) << "once is enough";
  EXPECT_EQ(ibv_attach_mcast(ud, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(ud), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0), 0) << "nothing has changed";
  EXPECT_EQ(ibv_destroy_qp(ud), 0);
}

TEST_F(BadInputTest, ClosingADeviceLeavesItsGroups) {
  ibv_gid group = {};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  OpenDevice device;
  ibv_qp_init_attr attr = QpAttributes();
  attr.qp_type = IBV_QPT_UD;
  attr.send_cq = attr.recv_cq = ibv_create_cq(device, 1, nullptr, nullptr, 0);
  ibv_qp* ud = ibv_create_qp(ibv_alloc_pd(device), &attr);
  ASSERT_NE(ud, nullptr);
  EXPECT_EQ(ibv_attach_mcast(ud, &group, 0), 0);
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
  ibv_mr* null = ibv_alloc_null_mr(end_.pd());
  EXPECT_NE(
      ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, 64, 0),
      0);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
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

TEST_F(BadInputTest, TheDeviceStillWorksAfterwards) {
  Pair pair(device_);
  EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 64)}), 0);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 64)}), 0);
  EXPECT_EQ(pair.b.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace urnic
