// The iWARP device beside the RoCE device of the same port, as a program sees
// it: what it refuses, and its queue pairs until rdma_cm connects them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace urnic {
namespace {

// Closed at the end of the test.
struct Opened {
  explicit Opened(const char* name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; i < count; ++i) {
      if (std::string(ibv_get_device_name(list[i])) != name) continue;
      guid = ibv_get_device_guid(list[i]);
      context = ibv_open_device(list[i]);
    }
    ibv_free_device_list(list);
    EXPECT_NE(context, nullptr) << name;
    if (context != nullptr) pd = ibv_alloc_pd(context);
  }
  ~Opened() {
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  uint64_t guid = 0;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
};

TEST(IwarpDeviceTest, LooksLikeSiw) {
  const Opened iwarp("iwurnic0");
  EXPECT_EQ(iwarp.context->device->node_type, IBV_NODE_RNIC);
  EXPECT_EQ(iwarp.context->device->transport_type, IBV_TRANSPORT_IWARP);
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(iwarp.context, &attr), 0);
  EXPECT_EQ(attr.node_guid, iwarp.guid);
  EXPECT_EQ(attr.max_qp_rd_atom, 128);
  EXPECT_EQ(attr.max_qp_init_rd_atom, 128);
  EXPECT_EQ(attr.max_qp, 65536);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attr.max_srq, 65536);
  EXPECT_EQ(attr.max_mw, 131072);
  EXPECT_EQ(attr.max_ah, 0);
  EXPECT_EQ(attr.max_pkeys, 0);
  EXPECT_EQ(attr.max_mcast_grp, 0);
  EXPECT_EQ(attr.local_ca_ack_delay, 0);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS, 0u);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(attr.device_cap_flags &
                (IBV_DEVICE_XRC | IBV_DEVICE_BAD_PKEY_CNTR |
                 IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_RC_RNR_NAK_GEN),
            0u);
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(iwarp.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.gid_tbl_len, 1);
  EXPECT_EQ(port.pkey_tbl_len, 0);
  union ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(iwarp.context, 1, 0, &gid), 0);
  EXPECT_EQ(std::memcmp(gid.raw, &iwarp.guid, 8), 0) << "the MAC and zeros";
  EXPECT_NE(ibv_query_gid(iwarp.context, 1, 1, &gid), 0);
  __be16 pkey;
  EXPECT_NE(ibv_query_pkey(iwarp.context, 1, 0, &pkey), 0);
}

TEST(IwarpDeviceTest, IsOpenTogetherWithTheRoceDeviceOfItsPort) {
  const Opened roce("urnic0");
  const Opened iwarp("iwurnic0");
  EXPECT_EQ(roce.context->device->transport_type, IBV_TRANSPORT_IB);
  EXPECT_NE(roce.guid, iwarp.guid) << "librdmacm tells them apart by it";
  ibv_device_attr of_roce;
  ibv_device_attr of_iwarp;
  ASSERT_EQ(ibv_query_device(roce.context, &of_roce), 0);
  ASSERT_EQ(ibv_query_device(iwarp.context, &of_iwarp), 0);
  EXPECT_EQ(of_roce.sys_image_guid, of_iwarp.sys_image_guid);
  // Objects work on both.
  static char memory[4096];
  for (const Opened* device : {&roce, &iwarp}) {
    ibv_cq* cq = ibv_create_cq(device->context, 10, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    ibv_mr* mr = ibv_reg_mr(device->pd, memory, sizeof(memory),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(mr, nullptr);
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = 4;
    attr.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(device->pd, &attr);
    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
}

TEST(IwarpDeviceTest, RefusesWhatIwarpDoesNotHave) {
  const Opened iwarp("iwurnic0");
  ibv_cq* cq = ibv_create_cq(iwarp.context, 10, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  for (const ibv_qp_type type :
       {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_RAW_PACKET}) {
    ibv_qp_init_attr attr = {};
    attr.qp_type = type;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    errno = 0;
    EXPECT_EQ(ibv_create_qp(iwarp.pd, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP) << int{type};
  }
  ibv_ah_attr ah = {};
  ah.is_global = 1;
  ah.port_num = 1;
  errno = 0;
  EXPECT_EQ(ibv_create_ah(iwarp.pd, &ah), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_xrcd_init_attr xrcd = {};
  xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  xrcd.fd = -1;
  xrcd.oflags = O_CREAT;
  errno = 0;
  EXPECT_EQ(ibv_open_xrcd(iwarp.context, &xrcd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

ibv_qp* MakeQp(const Opened& device, ibv_cq* cq) {
  ibv_qp_init_attr attr = {};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 4,
              .max_recv_wr = 4,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  return ibv_create_qp(device.pd, &attr);
}

// Through the verb, and as the device sees it: libibverbs' own qp->state is the
// state that was asked for.
int Modify(ibv_qp* qp, ibv_qp_state state, int mask = IBV_QP_STATE) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  return ibv_modify_qp(qp, &attr, mask);
}
ibv_qp_attr Query(ibv_qp* qp) {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init;
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  return attr;
}

// The calls of librdmacm before it accepts and when it disconnects.
TEST(IwarpDeviceTest, AQueuePairWaitsInInitForRdmaCm) {
  const Opened iwarp("iwurnic0");
  ibv_cq* cq = ibv_create_cq(iwarp.context, 10, nullptr, nullptr, 0);
  ibv_qp* qp = MakeQp(iwarp, cq);
  ASSERT_NE(qp, nullptr) << strerror(errno);
  EXPECT_EQ(Query(qp).qp_state, IBV_QPS_INIT);
  constexpr int kMask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(Modify(qp, IBV_QPS_INIT, kMask), 0);
  EXPECT_EQ(Query(qp).qp_access_flags,
            unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(Modify(qp, IBV_QPS_RTR, kMask), 0);
  EXPECT_EQ(Query(qp).qp_state, IBV_QPS_INIT);
  EXPECT_EQ(Modify(qp, IBV_QPS_RTS, 0), 0) << "iw_cm's empty mask";
  EXPECT_EQ(Modify(qp, IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(Modify(qp, IBV_QPS_SQD), 0);
  EXPECT_EQ(Query(qp).qp_state, IBV_QPS_INIT);
  EXPECT_EQ(Modify(qp, IBV_QPS_RESET), 0);
  EXPECT_EQ(Query(qp).qp_state, IBV_QPS_INIT);
  EXPECT_EQ(Query(qp).qp_access_flags, 0u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(IwarpDeviceTest, AQueuePairInErrFlushesItsRequests) {
  const Opened iwarp("iwurnic0");
  ibv_cq* cq = ibv_create_cq(iwarp.context, 10, nullptr, nullptr, 0);
  ibv_qp* qp = MakeQp(iwarp, cq);
  ASSERT_NE(qp, nullptr) << strerror(errno);
  ibv_recv_wr receive = {};
  receive.wr_id = 7;
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  ibv_send_wr send = {};
  send.wr_id = 8;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL) << "not connected";
  ASSERT_EQ(Modify(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), 0);
  ibv_wc done[2] = {};
  for (int n = 0; n < 2;) n += ibv_poll_cq(cq, 2 - n, done + n);
  for (const ibv_wc& wc : done) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(done[0].wr_id + done[1].wr_id, 15u);
  EXPECT_EQ(Query(qp).qp_state, IBV_QPS_ERR);
  // RESET drops what is posted, without completions.
  EXPECT_EQ(Modify(qp, IBV_QPS_RESET), 0);
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  EXPECT_EQ(Modify(qp, IBV_QPS_RESET), 0);
  EXPECT_EQ(Modify(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(ibv_poll_cq(cq, 2, done), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace urnic
