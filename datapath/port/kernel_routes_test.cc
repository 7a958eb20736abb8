// The kernel's routes of an interface, in the test's own network namespace.
// Needs no root.

#include "datapath/port/kernel_routes.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/own_network.h"

namespace urnic {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using ::urnic::testing::Ip;
using ::urnic::testing::WriteFile;

bool g_have_namespace = false;

std::string Text(const wire::Gid& gid) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof(text));
}

std::string Text(const net::Route& r) {
  return Text(r.prefix) + "/" + std::to_string(r.prefix_bits) +
         (r.has_gateway() ? " via " + Text(r.gateway) : "") +
         (r.source == wire::Gid{} ? "" : " src " + Text(r.source)) +
         (r.metric == 0 ? "" : " metric " + std::to_string(r.metric));
}

class KernelRoutesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!g_have_namespace) GTEST_SKIP() << "user namespaces are not allowed";
    // IPv6 addresses are configured at unpredictable times.
    WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    AddPair();
  }
  void TearDown() override {
    if (g_have_namespace) static_cast<void>(Ip("link del va 2>/dev/null"));
  }
  static void AddPair() {
    ASSERT_TRUE(Ip("link add va type veth peer name vb"));
    ASSERT_TRUE(Ip("link set va up") && Ip("link set vb up"));
    ASSERT_TRUE(Ip("addr add 10.1.0.5/24 dev va"));
    ASSERT_TRUE(Ip("addr add 10.9.0.5/24 dev vb"));
  }
  static void EnableIpv6() {
    ASSERT_TRUE(WriteFile("/proc/sys/net/ipv6/conf/va/disable_ipv6", "0"));
  }
  static std::vector<std::string> Routes(KernelRoutes& routes) {
    std::vector<std::string> texts;
    bool cut_off = true;
    const auto read = routes.Read(&cut_off);
    EXPECT_TRUE(read.has_value());
    EXPECT_FALSE(cut_off);
    for (const net::Route& route : *read) {
      if (!route.prefix.is_link_local()) texts.push_back(Text(route));
    }
    return texts;
  }
  static constexpr char kLink[] = "::ffff:10.1.0.0/120 src ::ffff:10.1.0.5";
};

TEST_F(KernelRoutesTest, ReadsTheRoutesOverTheInterface) {
  KernelRoutes routes("va");
  EXPECT_THAT(Routes(routes), UnorderedElementsAre(kLink));
  ASSERT_TRUE(Ip("route add default via 10.1.0.254"));
  ASSERT_TRUE(Ip("route add 10.2.0.0/16 via 10.1.0.253 metric 7"));
  ASSERT_TRUE(Ip("route add 10.3.0.0/16 dev va"));
  EnableIpv6();
  ASSERT_TRUE(Ip("route add 10.4.0.0/16 via inet6 fe80::9 dev va"));
  // Not ours: another interface, another table, unreachable, for one TOS only.
  ASSERT_TRUE(Ip("route add 10.5.0.0/16 via 10.9.0.254"));
  ASSERT_TRUE(Ip("route add 10.6.0.0/16 via 10.1.0.254 table 100"));
  ASSERT_TRUE(Ip("route add unreachable 10.7.0.0/16"));
  ASSERT_TRUE(Ip("route add 10.8.0.0/16 tos 0x10 via 10.1.0.254"));
  EXPECT_THAT(Routes(routes),
              UnorderedElementsAre(
                  kLink, "::ffff:0.0.0.0/96 via ::ffff:10.1.0.254",
                  "::ffff:10.2.0.0/112 via ::ffff:10.1.0.253 metric 7",
                  "::ffff:10.3.0.0/112", "::ffff:10.4.0.0/112 via fe80::9"));
}

TEST_F(KernelRoutesTest, OfSeveralNextHopsTheOneOfTheInterfaceIsUsed) {
  ASSERT_TRUE(
      Ip("route add 10.2.0.0/16 nexthop via 10.9.0.254 nexthop via "
         "10.1.0.254"));
  KernelRoutes routes("va");
  EXPECT_THAT(
      Routes(routes),
      UnorderedElementsAre(kLink, "::ffff:10.2.0.0/112 via ::ffff:10.1.0.254"));
}

TEST_F(KernelRoutesTest, ReadsIpv6) {
  EnableIpv6();
  ASSERT_TRUE(Ip("addr add fd01::5/64 dev va nodad"));
  ASSERT_TRUE(Ip("-6 route add default via fd01::fe"));
  KernelRoutes routes("va");
  EXPECT_THAT(Routes(routes),
              UnorderedElementsAre(kLink, "fd01::/64 metric 256",
                                   "::/0 via fd01::fe metric 1024"));
}

TEST_F(KernelRoutesTest, ReportsOnlyChangesOfItsInterface) {
  KernelRoutes routes("va");
  ASSERT_GE(routes.fd(), 0);
  EXPECT_FALSE(routes.TakeChange());
  Routes(routes);
  ASSERT_TRUE(Ip("route add 10.5.0.0/16 via 10.9.0.254"));
  pollfd ready = {.fd = routes.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
  EXPECT_FALSE(routes.TakeChange());
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  ASSERT_TRUE(Ip("route add 10.2.0.0/16 via 10.1.0.254"));
  EXPECT_TRUE(routes.TakeChange());
  ASSERT_TRUE(Ip("route del 10.2.0.0/16"));
  EXPECT_TRUE(routes.TakeChange());
  ASSERT_TRUE(Ip("link set va down"));
  EXPECT_TRUE(routes.TakeChange());
  EXPECT_THAT(Routes(routes), IsEmpty());
}

TEST_F(KernelRoutesTest, FollowsAnInterfaceThatIsCreatedAgain) {
  KernelRoutes routes("va");
  EXPECT_THAT(Routes(routes), UnorderedElementsAre(kLink));
  ASSERT_TRUE(Ip("link del va"));
  EXPECT_TRUE(routes.TakeChange());
  EXPECT_THAT(Routes(routes), IsEmpty());
  AddPair();
  EXPECT_TRUE(routes.TakeChange());
  EXPECT_THAT(Routes(routes), UnorderedElementsAre(kLink));
}

}  // namespace

void PrepareNamespace() { g_have_namespace = testing::EnterOwnNetwork(); }

}  // namespace urnic

int main(int argc, char** argv) {
  urnic::PrepareNamespace();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
