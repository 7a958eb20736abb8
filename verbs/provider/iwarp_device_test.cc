// The iWARP device beside the RoCE device of the same port, as a program sees
// it, and what it refuses. How its queue pairs are connected is tested with
// rdma_cm.

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

}  // namespace
}  // namespace urnic
