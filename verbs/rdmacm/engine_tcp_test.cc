// rdma_cm on two engines with iWARP, joined by a ring: events, private data,
// and a message over the connection.

#include "verbs/rdmacm/engine_tcp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/iwarp_node.h"
#include "verbs/rdmacm/iw_cm_port.h"
#include "verbs/rdmacm/testing/host.h"

namespace urnic::rdmacm {
namespace {

constexpr uint16_t kPort = 7174;

// The RNIC of a node, without verbs.
class NodeRnic final : public Rnic {
 public:
  explicit NodeRnic(urnic::testing::IwarpNode& node) : node_(node) {
    tcp_.Open(node.engine(), node.network());
    info_.name = "node";
  }

  const RnicInfo& info() const override { return info_; }
  std::vector<RnicAddress> Addresses() const override {
    return {{.gid = node_.gid(), .prefix_bits = 96 + 24}};
  }
  std::optional<Route> RouteTo(const wire::Gid&) const override {
    return std::nullopt;
  }
  uint8_t MtuCode(uint32_t) const override { return 3; }
  Time Now() const override { return Environment::Now(); }
  TcpConnections* tcp() override { return &tcp_; }
  bool NoteRefusal(const Notice&) override { return false; }
  void NoteFailure(const Notice&) override {}
  int Open() override { return 0; }
  void WithToken(void (*action)(void*, Time), void* context) override {
    Engine::ControlScope scope(node_.engine());
    action(context, Now());
  }
  bool TryWithToken(void (*action)(void*, Time), void* context) override {
    WithToken(action, context);
    return true;
  }
  void Wait() override { node_.engine().Progress(); }
  net::QuestionId AskPath(const net::PathQuery& query, net::PathWaiter* waiter,
                          Duration timeout) override {
    return node_.network().Ask(query, waiter, Now(), timeout);
  }
  void CancelPath(net::QuestionId id) override { node_.network().Cancel(id); }
  void ServeMads(net::MadHandler&) override { FAIL(); }
  void SendMad(std::span<const uint8_t, 256>, const net::PathQuery&) override {
    FAIL();
  }

 private:
  urnic::testing::IwarpNode& node_;
  EngineTcp tcp_;
  RnicInfo info_;
};

// A program on a node.
struct Program {
  explicit Program(urnic::testing::IwarpNode& its_node)
      : node(its_node),
        rnic(its_node),
        service({&rnic}, NumberKey{{17, 0}}),
        channel(service.OpenChannel(readiness)) {}
  ~Program() { service.CloseChannel(channel); }

  uint32_t Create() {
    uint32_t id = 0;
    EXPECT_EQ(service.CreateId(*channel, ++last_uid,
                               static_cast<uint16_t>(PortSpace::kTcp),
                               kQpTypeRc, &id),
              0);
    return id;
  }

  urnic::testing::IwarpNode& node;
  NodeRnic rnic;
  FakeReadiness readiness;
  Service service;
  EventChannel* channel;
  uint64_t last_uid = 0;
};

class EngineTcpTest : public ::testing::Test {
 protected:
  rdma_ucm_event_resp Expect(Program& program, EventType type, int status = 0) {
    EXPECT_TRUE(pair_.RunUntil([&] { return program.readiness.ready; }));
    rdma_ucm_event_resp out = {};
    EXPECT_EQ(program.service.GetEvent(*program.channel,
                                       [&](const rdma_ucm_event_resp& event) {
                                         out = event;
                                         return true;
                                       }),
              0);
    EXPECT_EQ(static_cast<EventType>(out.event), type);
    EXPECT_EQ(static_cast<int>(out.status), status);
    return out;
  }
  uint32_t Listen(uint16_t port) {
    const uint32_t id = server_.Create();
    EXPECT_EQ(
        server_.service.Bind(*server_.channel, id, Address("0.0.0.0", port)),
        0);
    EXPECT_EQ(server_.service.Listen(*server_.channel, id, 1), 0);
    return id;
  }
  uint32_t Routed(uint16_t port) {
    const uint32_t id = client_.Create();
    EXPECT_EQ(client_.service.ResolveAddress(
                  *client_.channel, id, {},
                  SocketAddress::FromGid(pair_.b.gid(), port, 0), 2000),
              0);
    Expect(client_, EventType::kAddrResolved);
    EXPECT_EQ(client_.service.ResolveRoute(*client_.channel, id, 2000), 0);
    Expect(client_, EventType::kRouteResolved);
    return id;
  }
  void Connect(const std::string& data = "") {
    qp_ = &pair_.a.Create();
    id_ = Routed(kPort);
    ASSERT_EQ(client_.service.Connect(*client_.channel, id_,
                                      Host::Params(qp_->qp->qpn(), data)),
              0);
  }
  void Accept(uint32_t id, const std::string& data = "") {
    server_qp_ = &pair_.b.Create();
    const rdma_ucm_conn_param params =
        Host::Params(server_qp_->qp->qpn(), data);
    ASSERT_EQ(server_.service.Accept(*server_.channel, id, 77, &params), 0);
  }

  urnic::testing::IwarpPair pair_{"rcm"};
  Program client_{pair_.a};
  Program server_{pair_.b};
  urnic::testing::IwarpNode::Program* qp_ = nullptr;
  urnic::testing::IwarpNode::Program* server_qp_ = nullptr;
  uint32_t id_ = 0;
};

TEST_F(EngineTcpTest, AConnectionCarriesAMessageAndEnds) {
  Listen(kPort);
  Connect("hello");
  const auto request = Expect(server_, EventType::kConnectRequest);
  EXPECT_EQ(DataOf(request.param.conn), "hello");
  EXPECT_EQ(request.param.conn.responder_resources, 5);
  EXPECT_EQ(request.param.conn.initiator_depth, 3);
  Accept(request.id, "welcome");
  const auto there = Expect(client_, EventType::kEstablished);
  EXPECT_EQ(DataOf(there.param.conn), "welcome");
  EXPECT_EQ(there.param.conn.responder_resources, 3);
  EXPECT_EQ(there.param.conn.initiator_depth, 3);
  Expect(server_, EventType::kEstablished);

  // The server may send first: the client has released it.
  ASSERT_TRUE(
      pair_.a.PostReceive(*qp_, {.wr_id = 1, .sges = {pair_.a.Sge(0, 8)}}));
  std::memcpy(pair_.b.memory(), "message", 8);
  ASSERT_TRUE(
      pair_.b.PostSend(*server_qp_, {.wr_id = 2, .sges = {pair_.b.Sge(0, 8)}}));
  ASSERT_TRUE(pair_.RunUntil([&] { return !pair_.a.done.empty(); }));
  EXPECT_STREQ(reinterpret_cast<const char*>(pair_.a.memory()), "message");

  EXPECT_EQ(client_.service.Disconnect(*client_.channel, id_), 0);
  Expect(client_, EventType::kDisconnected);
  Expect(server_, EventType::kDisconnected);
}

TEST_F(EngineTcpTest, AListenerMayRefuse) {
  Listen(kPort);
  Connect();
  const auto request = Expect(server_, EventType::kConnectRequest);
  const uint8_t why[] = {'n', 'o'};
  ASSERT_EQ(server_.service.Reject(*server_.channel, request.id, 0, why), 0);
  const auto event = Expect(client_, EventType::kRejected, -ECONNREFUSED);
  EXPECT_EQ(DataOf(event.param.conn), "no");
}

TEST_F(EngineTcpTest, WithoutAListenerTheConnectionIsRefused) {
  Connect();
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
}

TEST_F(EngineTcpTest, APortHasOneListener) {
  Listen(kPort);
  EngineTcp other;
  other.Open(pair_.b.engine(), pair_.b.network());
  TcpListenerId id = TcpListenerId::kNone;
  Engine::ControlScope scope(pair_.b.engine());
  EXPECT_EQ(other.Listen({}, kPort, 1, SetupFor({}), id), EADDRINUSE);
}

TEST_F(EngineTcpTest, AQueuePairMustBeReadyForAConnection) {
  Listen(kPort);
  const uint32_t id = Routed(kPort);
  const auto connect = [&](uint32_t qpn) {
    return client_.service.Connect(*client_.channel, id, Host::Params(qpn, ""));
  };
  EXPECT_EQ(connect(0xabcdef), EINVAL) << "there is none";
  Connect();
  EXPECT_EQ(connect(qp_->qp->qpn()), EINVAL) << "it has a connection";
  const auto request = Expect(server_, EventType::kConnectRequest);
  const rdma_ucm_conn_param params = Host::Params(0xabcdef, "");
  EXPECT_EQ(server_.service.Accept(*server_.channel, request.id, 77, &params),
            EINVAL);
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
}

TEST_F(EngineTcpTest, ARequestOutlivesItsListener) {
  const uint32_t listener = Listen(kPort);
  Connect();
  const auto request = Expect(server_, EventType::kConnectRequest);
  uint32_t events = 0;
  EXPECT_EQ(server_.service.DestroyId(*server_.channel, listener, &events), 0);
  Accept(request.id);
  Expect(client_, EventType::kEstablished);
  Expect(server_, EventType::kEstablished);
  EXPECT_EQ(pair_.b.connections().listeners(), 0u);
}

// What the end of a process waits for.
TEST_F(EngineTcpTest, AFarewellIsAConnectionThatIsForgottenAndNotOver) {
  TcpConnections& tcp = *client_.rnic.tcp();
  Listen(kPort);
  Connect();
  Accept(Expect(server_, EventType::kConnectRequest).id);
  Expect(client_, EventType::kEstablished);
  Expect(server_, EventType::kEstablished);
  EXPECT_EQ(tcp.size(), 1u);
  EXPECT_EQ(tcp.farewells(), 0u);
  uint32_t events = 0;
  EXPECT_EQ(client_.service.DestroyId(*client_.channel, id_, &events), 0);
  EXPECT_EQ(tcp.farewells(), 1u);
  EXPECT_TRUE(pair_.RunUntil([&] { return tcp.farewells() == 0; }));
}

TEST_F(EngineTcpTest, AnIdMayBeDestroyedAtEachStep) {
  const uint32_t listener = Listen(kPort);
  uint32_t events = 0;
  Connect();
  EXPECT_EQ(client_.service.DestroyId(*client_.channel, id_, &events), 0);
  Connect();
  auto request = Expect(server_, EventType::kConnectRequest);
  EXPECT_EQ(server_.service.DestroyId(*server_.channel, request.id, &events),
            0);
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
  Connect();
  request = Expect(server_, EventType::kConnectRequest);
  Accept(request.id);
  Expect(client_, EventType::kEstablished);
  Expect(server_, EventType::kEstablished);
  EXPECT_EQ(client_.service.DestroyId(*client_.channel, id_, &events), 0);
  Expect(server_, EventType::kDisconnected);
  Connect();
  EXPECT_EQ(server_.service.DestroyId(*server_.channel, listener, &events), 0);
  Expect(client_, EventType::kRejected, -ECONNREFUSED);
}

}  // namespace
}  // namespace urnic::rdmacm
