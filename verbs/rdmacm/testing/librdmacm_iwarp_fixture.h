#pragma once

// A connection of the distribution's librdmacm on a port with two devices, RoCE
// and iWARP: the address decides which one it uses.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "verbs/rdmacm/testing/librdmacm_fixture.h"

namespace urnic::rdmacm {

// provider_main.cc, --both.
inline constexpr char kRoce[] = "10.9.0.1";
inline constexpr char kIwarp[] = "10.9.0.2";

inline rdma_conn_param Params(const char* data = "") {
  rdma_conn_param param = {};
  param.responder_resources = 2;
  param.initiator_depth = 2;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  param.private_data = data;
  param.private_data_len = static_cast<uint8_t>(std::strlen(data));
  return param;
}

class LibrdmacmIwarpTest : public LibrdmacmTest {
 protected:
  // A connection to a listener on all addresses. Both sides have queue pairs;
  // the client's has a receive. `from`: see Routed().
  void Establish(const char* ip, uint16_t port, const char* from = nullptr) {
    listener_ = Listener("0.0.0.0", port);
    EXPECT_EQ(listener_->verbs, nullptr) << "it has no device";
    client_ = Routed(ip, port, RDMA_PS_TCP, from);
    CreateQp(client_);
    client_mr_ = rdma_reg_msgs(client_, client_data_, sizeof(client_data_));
    ASSERT_EQ(rdma_post_recv(client_, nullptr, client_data_,
                             sizeof(client_data_), client_mr_),
              0);
    rdma_conn_param param = Params();
    ASSERT_EQ(rdma_connect(client_, &param), 0) << std::strerror(errno);
    server_ = Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    CreateQp(server_);
    server_mr_ = rdma_reg_msgs(server_, server_data_, sizeof(server_data_));
    ASSERT_EQ(rdma_accept(server_, &param), 0) << std::strerror(errno);
    Expect(RDMA_CM_EVENT_ESTABLISHED);
    Expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  void DestroyAll() {
    rdma_dereg_mr(client_mr_);
    rdma_dereg_mr(server_mr_);
    for (rdma_cm_id* id : {client_, server_}) {
      rdma_destroy_qp(id);
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    EXPECT_EQ(rdma_destroy_id(listener_), 0);
  }

  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* client_ = nullptr;
  rdma_cm_id* server_ = nullptr;
  char client_data_[64] = {};
  char server_data_[64] = {};
  ibv_mr* client_mr_ = nullptr;
  ibv_mr* server_mr_ = nullptr;
};

}  // namespace urnic::rdmacm
