// Two programs, each with an iWARP device, and a wire between them.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "verbs/rdmacm/iw_cm_port.h"
#include "verbs/rdmacm/testing/expect_event.h"
#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

constexpr uint16_t kPort = 7174;
constexpr uint32_t kClientQpn = 0x11;
constexpr uint32_t kServerQpn = 0x22;

class IwConnectTest : public ::testing::Test {
 protected:
  IwConnectTest() {
    for (uint32_t i = 0; i < 8; ++i) {
      client_.tcp->queue_pairs.insert(kClientQpn + i);
      server_.tcp->queue_pairs.insert(kServerQpn + i);
    }
  }
  void ExpectNone(Host& host) { EXPECT_FALSE(host.Next().has_value()); }

  // A request of the client, which the server's program has read.
  void Ask(const std::string& data = "") {
    listener_ = server_.Listener(kPort);
    client_id_ = client_.Routed(Address("10.0.0.2", kPort));
    ASSERT_EQ(client_.Connect(client_id_, kClientQpn, data), 0);
    wire_.Deliver();
    request_ = Expect(server_, EventType::kConnectRequest);
    server_id_ = request_.id;
  }
  // A connection that both sides know to be established.
  void Establish() {
    Ask();
    ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
    wire_.Deliver();
    Expect(client_, EventType::kEstablished);
    Expect(server_, EventType::kEstablished);
  }
  static int Disconnect(Host& host, uint32_t id) {
    return host.service->Disconnect(*host.channel, id);
  }
  static int Attributes(Host& host, uint32_t id, uint32_t state,
                        ib_uverbs_qp_attr& out) {
    return host.service->InitQpAttributes(*host.channel, id, state, out);
  }

  FakeNetwork network_;
  FakeTcpWire wire_;
  Host client_{network_, "a", {"fe80::1", "10.0.0.1", "fd00::1"}, &wire_};
  Host server_{network_, "b", {"fe80::2", "10.0.0.2", "fd00::2"}, &wire_};
  uint32_t listener_ = 0;
  uint32_t client_id_ = 0;
  uint32_t server_id_ = 0;
  rdma_ucm_event_resp request_ = {};
};

//= Linux cma_iw_handler(), iw_cm_disconnect()
TEST_F(IwConnectTest, AConnectionIsMadeAndEnds) {
  Establish();
  EXPECT_EQ(Disconnect(client_, client_id_), 0);
  wire_.Deliver();
  Expect(client_, EventType::kDisconnected);
  Expect(server_, EventType::kDisconnected);
  EXPECT_EQ(Disconnect(server_, server_id_), 0) << "no error: it is over";
  network_.Advance(Duration::Seconds(3600));
  wire_.Deliver();
  ExpectNone(client_);  // no TIMEWAIT_EXIT
  ExpectNone(server_);
  // ADDR_RESOLVED, ROUTE_RESOLVED, ESTABLISHED, DISCONNECTED.
  EXPECT_EQ(client_.Destroy(client_id_), 4u);
  EXPECT_EQ(server_.Destroy(server_id_), 2u);
  EXPECT_EQ(server_.Destroy(listener_), 1u);
  EXPECT_EQ(client_.service->connections(), 0u);
  EXPECT_EQ(server_.service->connections(), 0u);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
}

//= Linux iw_conn_req_handler()
TEST_F(IwConnectTest, EachSideLearnsTheOthersParameters) {
  Ask("hello");
  const rdma_ucm_conn_param& asked = request_.param.conn;
  EXPECT_EQ(asked.responder_resources, 5) << "the client's initiator depth";
  EXPECT_EQ(asked.initiator_depth, 3);
  EXPECT_EQ(DataOf(asked), "hello") << "no header, and no padding";
  EXPECT_EQ(asked.qp_num, 0u) << "TCP does not carry it";
  rdma_ucm_conn_param answer = Host::Params(kServerQpn, "welcome");
  answer.responder_resources = 2;
  answer.initiator_depth = 1;
  ASSERT_EQ(server_.service->Accept(*server_.channel, server_id_, 7, &answer),
            0);
  wire_.Deliver();
  const auto there = Expect(client_, EventType::kEstablished).param.conn;
  EXPECT_EQ(DataOf(there), "welcome");
  EXPECT_EQ(there.responder_resources, 3) << "for the server's reads";
  EXPECT_EQ(there.initiator_depth, 2) << "no more than the server allows";
  const auto here = Expect(server_, EventType::kEstablished).param.conn;
  EXPECT_EQ(here.private_data_len, 0);
  EXPECT_EQ(here.responder_resources, 2);
  EXPECT_EQ(here.initiator_depth, 1);
}

TEST_F(IwConnectTest, ProgramsSeeTheAddressesOfTcp) {
  client_.rnic.set_interface_index(7);
  server_.rnic.set_interface_index(7);
  const uint32_t any = server_.Create();
  ASSERT_EQ(server_.Bind(any, Address("::", kPort)), 0);
  ASSERT_EQ(server_.service->Listen(*server_.channel, any, 1), 0);
  uint32_t qpn = kClientQpn;
  for (const SocketAddress& to :
       {Address("fd00::2", kPort), Address("fe80::2", kPort, 7),
        Address("10.0.0.2", kPort)}) {
    const uint32_t id = client_.Routed(to);
    ASSERT_EQ(client_.Connect(id, ++qpn), 0);
    wire_.Deliver();
    const uint32_t asked = Expect(server_, EventType::kConnectRequest).id;
    rdma_ucm_query_addr_resp mine;
    rdma_ucm_query_addr_resp its;
    ASSERT_EQ(client_.service->QueryAddress(*client_.channel, id, mine), 0);
    ASSERT_EQ(server_.service->QueryAddress(*server_.channel, asked, its), 0);
    ASSERT_EQ(mine.src_size, to.size());
    ASSERT_EQ(its.dst_size, to.size());
    EXPECT_EQ(std::memcmp(&its.dst_addr, &mine.src_addr, to.size()), 0);
    EXPECT_EQ(std::memcmp(&its.src_addr, &mine.dst_addr, to.size()), 0);
    EXPECT_EQ(its.pkey, 0) << "iWARP has none";
  }
}

//= Linux ucma_copy_iw_route()
TEST_F(IwConnectTest, TheRouteIsNoPathRecord) {
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  rdma_ucm_query_route_resp route;
  ASSERT_EQ(client_.service->QueryRoute(*client_.channel, id, route), 0);
  EXPECT_EQ(route.num_paths, 0u);
  EXPECT_EQ(route.port_num, 1);
  const wire::Gid mac = client_.rnic.info().mac_gid;
  EXPECT_EQ(std::memcmp(route.ib_route[0].sgid, mac.bytes.data(), 16), 0);
  bool found = true;
  ib_path_rec_data path;
  ASSERT_EQ(client_.service->QueryPath(*client_.channel, id, &found, path), 0);
  EXPECT_FALSE(found);
  rdma_ucm_query_addr_resp gids;
  ASSERT_EQ(client_.service->QueryGids(*client_.channel, id, gids), 0);
  const auto* source = reinterpret_cast<const SockaddrIb*>(&gids.src_addr);
  EXPECT_EQ(source->address, mac);
}

//= Linux rdma_init_qp_attr(), iw_cm_init_qp_attr()
TEST_F(IwConnectTest, QueuePairsGetWhatTheyNeed) {
  ib_uverbs_qp_attr out;
  client_id_ = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(Attributes(client_, client_id_, 1, out), 0);
  EXPECT_EQ(out.qp_attr_mask, 0x9u);  // STATE, ACCESS_FLAGS
  EXPECT_EQ(out.qp_access_flags, 0xfu) << "nobody asks again";
  client_.Destroy(client_id_);
  Establish();
  for (const uint32_t state : {1u, 2u}) {
    ASSERT_EQ(Attributes(server_, server_id_, state, out), 0);
    EXPECT_EQ(out.qp_state, state);
    EXPECT_EQ(out.qp_attr_mask, 0x9u);
    EXPECT_EQ(out.qp_access_flags, 0xfu);
  }
  ASSERT_EQ(Attributes(server_, server_id_, 3, out), 0);
  EXPECT_EQ(out.qp_attr_mask, 0u);
  EXPECT_EQ(Attributes(server_, server_id_, 4, out), EINVAL);
  ASSERT_EQ(Disconnect(server_, server_id_), 0);
  EXPECT_EQ(Attributes(server_, server_id_, 1, out), EINVAL) << "it is closing";
}

//= Linux cma_iw_handler(), iw_cm_accept(), iw_cm_reject()
TEST_F(IwConnectTest, AListenerMayRefuse) {
  Ask();
  const std::string why = "no";
  const std::span<const uint8_t> data(
      reinterpret_cast<const uint8_t*>(why.data()), why.size());
  ASSERT_EQ(server_.service->Reject(*server_.channel, server_id_, 0, data), 0);
  EXPECT_EQ(server_.service->Reject(*server_.channel, server_id_, 0, data),
            EINVAL);
  EXPECT_EQ(server_.Accept(server_id_, kServerQpn), EINVAL);
  wire_.Deliver();
  const auto event = Expect(client_, EventType::kRejected, -ECONNREFUSED);
  EXPECT_EQ(DataOf(event.param.conn), "no");
}

TEST_F(IwConnectTest, WithoutAListenerTheConnectionIsRefused) {
  const uint32_t listener = server_.Create();
  ASSERT_EQ(server_.Bind(listener, Address("10.0.0.2", kPort)), 0);
  ASSERT_EQ(server_.service->Listen(*server_.channel, listener, 1), 0);
  uint32_t qpn = kClientQpn;
  for (const SocketAddress& to :
       {Address("10.0.0.2", kPort + 1), Address("fd00::2", kPort)}) {
    const uint32_t id = client_.Routed(to);
    ASSERT_EQ(client_.Connect(id, ++qpn), 0);
    wire_.Deliver();
    Expect(client_, EventType::kRejected, -ECONNREFUSED);
    const Notice& notice = client_.rnic.failures.back();
    EXPECT_EQ(notice.code, ErrorCode::kConnectionRejected);
    EXPECT_EQ(notice.qpn, qpn);
    EXPECT_EQ(notice.remote, to.gid());
    EXPECT_NE(notice.text.find(": REJECTED -111: nobody listens there"),
              std::string::npos)
        << notice.text;
  }
  ExpectNone(server_);
}

//= Linux cma_match_private_data()
TEST_F(IwConnectTest, EachFamilyMayHaveItsListenerOnAPort) {
  const uint32_t four = server_.Listener(kPort);
  const uint32_t six = server_.Create();
  const int only = 1;
  ASSERT_EQ(server_.service->SetOption(
                *server_.channel, six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
                {reinterpret_cast<const uint8_t*>(&only), sizeof(only)}),
            0);
  ASSERT_EQ(server_.Bind(six, Address("::", kPort)), 0);
  ASSERT_EQ(server_.service->Listen(*server_.channel, six, 10), 0);
  ASSERT_EQ(
      client_.Connect(client_.Routed(Address("fd00::2", kPort)), kClientQpn),
      0);
  wire_.Deliver();
  server_.Destroy(Expect(server_, EventType::kConnectRequest).id);
  wire_.Deliver();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
  server_.Destroy(six);
  EXPECT_EQ(server_.tcp->listeners(), 1u);
  ASSERT_EQ(client_.Connect(client_.Routed(Address("fd00::2", kPort)),
                            kClientQpn + 1),
            0);
  wire_.Deliver();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
  server_.Destroy(four);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
}

TEST_F(IwConnectTest, APeerThatIsGoneIsUnreachable) {
  const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
  wire_.is_lost = [](const auto&) { return true; };
  ASSERT_EQ(client_.Connect(id, kClientQpn), 0);
  wire_.Deliver();
  ExpectNone(client_);
  wire_.TimeOut();
  Expect(client_, EventType::kUnreachable, -ETIMEDOUT);
  ASSERT_EQ(client_.rnic.failures.size(), 1u);
  EXPECT_EQ(client_.rnic.failures[0].code, ErrorCode::kConnectionUnanswered);
}

TEST_F(IwConnectTest, AQueuePairMustBeReadyForAConnection) {
  Ask();
  const uint32_t other = client_.Routed(Address("10.0.0.2", kPort));
  EXPECT_EQ(client_.Connect(other, 0x99), EINVAL) << "there is none";
  EXPECT_EQ(client_.Connect(other, kClientQpn), EINVAL) << "it has one";
  EXPECT_EQ(client_.Connect(other, kClientQpn + 1), 0) << "one may try again";
  EXPECT_EQ(server_.Accept(server_id_, 0x99), EINVAL);
  wire_.Deliver();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
}

TEST_F(IwConnectTest, ARequestMayBeWithdrawnBeforeItIsAnswered) {
  Ask();
  client_.Destroy(client_id_);
  wire_.Deliver();
  ExpectNone(server_);
  EXPECT_EQ(server_.Accept(server_id_, kServerQpn), ECONNRESET);
  server_.Destroy(server_id_);
  EXPECT_EQ(server_.service->connections(), 0u);
}

TEST_F(IwConnectTest, AWithdrawnRequestIsNotShown) {
  listener_ = server_.Listener(kPort);
  client_id_ = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
  wire_.Deliver();
  EXPECT_TRUE(server_.readiness.ready);
  client_.Destroy(client_id_);
  wire_.Deliver();
  EXPECT_FALSE(server_.readiness.ready);
  EXPECT_EQ(server_.service->connections(), 0u);
}

TEST_F(IwConnectTest, RequestsBeyondTheBacklogWait) {
  server_.Listener(kPort, PortSpace::kTcp, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t id = client_.Routed(Address("10.0.0.2", kPort));
    const std::string data(1, static_cast<char>('a' + i));
    ASSERT_EQ(client_.Connect(id, kClientQpn + i, data), 0);
  }
  wire_.Deliver();
  for (const char* data : {"a", "b", "c"}) {
    EXPECT_EQ(DataOf(Expect(server_, EventType::kConnectRequest).param.conn),
              data);
  }
  EXPECT_FALSE(server_.readiness.ready);
}

TEST_F(IwConnectTest, DestroyingAListenerRefusesItsUnreadRequests) {
  listener_ = server_.Listener(kPort);
  client_id_ = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
  wire_.Deliver();
  EXPECT_TRUE(server_.readiness.ready);
  EXPECT_EQ(server_.Destroy(listener_), 0u);
  EXPECT_FALSE(server_.readiness.ready);
  wire_.Deliver();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
  server_.Listener(kPort);
}

// As programs do that want one connection only.
TEST_F(IwConnectTest, ARequestOutlivesItsListener) {
  Ask();
  EXPECT_EQ(server_.Destroy(listener_), 1u);
  const uint32_t other = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(other, kClientQpn + 1), 0);
  wire_.Deliver();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
  ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
  EXPECT_EQ(server_.tcp->listeners(), 0u);
  wire_.Deliver();
  Expect(client_, EventType::kEstablished);
  Expect(server_, EventType::kEstablished);
}

// What the client sees when the server's program destroys its id, and the
// reverse, at each step.
TEST_F(IwConnectTest, AnIdMayBeDestroyedAtEachStep) {
  Ask();
  EXPECT_EQ(server_.Destroy(server_id_), 0u);
  wire_.Deliver();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
  client_.Destroy(client_id_);
  server_.Destroy(listener_);

  client_.tcp->queue_pairs.insert(kClientQpn);
  Ask();
  ASSERT_EQ(server_.Accept(server_id_, kServerQpn), 0);
  EXPECT_EQ(server_.Destroy(server_id_), 0u);
  wire_.Deliver();
  Expect(client_, EventType::kEstablished);
  Expect(client_, EventType::kDisconnected);
  client_.Destroy(client_id_);
  server_.Destroy(listener_);

  client_.tcp->queue_pairs.insert(kClientQpn);
  server_.tcp->queue_pairs.insert(kServerQpn);
  Establish();
  EXPECT_EQ(client_.Destroy(client_id_), 3u);
  wire_.Deliver();
  Expect(server_, EventType::kDisconnected);
  server_.Destroy(server_id_);
  EXPECT_EQ(client_.service->connections(), 0u);
  EXPECT_EQ(server_.service->connections(), 0u);
}

TEST_F(IwConnectTest, AConnectionMayBeEndedWhileItIsSetUp) {
  server_.Listener(kPort);
  client_id_ = client_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn), 0);
  EXPECT_EQ(Disconnect(client_, client_id_), 0);
  wire_.Deliver();
  Expect(client_, EventType::kConnectError, -ECONNABORTED);
}

TEST_F(IwConnectTest, ANeighbourMayHaveToBeAskedAgain) {
  server_.Listener(kPort);
  const auto routed = [&] {
    network_.SetSilent(GidOf("10.0.0.2"), false);
    client_id_ = client_.Routed(Address("10.0.0.2", kPort));
    network_.SetSilent(GidOf("10.0.0.2"), true);
  };
  routed();
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn, "late"), 0);
  EXPECT_EQ(client_.service->connections(), 1u);
  client_.rnic.Answer(GidOf("10.0.0.2"));
  wire_.Deliver();
  EXPECT_EQ(DataOf(Expect(server_, EventType::kConnectRequest).param.conn),
            "late");
  // It does not answer any more.
  routed();
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn + 1), 0);
  network_.Advance(Duration::Seconds(60));
  Expect(client_, EventType::kUnreachable, -ETIMEDOUT);
  // The queue pair is gone by the time that it does.
  routed();
  ASSERT_EQ(client_.Connect(client_id_, 0x99), 0);
  client_.rnic.Answer(GidOf("10.0.0.2"));
  Expect(client_, EventType::kConnectError, -EINVAL);
  // The program does not wait for it.
  routed();
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn + 2), 0);
  EXPECT_EQ(Disconnect(client_, client_id_), 0);
  Expect(client_, EventType::kConnectError, -ECONNABORTED);
  routed();
  ASSERT_EQ(client_.Connect(client_id_, kClientQpn + 3), 0);
  client_.Destroy(client_id_);
  EXPECT_EQ(client_.rnic.questions(), 0u);
  routed();
  client_.rnic.max_questions = 0;
  EXPECT_EQ(client_.Connect(client_id_, kClientQpn + 3), ENOMEM);
}

TEST_F(IwConnectTest, ThereAreNoDatagrams) {
  const uint32_t listener = server_.Create(PortSpace::kUdp, kQpTypeUd);
  ASSERT_EQ(server_.Bind(listener, Address("10.0.0.2", kPort)), 0);
  EXPECT_EQ(server_.service->Listen(*server_.channel, listener, 1), EOPNOTSUPP);
  const uint32_t id =
      client_.Routed(Address("10.0.0.2", kPort), PortSpace::kUdp, kQpTypeUd);
  EXPECT_EQ(client_.Connect(id, kClientQpn), EINVAL);
}

//= Linux rdma_notify()
TEST_F(IwConnectTest, NothingIsLeftToConfirm) {
  Establish();
  EXPECT_EQ(client_.Ready(client_id_), EINVAL);
  EXPECT_EQ(server_.service->Notify(*server_.channel, server_id_, 4), 0);
}

TEST_F(IwConnectTest, AProgramConnectsToItself) {
  server_.Listener(kPort);
  const uint32_t id = server_.Routed(Address("10.0.0.2", kPort));
  ASSERT_EQ(server_.Connect(id, kServerQpn), 0);
  wire_.Deliver();
  const uint32_t asked = Expect(server_, EventType::kConnectRequest).id;
  ASSERT_EQ(server_.Accept(asked, kServerQpn + 1), 0);
  wire_.Deliver();
  Expect(server_, EventType::kEstablished);
  Expect(server_, EventType::kEstablished);
}

// The program has called exit().
TEST_F(IwConnectTest, AProgramThatEndsTakesLeave) {
  Establish();
  client_.service->TakeLeave();
  wire_.Deliver();
  Expect(server_, EventType::kDisconnected);
}

//= RFC 5044 7.1.2
TEST(SetupFor, TheSideThatConnectsReleasesTheOther) {
  const mpa::SetupOptions setup = SetupFor({});
  EXPECT_TRUE(setup.peer_to_peer);
  EXPECT_EQ(setup.rtr_kinds, mpa::kRtrAll);
  EXPECT_EQ(setup.revision, 2);
  EXPECT_TRUE(setup.crc);
  EXPECT_FALSE(setup.markers);
}

TEST(SetupFor, TheOperatorsChoicesAreFollowed) {
  EXPECT_FALSE(SetupFor({.crc = false}).crc);
  EXPECT_TRUE(SetupFor({.markers = true}).markers);
  EXPECT_EQ(SetupFor({.mpa_revision = 1}).revision, 1);
  EXPECT_EQ(SetupFor({.rtr = iwarp::Rtr::kZero}).rtr_kinds, mpa::kRtrZeroFpdu);
  EXPECT_EQ(SetupFor({.rtr = iwarp::Rtr::kWrite}).rtr_kinds, mpa::kRtrWrite);
  EXPECT_EQ(SetupFor({.rtr = iwarp::Rtr::kRead}).rtr_kinds, mpa::kRtrRead);
  // A peer may still ask for it.
  const mpa::SetupOptions none = SetupFor({.rtr = iwarp::Rtr::kNone});
  EXPECT_FALSE(none.peer_to_peer);
  EXPECT_EQ(none.rtr_kinds, mpa::kRtrAll);
}

}  // namespace
}  // namespace urnic::rdmacm
