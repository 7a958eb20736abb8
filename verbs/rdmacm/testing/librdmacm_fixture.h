#pragma once

// Tests with the distribution's librdmacm on our device, which it finds through
// the preload.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "verbs/rdmacm/testing/librdmacm_device.h"

namespace urnic::rdmacm {

inline sockaddr_storage Address(const char* ip, uint16_t port) {
  sockaddr_storage storage = {};
  if (std::strchr(ip, ':') == nullptr) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    inet_pton(AF_INET, ip, &v4->sin_addr);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    inet_pton(AF_INET6, ip, &v6->sin6_addr);
  }
  return storage;
}

class LibrdmacmTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool installed = (InstallLibrdmacmDevice(), true);
    ASSERT_TRUE(installed);
  }
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr) << std::strerror(errno);
  }
  void TearDown() override {
    if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  }

  // Waits for the next event, acknowledges it, and returns its id.
  rdma_cm_id* Expect(rdma_cm_event_type type, int status = 0) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0) << std::strerror(errno);
    if (event == nullptr) return nullptr;
    EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type));
    EXPECT_EQ(event->status, status);
    rdma_cm_id* const id = event->id;
    rdma_ack_cm_event(event);
    return id;
  }
  rdma_cm_id* Create(rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, space), 0);
    return id;
  }
  rdma_cm_id* Listener(const char* ip, uint16_t port,
                       rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = Create(space);
    sockaddr_storage address = Address(ip, port);
    EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0)
        << std::strerror(errno);
    EXPECT_EQ(rdma_listen(id, 3), 0) << std::strerror(errno);
    return id;
  }
  // `from`: our address; null: any.
  rdma_cm_id* Routed(const char* ip, uint16_t port,
                     rdma_port_space space = RDMA_PS_TCP,
                     const char* from = nullptr) {
    rdma_cm_id* id = Create(space);
    sockaddr_storage to = Address(ip, port);
    sockaddr_storage source = {};
    if (from != nullptr) source = Address(from, 0);
    EXPECT_EQ(
        rdma_resolve_addr(
            id,
            from != nullptr ? reinterpret_cast<sockaddr*>(&source) : nullptr,
            reinterpret_cast<sockaddr*>(&to), 2000),
        0)
        << std::strerror(errno);
    EXPECT_EQ(Expect(RDMA_CM_EVENT_ADDR_RESOLVED), id);
    EXPECT_NE(id->verbs, nullptr);
    EXPECT_EQ(rdma_resolve_route(id, 2000), 0) << std::strerror(errno);
    EXPECT_EQ(Expect(RDMA_CM_EVENT_ROUTE_RESOLVED), id);
    return id;
  }
  static void CreateQp(rdma_cm_id* id) {
    ibv_qp_init_attr attributes = {};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {16, 16, 1, 1, 0};
    attributes.sq_sig_all = 1;
    ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0)
        << std::strerror(errno);
  }

  rdma_event_channel* channel_ = nullptr;
};

}  // namespace urnic::rdmacm
