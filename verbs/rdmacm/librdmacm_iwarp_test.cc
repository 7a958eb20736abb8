// The distribution's librdmacm on a port with two devices, RoCE and iWARP: the
// address decides which one it uses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "verbs/provider/testing/shown.h"
#include "verbs/rdmacm/testing/librdmacm_iwarp_fixture.h"

namespace urnic::rdmacm {
namespace {

// A line of `urnic show error` has all of these.
testing::AssertionResult ShowsError(const std::vector<std::string>& texts) {
  const std::string shown = Shown("error");
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    const auto is_in = [&](const std::string& text) {
      return line.find(text) != std::string::npos;
    };
    if (std::ranges::all_of(texts, is_in)) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << shown;
}

TEST_F(LibrdmacmIwarpTest, TheSideThatAcceptsMaySendFirst) {
  Establish(kIwarp, 7180);
  EXPECT_EQ(client_->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
  EXPECT_EQ(client_->route.num_paths, 0);
  std::strcpy(server_data_, "over a connection");
  ASSERT_EQ(rdma_post_send(server_, nullptr, server_data_, sizeof(server_data_),
                           server_mr_, 0),
            0);
  ibv_wc wc = {};
  ASSERT_EQ(rdma_get_recv_comp(client_, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_STREQ(client_data_, "over a connection");
  ASSERT_EQ(rdma_disconnect(client_), 0) << std::strerror(errno);
  Expect(RDMA_CM_EVENT_DISCONNECTED);
  Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(server_), 0) << std::strerror(errno);
  DestroyAll();
  EXPECT_FALSE(ShowsError({"rdma_"})) << "nothing was refused";
}

TEST_F(LibrdmacmIwarpTest, AQueuePairTellsTheDepthsOfItsConnection) {
  Establish(kIwarp, 7183);
  for (const rdma_cm_id* id : {client_, server_}) {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init;
    ASSERT_EQ(ibv_query_qp(id->qp, &attr,
                           IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC |
                               IBV_QP_MAX_DEST_RD_ATOMIC,
                           &init),
              0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attr.max_rd_atomic, Params().initiator_depth);
    EXPECT_EQ(attr.max_dest_rd_atomic, Params().responder_resources);
  }
  ASSERT_EQ(rdma_disconnect(client_), 0) << std::strerror(errno);
  Expect(RDMA_CM_EVENT_DISCONNECTED);
  Expect(RDMA_CM_EVENT_DISCONNECTED);
  DestroyAll();
}

TEST_F(LibrdmacmIwarpTest, OneListenerServesBothDevices) {
  Establish(kRoce, 7181);
  EXPECT_EQ(client_->verbs->device->transport_type, IBV_TRANSPORT_IB);
  rdma_cm_id* const other = Routed(kIwarp, 7181);
  EXPECT_EQ(other->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
  CreateQp(other);
  rdma_conn_param param = Params("hello");
  ASSERT_EQ(rdma_connect(other, &param), 0) << std::strerror(errno);
  rdma_cm_id* const asked = Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(asked->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
  EXPECT_EQ(rdma_reject(asked, nullptr, 0), 0) << std::strerror(errno);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED), other);
  rdma_destroy_qp(other);
  EXPECT_EQ(rdma_destroy_id(other), 0);
  EXPECT_EQ(rdma_destroy_id(asked), 0);
  ASSERT_EQ(rdma_disconnect(client_), 0) << std::strerror(errno);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_DISCONNECTED), server_);
  ASSERT_EQ(rdma_disconnect(server_), 0);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_DISCONNECTED), client_);
  DestroyAll();
}

// As a peer without marks calls it.
TEST_F(LibrdmacmIwarpTest, AListenerServesEachAddressByBothDevices) {
  const struct {
    const char* from;
    const char* to;
    ibv_transport_type transport;
  } kCases[] = {{kIwarp, kRoce, IBV_TRANSPORT_IWARP},
                {kRoce, kIwarp, IBV_TRANSPORT_IB}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.to);
    Establish(c.to, 7184, c.from);
    EXPECT_EQ(client_->verbs->device->transport_type, c.transport);
    EXPECT_EQ(server_->verbs->device->transport_type, c.transport);
    std::strcpy(server_data_, c.to);
    ASSERT_EQ(rdma_post_send(server_, nullptr, server_data_,
                             sizeof(server_data_), server_mr_, 0),
              0);
    ibv_wc wc = {};
    ASSERT_EQ(rdma_get_recv_comp(client_, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_STREQ(client_data_, c.to);
    ASSERT_EQ(rdma_disconnect(client_), 0) << std::strerror(errno);
    Expect(RDMA_CM_EVENT_DISCONNECTED);
    ASSERT_EQ(rdma_disconnect(server_), 0) << std::strerror(errno);
    Expect(RDMA_CM_EVENT_DISCONNECTED);
    DestroyAll();
  }
}

TEST_F(LibrdmacmIwarpTest, AConnectionWithoutAListenerIsRefused) {
  rdma_cm_id* const id = Routed(kIwarp, 7182);
  CreateQp(id);
  ASSERT_EQ(rdma_connect(id, nullptr), 0) << std::strerror(errno);
  EXPECT_EQ(Expect(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED), id);
  EXPECT_TRUE(ShowsError({"URN5007", "10.9.0.2:7182: REJECTED -111"}));
  rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(LibrdmacmIwarpTest, RefusalsAreShown) {
  rdma_cm_id* const listener = Listener("0.0.0.0", 7185);
  EXPECT_EQ(rdma_listen(listener, 1), -1);
  EXPECT_TRUE(ShowsError({"URN5006", "rdma_listen: cm_id ",
                          "(LISTEN, 0.0.0.0:7185): an argument is wrong"}));
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

}  // namespace
}  // namespace urnic::rdmacm
