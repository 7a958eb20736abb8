// The distribution's librdmacm on our device, which it finds through the
// preload. Its queue pairs are our provider's, on a port that talks to itself.

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <string>
#include <thread>

#include "verbs/rdmacm/testing/librdmacm_fixture.h"

namespace urnic::rdmacm {
namespace {

constexpr char kIpv4[] = "10.9.0.1";
constexpr char kIpv6[] = "fd09::1";

class BothFamiliesTest : public LibrdmacmTest,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(BothFamiliesTest, AConnectionCarriesAMessage) {
  rdma_cm_id* const listener = Listener(GetParam(), 7174);
  rdma_cm_id* const client = Routed(GetParam(), 7174);
  EXPECT_EQ(client->route.num_paths, 1);
  CreateQp(client);
  rdma_conn_param param = {};
  param.responder_resources = 1;
  param.initiator_depth = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  ASSERT_EQ(rdma_connect(client, &param), 0) << std::strerror(errno);
  rdma_cm_id* const server = Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  CreateQp(server);
  char in[64] = {};
  ibv_mr* const in_mr = rdma_reg_msgs(server, in, sizeof(in));
  ASSERT_EQ(rdma_post_recv(server, nullptr, in, sizeof(in), in_mr), 0);
  ASSERT_EQ(rdma_accept(server, &param), 0) << std::strerror(errno);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_ESTABLISHED), client);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_ESTABLISHED), server);

  char out[64] = "over a connection";
  ibv_mr* const out_mr = rdma_reg_msgs(client, out, sizeof(out));
  ASSERT_EQ(rdma_post_send(client, nullptr, out, sizeof(out), out_mr, 0), 0);
  ibv_wc wc = {};
  ASSERT_EQ(rdma_get_recv_comp(server, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_STREQ(in, out);

  ASSERT_EQ(rdma_disconnect(client), 0) << std::strerror(errno);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_DISCONNECTED), server);
  ASSERT_EQ(rdma_disconnect(server), 0);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_DISCONNECTED), client);
  rdma_dereg_mr(in_mr);
  rdma_dereg_mr(out_mr);
  for (rdma_cm_id* id : {client, server}) {
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

INSTANTIATE_TEST_SUITE_P(All, BothFamiliesTest,
                         ::testing::Values(kIpv4, kIpv6));

TEST_F(LibrdmacmTest, AnEndpointConnectsWithoutEvents) {
  rdma_addrinfo hints = {};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* info = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(kIpv4, "7175", &hints, &info), 0);
  ibv_qp_init_attr attributes = {};
  attributes.cap = {4, 4, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, info, nullptr, &attributes), 0)
      << std::strerror(errno);
  rdma_freeaddrinfo(info);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  std::thread server([listener] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_accept(id, nullptr), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_disconnect(id), 0);
    rdma_destroy_ep(id);
  });
  hints.ai_flags = 0;
  ASSERT_EQ(rdma_getaddrinfo(kIpv4, "7175", &hints, &info), 0);
  attributes = {};
  attributes.cap = {4, 4, 1, 1, 0};
  attributes.qp_type = IBV_QPT_RC;
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(rdma_create_ep(&client, info, nullptr, &attributes), 0)
      << std::strerror(errno);
  rdma_freeaddrinfo(info);
  EXPECT_EQ(rdma_connect(client, nullptr), 0) << std::strerror(errno);
  rdma_disconnect(client);
  server.join();
  rdma_destroy_ep(client);
  rdma_destroy_ep(listener);
}

TEST_F(LibrdmacmTest, DatagramsReachTheirQueuePair) {
  rdma_cm_id* const listener = Listener("0.0.0.0", 7176, RDMA_PS_UDP);
  rdma_cm_id* const client = Routed(kIpv4, 7176, RDMA_PS_UDP);
  rdma_conn_param param = {};
  param.qp_num = 17;
  const char hello[] = "who are you";
  param.private_data = hello;
  param.private_data_len = sizeof(hello);
  ASSERT_EQ(rdma_connect(client, &param), 0) << std::strerror(errno);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_STREQ(static_cast<const char*>(event->param.ud.private_data), hello);
  rdma_cm_id* const server = event->id;
  rdma_ack_cm_event(event);
  param = {};
  param.qp_num = 18;
  ASSERT_EQ(rdma_accept(server, &param), 0) << std::strerror(errno);
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(event->param.ud.qp_num, 18u);
  EXPECT_EQ(event->param.ud.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  EXPECT_EQ(event->param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(event->param.ud.ah_attr.grh.sgid_index, 3);
  rdma_ack_cm_event(event);
  for (rdma_cm_id* id : {client, server, listener}) {
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

TEST_F(LibrdmacmTest, AConnectionWithoutAListenerIsRejected) {
  rdma_cm_id* const client = Routed(kIpv4, 7177);
  CreateQp(client);
  ASSERT_EQ(rdma_connect(client, nullptr), 0);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_REJECTED, 8), client);
  rdma_destroy_qp(client);
  EXPECT_EQ(rdma_destroy_id(client), 0);
}

TEST_F(LibrdmacmTest, AGroupIsJoinedAndLeft) {
  rdma_cm_id* const id = Create(RDMA_PS_UDP);
  sockaddr_storage own = Address(kIpv4, 0);
  sockaddr_storage group = Address("239.1.2.3", 0);
  auto* const to = reinterpret_cast<sockaddr*>(&group);
  ASSERT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&own)), 0);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, to, 2000), 0);
  Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  int context = 0;
  ASSERT_EQ(rdma_join_multicast(id, to, &context), 0) << std::strerror(errno);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(event->param.ud.private_data, &context);
  EXPECT_EQ(event->param.ud.qp_num, 0xffffffu);
  EXPECT_EQ(event->param.ud.ah_attr.grh.dgid.raw[12], 239);
  rdma_ack_cm_event(event);
  EXPECT_EQ(rdma_leave_multicast(id, to), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(LibrdmacmTest, AnIdMigrates) {
  rdma_cm_id* const listener = Listener(kIpv4, 7178);
  rdma_cm_id* const client = Routed(kIpv4, 7178);
  rdma_event_channel* const other = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(listener, other), 0) << std::strerror(errno);
  rdma_conn_param param = {};
  param.qp_num = 19;
  ASSERT_EQ(rdma_connect(client, &param), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(other, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  rdma_cm_id* const server = event->id;
  rdma_ack_cm_event(event);
  EXPECT_EQ(rdma_reject(server, nullptr, 0), 0) << std::strerror(errno);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_REJECTED, 28), client);
  for (rdma_cm_id* id : {client, server, listener}) {
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  rdma_destroy_event_channel(other);
}

TEST_F(LibrdmacmTest, OptionsAndMistakesReturnTheirErrors) {
  rdma_cm_id* const id = Create();
  int yes = 1;
  uint8_t timeout = 14;
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
                            sizeof(yes)),
            0);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                            &timeout, sizeof(timeout)),
            0);
  EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, 99, &yes, sizeof(yes)), -1);
  EXPECT_EQ(errno, ENOSYS);
  sockaddr_storage foreign = Address("192.0.2.1", 0);
  EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&foreign)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr,
                              reinterpret_cast<sockaddr*>(&foreign), 100),
            -1);
  EXPECT_EQ(errno, ENETUNREACH);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(LibrdmacmTest, TheChannelCanBePolled) {
  rdma_cm_id* const id = Create();
  pollfd p{channel_->fd, POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0);
  sockaddr_storage to = Address(kIpv4, 1);
  ASSERT_EQ(
      rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000),
      0);
  EXPECT_EQ(poll(&p, 1, -1), 1);
  Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(poll(&p, 1, 0), 0);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace
}  // namespace urnic::rdmacm
