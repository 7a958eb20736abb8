// Addresses are added and removed while queue pairs are connected: two engines
// at the ends of a ring.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/support/engine_node.h"
#include "transport/wire/address.h"

namespace urnic {
namespace {

using testing::EngineNode;
using testing::NodePair;

constexpr uint32_t kSecondIp = 0x0a010009;
constexpr uint32_t kBytes = 64;

class EngineAddressTest : public ::testing::Test {
 protected:
  static void SetAddresses(EngineNode& node,
                           const std::vector<wire::Gid>& gids) {
    std::vector<net::LocalAddress> addresses;
    for (const wire::Gid& gid : gids) addresses.push_back({gid, 96 + 24});
    Engine::ControlScope scope(node.engine());
    node.network().SetAddresses(std::move(addresses), node.engine().Now());
  }
  void Run() {
    for (int i = 0; i < 4; ++i) {
      nodes_.a.engine().Progress();
      nodes_.b.engine().Progress();
    }
  }
  void Send(EngineNode& from, EngineNode& to) {
    to.rings().PostRecv({.sges = {to.Sge(0, kBytes)}});
    from.rings().PostSend({.sges = {from.Sge(0, kBytes)}});
    from.engine().Doorbell(from.qp());
    Run();
  }
  static bool Completed(EngineNode& node) {
    urnic_cqe cqe;
    return node.Poll(cqe) && cqe.status == 0;
  }
  // Whether node b gets an answer when it asks for the address.
  bool IsAnswered(uint32_t ip) {
    for (int i = 0; i < 100; ++i) {
      if (Resolve(nodes_.b, ip).ok()) return true;
      nodes_.a.engine().Progress();
    }
    return false;
  }
  static absl::StatusOr<net::Path> Resolve(EngineNode& node, uint32_t ip) {
    return node.nic().ResolvePath({.local = node.gid(),
                                   .remote = wire::Gid::FromIpv4(ip),
                                   .udp_src_port = 50000},
                                  Duration::Milliseconds(1));
  }
  static uint64_t Lost(EngineNode& node) {
    return node.engine().counters().tx_source_gone;
  }

  NodePair nodes_{"address"};
  const wire::Gid second_ = wire::Gid::FromIpv4(kSecondIp);
};

TEST_F(EngineAddressTest, AnotherAddressDisturbsNoConnection) {
  SetAddresses(nodes_.a, {second_, nodes_.a.gid()});
  Send(nodes_.a, nodes_.b);
  EXPECT_TRUE(Completed(nodes_.a));
  EXPECT_TRUE(Completed(nodes_.b));
  EXPECT_EQ(Lost(nodes_.a), 0u);
}

TEST_F(EngineAddressTest, NothingIsSentFromARemovedAddress) {
  SetAddresses(nodes_.a, {second_});
  Send(nodes_.a, nodes_.b);
  EXPECT_FALSE(Completed(nodes_.a));
  EXPECT_FALSE(Completed(nodes_.b));
  EXPECT_GE(Lost(nodes_.a), 1u);
}

TEST_F(EngineAddressTest, NothingIsReceivedAtARemovedAddress) {
  SetAddresses(nodes_.a, {second_});
  Send(nodes_.b, nodes_.a);
  EXPECT_FALSE(Completed(nodes_.a));
  EXPECT_GE(nodes_.a.count(RxVerdict::kNotForUs), 1u);
  EXPECT_EQ(nodes_.a.count(RxVerdict::kAccept), 0u);
}

TEST_F(EngineAddressTest, AnAddressThatIsAddedAgainWorksAgain) {
  SetAddresses(nodes_.a, {});
  SetAddresses(nodes_.a, {second_, nodes_.a.gid()});
  Send(nodes_.a, nodes_.b);
  EXPECT_TRUE(Completed(nodes_.a));
  EXPECT_TRUE(Completed(nodes_.b));
  Send(nodes_.b, nodes_.a);
  EXPECT_TRUE(Completed(nodes_.a));
}

TEST_F(EngineAddressTest, AQuestionForAnAddressIsAnsweredOnlyWhileItIsOurs) {
  EXPECT_FALSE(IsAnswered(kSecondIp));
  EXPECT_GE(nodes_.a.count(RxVerdict::kNotForUs), 1u);
  SetAddresses(nodes_.a, {nodes_.a.gid(), second_});
  EXPECT_TRUE(IsAnswered(kSecondIp));
}

TEST_F(EngineAddressTest, PathsStartAndEndAtCurrentAddresses) {
  const uint32_t peer = 0x0a010002;
  SetAddresses(nodes_.a, {second_});
  EXPECT_EQ(Resolve(nodes_.a, peer).status().code(),
            absl::StatusCode::kNotFound);
  SetAddresses(nodes_.a, {nodes_.a.gid(), second_});
  EXPECT_FALSE(Resolve(nodes_.a, peer)->loopback);
  EXPECT_TRUE(Resolve(nodes_.a, kSecondIp)->loopback);
}

TEST_F(EngineAddressTest, APathFoundBeforeItsAddressWasRemovedIsUnusable) {
  const RocePath path = nodes_.a.qp().path;
  SetAddresses(nodes_.a, {second_});
  Engine::ControlScope scope(nodes_.a.engine());
  RoceQp& qp = nodes_.a.qp();
  nodes_.a.engine().qps().Modify(qp, QpState::kReset, {});
  nodes_.a.engine().qps().Modify(qp, QpState::kInit, {});
  nodes_.a.engine().qps().SetPath(qp, path);
  nodes_.a.engine().qps().Modify(qp, QpState::kRtr, {});
  EXPECT_TRUE(qp.path.source_gone);
  // As when a connection gets a new address vector.
  nodes_.a.engine().qps().SetPath(qp, path);
  EXPECT_TRUE(qp.path.source_gone);
  const uint64_t before = Lost(nodes_.a);
  nodes_.a.network().gsi().Send(
      {.local = path.headers.src(), .remote = path.remote},
      std::vector<uint8_t>(256), nodes_.a.engine().Now());
  EXPECT_EQ(Lost(nodes_.a), before + 1);
}

TEST_F(EngineAddressTest, PathsOfOtherUsersLearnThatTheirSourceIsGone) {
  struct OnePath final : net::PathUsers {
    void ForEachPath(const std::function<void(net::Path&)>& visit) override {
      visit(path);
    }
    net::Path path;
  } user;
  user.path = nodes_.a.qp().path;
  const auto with_token = [&](auto&& f) {
    Engine::ControlScope scope(nodes_.a.engine());
    f(nodes_.a.network());
  };
  with_token([&](Network& network) { network.AddPathUsers(&user); });
  SetAddresses(nodes_.a, {second_});
  EXPECT_TRUE(user.path.source_gone);
  SetAddresses(nodes_.a, {second_, nodes_.a.gid()});
  EXPECT_FALSE(user.path.source_gone);
  EXPECT_EQ(user.path.local, nodes_.a.gid());
  with_token([&](Network& network) { network.RemovePathUsers(&user); });
}

}  // namespace
}  // namespace urnic
