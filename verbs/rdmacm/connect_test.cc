// Two programs, each with an RNIC, and a wire between them.

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ras/facts/facts.h"
#include "transport/cm/image.h"
#include "transport/wire/mad.h"
#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint32_t kClientQpn = 0x11;
constexpr uint32_t kServerQpn = 0x22;

class ConnectTest : public ::testing::Test {
 protected:
  // The event by which the server learns of a request.
  rdma_ucm_event_resp Request() {
    network_.Deliver();
    const auto event = server_.Next();
    EXPECT_TRUE(event.has_value());
    if (!event.has_value()) return {};
    EXPECT_EQ(static_cast<EventType>(event->event), EventType::kConnectRequest);
    return *event;
  }
  // Makes a connection that both sides consider established.
  void Establish() {
    listener_ = server_.Listener(kPort);
    client_id_ = client_.Routed(Address("10.0.0.2", kPort));
    ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
    server_id_ = Request().id;
    ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
    network_.Deliver();
    ASSERT_EQ(client_.NextType(), EventType::kConnectResponse);
    ASSERT_EQ(client_.Ready(client_id_), 0);
    network_.Deliver();
    ASSERT_EQ(server_.NextType(), EventType::kEstablished);
  }

  FakeNetwork network_;
  Host client_{network_, "a", {"fe80::1", "10.0.0.1", "fd00::1"}};
  Host server_{network_, "b", {"fe80::2", "10.0.0.2", "fd00::2"}};
  uint32_t listener_ = 0;
  uint32_t client_id_ = 0;
  uint32_t server_id_ = 0;
};

//= Linux cma_ib_handler()
TEST_F(ConnectTest, AConnectionIsMadeAndEnds) {
  Establish();
  EXPECT_FALSE(client_.readiness.ready);
  EXPECT_EQ(client_.service->Disconnect(*client_.channel, client_id_), 0);
  network_.Deliver();
  EXPECT_EQ(server_.NextType(), EventType::kDisconnected);
  EXPECT_TRUE(client_.rnic.failures.empty());
  EXPECT_TRUE(server_.rnic.failures.empty());
  EXPECT_EQ(server_.service->Disconnect(*server_.channel, server_id_), 0);
  network_.Deliver();
  EXPECT_EQ(client_.NextType(), EventType::kDisconnected);
  network_.Advance(Duration::Seconds(3600));
  EXPECT_EQ(client_.NextType(), EventType::kTimewaitExit);
  EXPECT_EQ(server_.NextType(), EventType::kTimewaitExit);
  // ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_RESPONSE and these two.
  EXPECT_EQ(client_.Destroy(client_id_), 5u);
  EXPECT_EQ(server_.Destroy(server_id_), 3u);
  EXPECT_EQ(server_.Destroy(listener_), 1u);
}

//= Linux cma_send_device_removal_put()
TEST_F(ConnectTest, IdsOnADeviceThatFailsHearOfIt) {
  Establish();
  const uint32_t nowhere = client_.Create(PortSpace::kTcp, kQpTypeRc);
  client_.service->OnDeviceFailed("another");
  EXPECT_FALSE(client_.readiness.ready);
  client_.service->OnDeviceFailed("a");
  const auto event = client_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kDeviceRemoval);
  EXPECT_EQ(event->id, client_id_);
  EXPECT_FALSE(client_.readiness.ready) << nowhere << " is on no device";
}

TEST_F(ConnectTest, ConnectionsOfAnAddressThatGoesAreDisconnected) {
  Establish();
  EXPECT_EQ(
      client_.service->DisconnectFrom("a", Address("10.0.0.9", kPort).gid()),
      0u);
  EXPECT_EQ(
      client_.service->DisconnectFrom("a", Address("10.0.0.1", kPort).gid()),
      1u);
  network_.Deliver();
  EXPECT_EQ(server_.NextType(), EventType::kDisconnected);
}

TEST_F(ConnectTest, IdsAreShownWithTheirConnections) {
  const auto ids_of = [](Host& host, std::string_view rnic) {
    std::string lines;
    std::optional<uint64_t> next = 0;
    while (next.has_value())
      next = host.service->DescribeIds(rnic, *next, lines);
    std::vector<std::string> texts;
    for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
      const auto facts =
          ParseFacts(lines.substr(at, lines.find('\n', at) - at));
      std::string text;
      for (const char* const name :
           {"link", "lqpn", "qp-type", "state", "ps", "src-addr", "dst-addr"}) {
        const std::string* const value = facts->Find(name);
        text += (text.empty() ? "" : " ") +
                (value == nullptr ? std::string("?") : *value);
      }
      texts.push_back(text);
    }
    return texts;
  };
  Establish();
  const uint32_t idle = client_.Create(PortSpace::kUdp, kQpTypeUd);
  const auto clients = ids_of(client_, "a");
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_TRUE(clients[0].starts_with("a/1 17 RC CONNECT TCP 10.0.0.1:"))
      << clients[0];
  EXPECT_TRUE(clients[0].ends_with(" 10.0.0.2:7174")) << clients[0];
  // On no device, so it is told with each.
  EXPECT_EQ(clients[1], "- ? UD IDLE UDP ? ?");
  EXPECT_EQ(ids_of(client_, "another").size(), 1u);
  const auto servers = ids_of(server_, "b");
  ASSERT_EQ(servers.size(), 2u);
  EXPECT_TRUE(servers[0].starts_with("b/- ? RC LISTEN TCP")) << servers[0];
  EXPECT_TRUE(
      servers[1].starts_with("b/1 34 RC CONNECT TCP 10.0.0.2:7174 "
                             "10.0.0.1:"))
      << servers[1];
  client_.Destroy(idle);
}

TEST_F(ConnectTest, ConnectionsAreShownAsImages) {
  Establish();
  std::string images;
  const auto reply = [&](std::string_view part) {
    images += part;
    return true;
  };
  EXPECT_TRUE(client_.service->SendImages("another", reply));
  EXPECT_TRUE(images.empty());
  EXPECT_TRUE(client_.service->SendImages("a", reply));
  cm::MovedConnection moved;
  const auto* bytes = reinterpret_cast<const uint8_t*>(images.data());
  const ImageRefusal refusal =
      cm::ReadImage({bytes, images.size()}, Time(), moved);
  EXPECT_TRUE(refusal.ok()) << refusal.Text();
  EXPECT_EQ(moved.connection.state, cm::State::kEstablished);
  EXPECT_EQ(moved.connection.local_qpn.value, kClientQpn);
  EXPECT_EQ(moved.connection.remote_qpn.value, kServerQpn);
  const auto nobody = [](std::string_view) { return false; };
  EXPECT_FALSE(client_.service->SendImages("a", nobody));
}

TEST_F(ConnectTest, EachSideLearnsTheOthersParameters) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(id, kClientQpn, "hello"), 0);
  const rdma_ucm_event_resp request = Request();
  const rdma_ucm_conn_param& asked = request.param.conn;
  EXPECT_EQ(asked.qp_num, kClientQpn);
  EXPECT_EQ(asked.responder_resources, 5) << "the client's initiator depth";
  EXPECT_EQ(asked.initiator_depth, 3);
  EXPECT_EQ(asked.retry_count, 7);
  EXPECT_EQ(asked.rnr_retry_count, 6);
  EXPECT_EQ(asked.private_data_len, 56) << "what is left of 92 bytes";
  EXPECT_EQ(DataOf(asked).substr(0, 5), "hello");
  ASSERT_EQ(server_.Accept(request.id, kServerQpn, "welcome"), 0);
  network_.Deliver();
  const auto response = client_.Next();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->param.conn.qp_num, kServerQpn);
  EXPECT_EQ(response->param.conn.private_data_len, 196);
  EXPECT_EQ(DataOf(response->param.conn).substr(0, 7), "welcome");
}

TEST_F(ConnectTest, EceIsPassedOnInBothDirections) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.service->Connect(*client_.channel, id,
                                     Host::Params(kClientQpn, ""),
                                     {.vendor_id = 0x2c9, .attr_mod = 5}),
            0);
  const rdma_ucm_event_resp request = Request();
  EXPECT_EQ(request.ece.vendor_id, 0x2c9u);
  EXPECT_EQ(request.ece.attr_mod, 5u);
  const rdma_ucm_conn_param params = Host::Params(kServerQpn, "");
  ASSERT_EQ(server_.service->Accept(*server_.channel, request.id, 1, &params,
                                    {.vendor_id = 0x2c9, .attr_mod = 4}),
            0);
  network_.Deliver();
  const auto response = client_.Next();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->ece.vendor_id, 0x2c9u);
  EXPECT_EQ(response->ece.attr_mod, 4u);
}

//= Linux rdma_init_qp_attr(), ib_cm_init_qp_attr()
TEST_F(ConnectTest, QueuePairsGetWhatTheyNeed) {
  Establish();
  ib_uverbs_qp_attr init;
  ib_uverbs_qp_attr rtr;
  ib_uverbs_qp_attr rts;
  ib_uverbs_qp_attr peer;
  Service& service = *client_.service;
  EventChannel& channel = *client_.channel;
  ASSERT_EQ(service.InitQpAttributes(channel, client_id_, 1, init), 0);
  ASSERT_EQ(service.InitQpAttributes(channel, client_id_, 2, rtr), 0);
  ASSERT_EQ(service.InitQpAttributes(channel, client_id_, 3, rts), 0);
  ASSERT_EQ(
      server_.service->InitQpAttributes(*server_.channel, server_id_, 3, peer),
      0);
  EXPECT_EQ(init.qp_attr_mask, 0x39u);  // STATE, ACCESS_FLAGS, PKEY, PORT
  EXPECT_EQ(init.qp_access_flags, 0xeu);
  EXPECT_EQ(rtr.qp_attr_mask, 0x129181u);
  EXPECT_EQ(rtr.dest_qp_num, kServerQpn);
  EXPECT_EQ(rtr.path_mtu, 3u);
  EXPECT_EQ(rtr.rq_psn, peer.sq_psn);
  EXPECT_EQ(rtr.max_dest_rd_atomic, 5) << "the server's initiator depth";
  EXPECT_EQ(rtr.ah_attr.is_global, 1);
  EXPECT_EQ(rtr.ah_attr.grh.sgid_index, 3) << "of 10.0.0.1";
  EXPECT_EQ(rtr.ah_attr.grh.dgid[15], 2) << "10.0.0.2";
  EXPECT_EQ(rts.qp_attr_mask, 0x12e01u);
  EXPECT_EQ(rts.retry_cnt, 7);
  EXPECT_EQ(rts.rnr_retry, 6);
  EXPECT_EQ(rts.max_rd_atomic, 3);
  EXPECT_EQ(service.InitQpAttributes(channel, client_id_, 4, rts), EINVAL);
  EXPECT_EQ(service.InitQpAttributes(channel, client_id_, 7, rts), EINVAL);
}

// As in librdmacm, which sets up the queue pair first.
TEST_F(ConnectTest, TheAcceptingSideKnowsItsAttributesBeforeItAccepts) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  const uint32_t request = Request().id;
  ib_uverbs_qp_attr rtr;
  ib_uverbs_qp_attr rts;
  Service& service = *server_.service;
  ASSERT_EQ(service.InitQpAttributes(*server_.channel, request, 2, rtr), 0);
  ASSERT_EQ(service.InitQpAttributes(*server_.channel, request, 3, rts), 0);
  EXPECT_EQ(rtr.dest_qp_num, kClientQpn);
  EXPECT_EQ(rtr.max_dest_rd_atomic, 5);
  EXPECT_EQ(rts.max_rd_atomic, 3);
  ASSERT_EQ(server_.Accept(request, kServerQpn), 0);
  network_.Deliver();
  ib_uverbs_qp_attr peer_rtr;
  ib_uverbs_qp_attr peer_rts;
  ASSERT_EQ(
      client_.service->InitQpAttributes(*client_.channel, id, 2, peer_rtr), 0);
  ASSERT_EQ(
      client_.service->InitQpAttributes(*client_.channel, id, 3, peer_rts), 0);
  EXPECT_EQ(rtr.rq_psn, peer_rts.sq_psn);
  EXPECT_EQ(rts.sq_psn, peer_rtr.rq_psn);
}

TEST_F(ConnectTest, TheAckTimeoutOptionReachesBothQueuePairs) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  const uint8_t timeout = 9;
  ASSERT_EQ(
      client_.service->SetOption(*client_.channel, id, RDMA_OPTION_ID,
                                 RDMA_OPTION_ID_ACK_TIMEOUT, {&timeout, 1}),
      0);
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  const uint32_t request = Request().id;
  ASSERT_EQ(server_.Accept(request, kServerQpn), 0);
  network_.Deliver();
  ib_uverbs_qp_attr rts;
  ASSERT_EQ(client_.service->InitQpAttributes(*client_.channel, id, 3, rts), 0);
  EXPECT_EQ(rts.timeout, 9);
  ASSERT_EQ(
      server_.service->InitQpAttributes(*server_.channel, request, 3, rts), 0);
  EXPECT_EQ(rts.timeout, 9) << "as the request says";
}

TEST_F(ConnectTest, AListenerMayRefuse) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  const uint32_t request = Request().id;
  const std::string why = "no";
  const std::span<const uint8_t> data(
      reinterpret_cast<const uint8_t*>(why.data()), why.size());
  EXPECT_EQ(server_.service->Reject(*server_.channel, request, 7, data),
            EINVAL);
  ASSERT_EQ(server_.service->Reject(*server_.channel, request, 0, data), 0);
  network_.Deliver();
  const auto event = client_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kRejected);
  EXPECT_EQ(event->status, 28u);
  EXPECT_EQ(event->param.conn.private_data_len, 148);
  EXPECT_EQ(DataOf(event->param.conn).substr(0, 2), "no");
}

TEST_F(ConnectTest, WithoutAListenerTheServiceIsUnknown) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort + 1));
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  network_.Deliver();
  const auto event = client_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kRejected);
  EXPECT_EQ(event->status, 8u);
  ASSERT_EQ(client_.rnic.failures.size(), 1u);
  const Notice& notice = client_.rnic.failures[0];
  EXPECT_EQ(notice.code, ErrorCode::kConnectionRejected);
  EXPECT_EQ(notice.qpn, kClientQpn);
  EXPECT_EQ(notice.remote, GidOf("10.0.0.2"));
  EXPECT_EQ(notice.remote_port, kPort + 1);
  EXPECT_TRUE(
      notice.text.ends_with(" to 10.0.0.2:" + std::to_string(kPort + 1) +
                            ": REJECTED 8: nobody listens there"))
      << notice.text;
}

TEST_F(ConnectTest, APeerThatIsSilentIsAFailureOfTheClient) {
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  network_.is_lost = [](const auto&) { return true; };
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  network_.Advance(Duration::Seconds(3600));
  EXPECT_EQ(client_.NextType(), EventType::kUnreachable);
  ASSERT_EQ(client_.rnic.failures.size(), 1u);
  EXPECT_EQ(client_.rnic.failures[0].code, ErrorCode::kConnectionUnanswered);
}

//= Linux cma_match_private_data()
TEST_F(ConnectTest, AListenerOnOneAddressIsNotFoundUnderAnother) {
  const uint32_t listener = server_.Create();
  ASSERT_EQ(server_.Bind(listener, Address("10.0.0.2", kPort)), 0);
  ASSERT_EQ(server_.service->Listen(*server_.channel, listener, 1), 0);
  const uint32_t id = client_.Routed(Address("fd00::2", kPort));
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  network_.Deliver();
  const auto event = client_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kRejected);
  EXPECT_EQ(event->status, 28u);
  EXPECT_FALSE(server_.Next().has_value());
}

TEST_F(ConnectTest, APeerThatIsGoneIsUnreachable) {
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  network_.is_lost = [](const auto&) { return true; };
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  network_.Advance(Duration::Seconds(3600));
  const auto event = client_.Next();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kUnreachable);
  EXPECT_EQ(static_cast<int>(event->status), -ETIMEDOUT);
}

TEST_F(ConnectTest, EveryMessageMayBeLostOnce) {
  // The first message of each kind is lost: REQ, MRA, REP, RTU.
  std::set<uint16_t> seen;
  network_.is_lost = [&](const FakeNetwork::InFlight& in_flight) {
    wire::MadHeader header;
    std::memcpy(&header, in_flight.mad.data(), sizeof(header));
    return seen.insert(header.attribute_id.value()).second;
  };
  listener_ = server_.Listener(kPort);
  client_id_ = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
  network_.Advance(Duration::Seconds(60));
  server_id_ = Request().id;
  ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
  network_.Advance(Duration::Seconds(60));
  ASSERT_EQ(client_.NextType(), EventType::kConnectResponse);
  ASSERT_EQ(client_.Ready(client_id_), 0);
  network_.Advance(Duration::Seconds(60));
  EXPECT_EQ(server_.NextType(), EventType::kEstablished);
  EXPECT_FALSE(server_.Next().has_value());
}

TEST_F(ConnectTest, TrafficEstablishesTheConnectionToo) {
  listener_ = server_.Listener(kPort);
  client_id_ = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
  server_id_ = Request().id;
  ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
  constexpr uint32_t kCommEstablished = 4;
  EXPECT_EQ(server_.service->Notify(*server_.channel, server_id_, 3), EINVAL);
  EXPECT_EQ(
      server_.service->Notify(*server_.channel, server_id_, kCommEstablished),
      0);
  EXPECT_EQ(server_.NextType(), EventType::kEstablished);
  EXPECT_EQ(
      server_.service->Notify(*server_.channel, server_id_, kCommEstablished),
      EISCONN);
}

TEST_F(ConnectTest, RequestsBeyondTheBacklogWait) {
  server_.Listener(kPort, PortSpace::kTcp, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
    ASSERT_EQ(client_.Connect(id, kClientQpn + i), 0);
  }
  network_.Deliver();
  for (uint32_t i = 0; i < 3; ++i) {
    const auto event = server_.Next();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->param.conn.qp_num, kClientQpn + i);
  }
  EXPECT_FALSE(server_.readiness.ready);
}

TEST_F(ConnectTest, DestroyingAListenerRefusesItsUnreadRequests) {
  const uint32_t listener = server_.Listener(kPort, PortSpace::kTcp, 1);
  const uint32_t first = client_.Routed(Address("10.0.0.2", kPort));
  const uint32_t second = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(first, kClientQpn), 0);
  ASSERT_EQ(client_.Connect(second, kClientQpn + 1), 0);
  network_.Deliver();
  EXPECT_TRUE(server_.readiness.ready);
  EXPECT_EQ(server_.Destroy(listener), 0u);
  EXPECT_FALSE(server_.readiness.ready);
  network_.Deliver();
  EXPECT_EQ(client_.NextType(), EventType::kRejected);
  EXPECT_EQ(client_.NextType(), EventType::kRejected);
  // The port is free again.
  server_.Listener(kPort);
}

TEST_F(ConnectTest, DestroyingAnIdRemovesItsEvents) {
  Establish();
  ASSERT_EQ(client_.service->Disconnect(*client_.channel, client_id_), 0);
  network_.Deliver();
  EXPECT_TRUE(server_.readiness.ready);
  EXPECT_EQ(server_.Destroy(server_id_), 1u) << "ESTABLISHED was given";
  EXPECT_FALSE(server_.readiness.ready);
  EXPECT_FALSE(server_.Next().has_value());
  network_.Deliver();
  EXPECT_EQ(client_.NextType(), EventType::kDisconnected);
}

TEST_F(ConnectTest, ClosingAChannelEndsItsConnections) {
  Establish();
  server_.service->CloseChannel(server_.channel);
  server_.channel = server_.service->OpenChannel(server_.readiness);
  network_.Deliver();
  EXPECT_EQ(client_.NextType(), EventType::kDisconnected);
  server_.Listener(kPort);
}

TEST_F(ConnectTest, AnIdMovesToAnotherChannelWithItsEvents) {
  Establish();
  FakeReadiness readiness;
  EventChannel* const other = server_.service->OpenChannel(readiness);
  ASSERT_EQ(client_.service->Disconnect(*client_.channel, client_id_), 0);
  network_.Deliver();
  uint32_t events = 0;
  ASSERT_EQ(
      server_.service->MigrateId(*server_.channel, *other, server_id_, &events),
      0);
  EXPECT_EQ(events, 1u);
  EXPECT_FALSE(server_.readiness.ready);
  EXPECT_TRUE(readiness.ready);
  const auto event = server_.Next(other);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(static_cast<EventType>(event->event), EventType::kDisconnected);
  // It is no longer the old channel's.
  EXPECT_EQ(server_.service->Disconnect(*server_.channel, server_id_), EINVAL);
  EXPECT_EQ(
      server_.service->MigrateId(*server_.channel, *other, server_id_, &events),
      EINVAL);
  EXPECT_EQ(server_.service->Disconnect(*other, server_id_), 0);
  server_.service->CloseChannel(other);
}

TEST_F(ConnectTest, AListenerMovesWithItsWaitingRequests) {
  listener_ = server_.Listener(kPort, PortSpace::kTcp, 1);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(client_.Connect(client_.Routed(Address("10.0.0.2", kPort)),
                              kClientQpn + i),
              0);
  }
  network_.Deliver();
  FakeReadiness readiness;
  EventChannel* const other = server_.service->OpenChannel(readiness);
  uint32_t events = 0;
  ASSERT_EQ(
      server_.service->MigrateId(*server_.channel, *other, listener_, &events),
      0);
  for (int i = 0; i < 2; ++i) {
    const auto event = server_.Next(other);
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(server_.service->Reject(*other, event->id, 0, {}), 0)
        << "the request belongs to the listener's channel";
  }
  server_.service->CloseChannel(other);
}

TEST_F(ConnectTest, AnEventThatCannotBeDeliveredStays) {
  server_.Listener(kPort);
  ASSERT_EQ(
      client_.Connect(client_.Routed(Address("10.0.0.2", kPort)), kClientQpn),
      0);
  network_.Deliver();
  EXPECT_EQ(
      server_.service->GetEvent(
          *server_.channel, [](const rdma_ucm_event_resp&) { return false; }),
      EFAULT);
  EXPECT_TRUE(server_.readiness.ready);
  EXPECT_EQ(server_.NextType(), EventType::kConnectRequest);
}

TEST_F(ConnectTest, AProgramConnectsToItself) {
  server_.Listener(kPort);
  const uint32_t id = server_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(server_.Connect(id, kClientQpn), 0);
  const uint32_t request = Request().id;
  ASSERT_EQ(server_.Accept(request, kServerQpn), 0);
  network_.Deliver();
  EXPECT_EQ(server_.NextType(), EventType::kConnectResponse);
  ASSERT_EQ(server_.Ready(id), 0);
  network_.Deliver();
  EXPECT_EQ(server_.NextType(), EventType::kEstablished);
}

TEST_F(ConnectTest, Ipv6WorksIncludingLinkLocal) {
  client_.rnic.set_interface_index(7);
  const uint32_t any = server_.Create();
  ASSERT_EQ(server_.Bind(any, Address("::", kPort)), 0);
  ASSERT_EQ(server_.service->Listen(*server_.channel, any, 1), 0);
  uint32_t qpn = kClientQpn;
  for (const SocketAddress& to :
       {Address("fd00::2", kPort), Address("fe80::2", kPort, 7),
        Address("10.0.0.2", kPort)}) {
    const uint32_t id = client_.Routed(to);
    ASSERT_EQ(client_.Connect(id, ++qpn), 0);
    const rdma_ucm_event_resp request = Request();
    rdma_ucm_query_addr_resp mine;
    rdma_ucm_query_addr_resp its;
    ASSERT_EQ(client_.service->QueryAddress(*client_.channel, id, mine), 0);
    ASSERT_EQ(server_.service->QueryAddress(*server_.channel, request.id, its),
              0);
    ASSERT_EQ(mine.src_size, to.size());
    ASSERT_EQ(its.dst_size, to.size());
    if (to.is_link_local()) {
      its.dst_addr = mine.src_addr;  // a scope means something on its host only
    }
    EXPECT_EQ(std::memcmp(&its.dst_addr, &mine.src_addr, to.size()), 0);
    rdma_ucm_query_route_resp route;
    ASSERT_EQ(server_.service->QueryRoute(*server_.channel, request.id, route),
              0);
    EXPECT_EQ(route.num_paths, 1u);
    EXPECT_EQ(route.ib_route[0].sgid[15], 2);
    EXPECT_EQ(route.ib_route[0].dgid[15], 1);
    EXPECT_EQ(route.ib_route[0].mtu, 3u);
  }
}

TEST_F(ConnectTest, TheListenersQueuePairTypeMustMatch) {
  const uint32_t listener = server_.Create(PortSpace::kIb, kQpTypeXrcTarget);
  ASSERT_EQ(server_.Bind(listener, Address("0.0.0.0", kPort)), 0);
  ASSERT_EQ(server_.service->Listen(*server_.channel, listener, 1), 0);
  const uint32_t rc =
      client_.Routed(Address("10.0.0.2", kPort), PortSpace::kIb, kQpTypeRc);
  ASSERT_EQ(client_.Connect(rc, kClientQpn), 0);
  network_.Deliver();
  EXPECT_EQ(client_.NextType(), EventType::kRejected);
  const uint32_t xrc = client_.Routed(Address("10.0.0.2", kPort),
                                      PortSpace::kIb, kQpTypeXrcInitiator);
  ASSERT_EQ(client_.Connect(xrc, kClientQpn), 0);
  EXPECT_EQ(Request().param.conn.qp_num, kClientQpn);
}

//= IBTA 12.6
TEST_F(ConnectTest, PrivateDataIsLimitedToTheRoomAfterTheHeader) {
  server_.Listener(kPort);
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  EXPECT_EQ(client_.Connect(id, kClientQpn, std::string(57, 'x')), EINVAL);
  EXPECT_EQ(client_.Connect(id, kClientQpn, std::string(56, 'x')), 0);
  const uint32_t request = Request().id;
  EXPECT_EQ(server_.Accept(request, kServerQpn, std::string(197, 'x')), EINVAL);
  network_.Deliver();
  EXPECT_EQ(client_.NextType(), EventType::kRejected) << "accepting failed";
}

}  // namespace
}  // namespace urnic::rdmacm
