// An engine behind routers: its connections follow its routes.

#include <functional>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/engine_wire_fixture.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/support/host_wire.h"

namespace urnic {
namespace {

constexpr uint32_t kFarIp = 0x0a020007;  // 10.2.0.7, not on a link of ours

class EngineRouteTest : public EngineWireTest {
 protected:
  void SetRouteVia(uint32_t router) {
    const net::Route route = {.prefix = wire::Gid::FromIpv4(0x0a020000),
                              .prefix_bits = 96 + 16,
                              .gateway = wire::Gid::FromIpv4(router)};
    SetRoutes({route});
  }
  void SetRoutes(const std::vector<net::Route>& routes) {
    Engine::ControlScope scope(node_.engine());
    node_.network().SetRoutes(routes, node_.engine().Now());
  }
  // The MAC of the router `ip`; all routers are behind the test's one port.
  wire::MacAddress MacOf(uint32_t ip) const {
    wire::MacAddress mac = peer_->mac();
    mac.bytes[4] = static_cast<uint8_t>(ip >> 8);
    mac.bytes[5] = static_cast<uint8_t>(ip);
    return mac;
  }
  void IntroduceRouter(uint32_t ip) {
    wire::NeighborSelf self = Peer(ip);
    self.mac = MacOf(ip);
    Bytes frame(wire::kNeighborFrameBytes);
    frame.resize(wire::EmitSolicitation(self, node_.gid(), {}, frame));
    Transmit(frame);
    Run();
  }
  // The GIDs that our frames ask for.
  std::vector<wire::Gid> Asked() {
    std::vector<wire::Gid> asked;
    for (const Bytes& frame : Received()) {
      wire::FrameView view;
      wire::NeighborInfo info;
      if (wire::ParseFrame(frame.data(), frame.size(), view) !=
              RxVerdict::kArp ||
          wire::ParseArp(view, info) != RxVerdict::kArp ||
          info.kind != wire::NeighborKind::kSolicit) {
        continue;
      }
      asked.push_back(info.asked);
    }
    return asked;
  }
  void ConnectFar() {
    IntroduceRouter(kPeerIp);
    auto path = Resolve(kFarIp, Duration::Milliseconds(1));
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(path->headers.dst_mac(), MacOf(kPeerIp));
    QpConfig config;
    config.dest_qpn = kPeerQpn;
    node_.Connect(*path, config);
    Received();
  }
  // The destination MAC of the next request.
  wire::MacAddress NextMac() {
    node_.rings().PostSend({.sges = {node_.Sge(0, kBytes)}});
    node_.engine().Doorbell(node_.qp());
    wire::MacAddress mac;
    for (const Bytes& frame : Received()) {
      std::memcpy(&mac, frame.data(), sizeof(mac));
    }
    return mac;
  }
};

TEST_F(EngineRouteTest, WithoutARouteThereIsNoPath) {
  EXPECT_EQ(Resolve(kFarIp, Duration::Milliseconds(1)).status().code(),
            absl::StatusCode::kUnavailable);
  SetRouteVia(kPeerIp);
  ConnectFar();
  EXPECT_EQ(NextMac(), MacOf(kPeerIp));
}

TEST_F(EngineRouteTest, AConnectionFollowsItsRouteToAKnownRouter) {
  SetRouteVia(kPeerIp);
  ConnectFar();
  IntroduceRouter(kStrangerIp);
  SetRouteVia(kStrangerIp);
  EXPECT_EQ(NextMac(), MacOf(kStrangerIp));
}

TEST_F(EngineRouteTest, AConnectionStaysUntilTheNewRouterAnswers) {
  SetRouteVia(kPeerIp);
  ConnectFar();
  SetRouteVia(kStrangerIp);
  const std::vector<wire::Gid> asked = Asked();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0], wire::Gid::FromIpv4(kStrangerIp));
  EXPECT_EQ(NextMac(), MacOf(kPeerIp));
  IntroduceRouter(kStrangerIp);
  EXPECT_EQ(NextMac(), MacOf(kStrangerIp));
}

// As happens when a route is replaced by removing and adding it.
TEST_F(EngineRouteTest, AConnectionWithoutARouteKeepsItsPath) {
  SetRouteVia(kPeerIp);
  ConnectFar();
  SetRoutes({});
  EXPECT_EQ(NextMac(), MacOf(kPeerIp));
  EXPECT_EQ(Resolve(kFarIp, Duration::Milliseconds(1)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(EngineRouteTest, APathFoundBeforeTheRouteChangedFollowsIt) {
  SetRouteVia(kPeerIp);
  IntroduceRouter(kPeerIp);
  IntroduceRouter(kStrangerIp);
  auto path = Resolve(kFarIp, Duration::Milliseconds(1));
  ASSERT_TRUE(path.ok()) << path.status();
  SetRouteVia(kStrangerIp);
  QpConfig config;
  config.dest_qpn = kPeerQpn;
  node_.Connect(*path, config);
  Received();
  EXPECT_EQ(NextMac(), MacOf(kStrangerIp));
}

// As for a new address vector in SQD.
TEST_F(EngineRouteTest, ANewPathOfAConnectionFollowsTheRouteToo) {
  SetRouteVia(kPeerIp);
  ConnectFar();
  IntroduceRouter(kStrangerIp);
  const auto path = Resolve(kFarIp, Duration::Milliseconds(1));
  ASSERT_TRUE(path.ok()) << path.status();
  SetRouteVia(kStrangerIp);
  {
    Engine::ControlScope scope(node_.engine());
    node_.engine().qps().SetPath(node_.qp(), *path);
  }
  EXPECT_EQ(NextMac(), MacOf(kStrangerIp));
}

// Routers do not forward frames without an IP header.
//= IBTA A16
TEST_F(EngineRouteTest, ARoceV1ConnectionKeepsItsPath) {
  Connect(/*roce_v1=*/true);
  ASSERT_EQ(NextMac(), peer_->mac());
  IntroduceRouter(kStrangerIp);
  const net::Route route = {.prefix = wire::Gid::FromIpv4(kPeerIp),
                            .prefix_bits = 128,
                            .gateway = wire::Gid::FromIpv4(kStrangerIp)};
  SetRoutes({route});
  EXPECT_EQ(NextMac(), peer_->mac());
}

TEST_F(EngineRouteTest, AnAddressHandleFollowsItsRoute) {
  SetRouteVia(kPeerIp);
  IntroduceRouter(kPeerIp);
  IntroduceRouter(kStrangerIp);
  auto path = Resolve(kFarIp, Duration::Milliseconds(1));
  ASSERT_TRUE(path.ok()) << path.status();
  Engine::ControlScope scope(node_.engine());
  Network& network = node_.network();
  const uint32_t number =
      network.CreateAh(*path, testing::kNodePd, node_.engine().Now());
  const RocePath* known =
      network.address_handles().Find(number, testing::kNodePd);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->headers.dst_mac(), MacOf(kPeerIp));
  const net::Route route = {.prefix = wire::Gid::FromIpv4(kFarIp),
                            .prefix_bits = 128,
                            .gateway = wire::Gid::FromIpv4(kStrangerIp)};
  network.SetRoutes({&route, 1}, node_.engine().Now());
  EXPECT_EQ(known->headers.dst_mac(), MacOf(kStrangerIp));
  network.DestroyAh(number);
}

// A path that belongs to no queue pair and no address handle.
class OnePath final : public net::PathUsers {
 public:
  explicit OnePath(const net::Path& used) : path(used) {}
  void ForEachPath(const std::function<void(net::Path&)>& visit) override {
    visit(path);
  }

  net::Path path;
};

TEST_F(EngineRouteTest, APathOfOtherUsersFollowsItsRoute) {
  SetRouteVia(kPeerIp);
  IntroduceRouter(kPeerIp);
  auto path = Resolve(kFarIp, Duration::Milliseconds(1));
  ASSERT_TRUE(path.ok()) << path.status();
  OnePath user(*path);
  OnePath stranger(*path);
  {
    Engine::ControlScope scope(node_.engine());
    node_.network().AddPathUsers(&user);
  }
  SetRouteVia(kStrangerIp);
  EXPECT_EQ(user.path.headers.dst_mac(), MacOf(kPeerIp)) << "no answer yet";
  IntroduceRouter(kStrangerIp);
  EXPECT_EQ(user.path.headers.dst_mac(), MacOf(kStrangerIp));
  EXPECT_EQ(stranger.path.headers.dst_mac(), MacOf(kPeerIp));
  {
    Engine::ControlScope scope(node_.engine());
    node_.network().RemovePathUsers(&user);
  }
  SetRouteVia(kPeerIp);
  EXPECT_EQ(user.path.headers.dst_mac(), MacOf(kStrangerIp)) << "removed";
}

// Believes each report.
class Believer final : public net::TcpReports {
 public:
  explicit Believer(Network* network) : network_(network) {}
  void OnTooBig(const net::TcpTooBig& report, Time now) override {
    reports.push_back(report);
    network_->LearnPathMtu(report.remote, report.mtu, now);
  }

  std::vector<net::TcpTooBig> reports;

 private:
  Network* const network_;
};

//= RFC 5927 4.1
TEST_F(EngineRouteTest, AReportAboutASegmentCountsIfItsConnectionBelievesIt) {
  constexpr uint32_t kSmall = 1000;
  SetRouteVia(kPeerIp);
  IntroduceRouter(kPeerIp);
  const auto in_use = Resolve(kFarIp, Duration::Milliseconds(1));
  ASSERT_TRUE(in_use.ok()) << in_use.status();
  const Bytes frame = testing::TooBigFrame(
      {.router_mac = MacOf(kPeerIp),
       .mac = node_.port().mac(),
       .router = wire::Gid::FromIpv4(kPeerIp),
       .to = node_.gid(),
       .quoted_src = node_.gid(),
       .quoted_dst = wire::Gid::FromIpv4(kFarIp),
       .mtu = kSmall,
       .segment = {{wire::Be<uint16_t>(50000), wire::Be<uint16_t>(20000),
                    wire::Be<uint32_t>(77)}}});
  const auto report_to = [&](net::TcpReports* reports) {
    Engine::ControlScope scope(node_.engine());
    node_.network().ReportTcpTo(reports);
  };
  const auto mtu = [&] {
    return Resolve(kFarIp, Duration::Milliseconds(1))->mtu;
  };
  Transmit(frame);
  Run();
  EXPECT_GT(mtu(), kSmall) << "nobody takes reports";
  Believer believer(&node_.network());
  report_to(&believer);
  Transmit(frame);
  Run();
  ASSERT_EQ(believer.reports.size(), 1u);
  EXPECT_EQ(believer.reports[0].local, node_.gid());
  EXPECT_EQ(believer.reports[0].local_port, 50000);
  EXPECT_EQ(believer.reports[0].remote_port, 20000);
  EXPECT_EQ(believer.reports[0].seq, 77u);
  EXPECT_EQ(mtu(), kSmall);
  EXPECT_EQ(node_.engine().counters().path_mtu_shrunk, 1u);
  report_to(nullptr);
}

}  // namespace
}  // namespace urnic
