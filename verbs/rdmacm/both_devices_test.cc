// A server whose port has a RoCE and an iWARP device, and a client of each
// kind. rdma_cm takes the RoCE device for all addresses of the server.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "verbs/rdmacm/testing/expect_event.h"
#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint32_t kQpn = 0x11;
constexpr int kNobodyListens = 8;  // IB_CM_REJ_INVALID_SERVICE_ID

class BothDevicesTest : public ::testing::Test {
 protected:
  BothDevicesTest() {
    for (uint32_t i = 0; i < 8; ++i) {
      iwarp_.tcp->queue_pairs.insert(kQpn + i);
      server_.tcp->queue_pairs.insert(kQpn + i);
    }
  }
  void Deliver() {
    network_.Deliver();
    wire_.Deliver();
  }
  uint32_t Connect(Host& client, uint16_t port = kPort,
                   const std::string& to = "10.0.0.3") {
    const uint32_t id = client.Routed(Address(to, port));
    EXPECT_EQ(client.Connect(id, next_qpn_++), 0);
    Deliver();
    return id;
  }
  // The manager of RoCE waits a moment for the next listener.
  void ExpectNobodyListens() {
    network_.Advance(Duration::Seconds(1));
    Expect(roce_, EventType::kRejected, kNobodyListens);
  }
  uint32_t Bound(const SocketAddress& address, bool family_only = false) {
    const uint32_t id = server_.Create();
    const int value = family_only ? 1 : 0;
    std::array<uint8_t, sizeof(value)> bytes;
    std::memcpy(bytes.data(), &value, sizeof(value));
    EXPECT_EQ(server_.service->SetOption(*server_.channel, id, RDMA_OPTION_ID,
                                         RDMA_OPTION_ID_AFONLY, bytes),
              0);
    EXPECT_EQ(server_.Bind(id, address), 0);
    return id;
  }
  int Listen(uint32_t id) {
    return server_.service->Listen(*server_.channel, id, 10);
  }
  rdma_ucm_query_route_resp Route(uint32_t id) {
    rdma_ucm_query_route_resp route = {};
    EXPECT_EQ(server_.service->QueryRoute(*server_.channel, id, route), 0);
    return route;
  }
  // The device of the server that librdmacm finds for the id.
  const FakeRnic* DeviceOf(uint32_t id) {
    const uint64_t guid = Route(id).node_guid;
    for (const FakeRnic* rnic : {&server_.rnic, &*server_.second}) {
      if (std::memcmp(&guid, rnic->info().node_guid.data(), sizeof(guid)) ==
          0) {
        return rnic;
      }
    }
    return nullptr;
  }

  FakeNetwork network_;
  FakeTcpWire wire_;
  uint32_t next_qpn_ = kQpn;
  Host roce_{network_, "a", {"10.0.0.1", "fd00::1"}};
  Host iwarp_{network_, "b", {"10.0.0.2", "fd00::2"}, &wire_};
  Host server_{network_, "c", {"10.0.0.3", "fd00::3"}, &wire_, true};
};

//= Linux cma_listen_on_all()
TEST_F(BothDevicesTest, AListenerAtAllAddressesServesBoth) {
  for (const char* any : {"0.0.0.0", "::"}) {
    const uint32_t listener = Bound(Address(any, 0));
    ASSERT_EQ(Listen(listener), 0);
    EXPECT_EQ(DeviceOf(listener), nullptr);
    const rdma_ucm_query_route_resp route = Route(listener);
    EXPECT_EQ(route.port_num, 0);
    // That of IPv4 is in the same place.
    const uint16_t port = ntohs(route.src_addr.sin6_port);
    for (Host* client : {&roce_, &iwarp_}) {
      const uint32_t id = Connect(*client, port);
      const uint32_t asked = Expect(server_, EventType::kConnectRequest).id;
      EXPECT_EQ(DeviceOf(asked),
                client == &roce_ ? &server_.rnic : &*server_.second);
      EXPECT_EQ(Route(asked).port_num, 1);
      const uint32_t qpn = *server_.tcp->queue_pairs.begin();
      ASSERT_EQ(server_.Accept(asked, qpn), 0);
      Deliver();
      if (client == &roce_) {
        Expect(*client, EventType::kConnectResponse);
        ASSERT_EQ(client->Ready(id), 0);
        Deliver();
      } else {
        Expect(*client, EventType::kEstablished);
      }
      Expect(server_, EventType::kEstablished);
      server_.Destroy(asked);
      Deliver();
      client->Destroy(id);
      while (client->Next().has_value()) continue;
    }
    server_.Destroy(listener);
    EXPECT_EQ(server_.tcp->listeners(), 0u);
  }
}

TEST_F(BothDevicesTest, AListenerAtOneAddressServesItsDevice) {
  const uint32_t listener = Bound(Address("10.0.0.3", kPort));
  ASSERT_EQ(Listen(listener), 0);
  EXPECT_EQ(DeviceOf(listener), &server_.rnic);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
  Connect(iwarp_);
  Expect(iwarp_, EventType::kRejected, -ECONNREFUSED);
  Connect(roce_);
  Expect(server_, EventType::kConnectRequest);
}

TEST_F(BothDevicesTest, ConnectingTakesTheDeviceOfTheAddress) {
  roce_.Listener(kPort);
  EXPECT_EQ(DeviceOf(server_.Routed(Address("10.0.0.1", kPort))),
            &server_.rnic);
}

TEST_F(BothDevicesTest, EachDeviceRejectsInItsWay) {
  server_.Listener(kPort);
  Connect(roce_);
  Connect(iwarp_);
  for (int i = 0; i < 2; ++i) {
    const uint32_t asked = Expect(server_, EventType::kConnectRequest).id;
    EXPECT_EQ(server_.service->Reject(*server_.channel, asked, 0, {}), 0);
  }
  Deliver();
  Expect(roce_, EventType::kRejected, 28);
  Expect(iwarp_, EventType::kRejected, -ECONNREFUSED);
}

TEST_F(BothDevicesTest, TheBacklogIsThatOfTheId) {
  server_.Listener(kPort, PortSpace::kTcp, 1);
  Connect(roce_);
  Connect(iwarp_);
  const uint32_t first = Expect(server_, EventType::kConnectRequest).id;
  EXPECT_EQ(DeviceOf(first), &server_.rnic);
  const uint32_t second = Expect(server_, EventType::kConnectRequest).id;
  EXPECT_EQ(DeviceOf(second), &*server_.second);
}

TEST_F(BothDevicesTest, ADestroyedListenerLeavesBothDevices) {
  const uint32_t listener = server_.Listener(kPort);
  Connect(iwarp_);  // a request that the program never reads
  server_.Destroy(listener);
  Deliver();
  Expect(iwarp_, EventType::kRejected, -ECONNREFUSED);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
  Connect(roce_);
  ExpectNobodyListens();
}

TEST_F(BothDevicesTest, DatagramsAreForTheRoceDevice) {
  server_.Listener(kPort, PortSpace::kUdp, 10, kQpTypeUd);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
  const uint32_t id =
      roce_.Routed(Address("10.0.0.3", kPort), PortSpace::kUdp, kQpTypeUd);
  EXPECT_EQ(roce_.Connect(id, 0), 0);
  Deliver();
  Expect(server_, EventType::kConnectRequest);
}

TEST_F(BothDevicesTest, ADeviceThatCannotBeOpenedIsLeftOut) {
  server_.second->open_error = EBUSY;
  server_.Listener(kPort);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
  Connect(roce_);
  Expect(server_, EventType::kConnectRequest);
}

//= Linux cma_listen_on_all()
TEST_F(BothDevicesTest, ItListensOnBothDevicesOrNotAtAll) {
  TcpListenerId other;
  ASSERT_EQ(server_.tcp->Listen(GidOf("10.0.0.3"), kPort, 1, {}, other), 0);
  const uint32_t listener = Bound(Address("::", kPort), true);
  EXPECT_EQ(Listen(listener), EADDRINUSE);
  Connect(roce_, kPort, "fd00::3");
  ExpectNobodyListens();
  server_.tcp->Unlisten(other);
  EXPECT_EQ(Listen(listener), 0) << "it is bound as before";
  Connect(roce_, kPort, "fd00::3");
  Expect(server_, EventType::kConnectRequest);
}

}  // namespace
}  // namespace urnic::rdmacm
