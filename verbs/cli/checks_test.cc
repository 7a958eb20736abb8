#include "verbs/cli/checks.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

namespace urnic {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<Check> CheckSocketOf(const std::string& dev) {
  static urnic_device_identity device;
  device = {};
  dev.copy(device.dev, sizeof(device.dev) - 1);
  std::string("urnic0").copy(device.name, sizeof(device.name) - 1);
  return CheckSocket(device);
}

TEST(SocketCheckTest, AMissingDirectoryFails) {
  for (const char* dev :
       {"net_vhost0,iface=/no/such/x.sock",
        "net_vhost0,client=1,iface=/no/such/x.sock",
        "net_virtio_user0,server=1,path=/no/such/x.sock,queue_size=1024",
        "net_memif0,socket=/no/such/x.sock"}) {
    const std::vector<Check> checks = CheckSocketOf(dev);
    ASSERT_THAT(checks, SizeIs(1)) << dev;
    EXPECT_EQ(checks[0].finding, Finding::kFail) << dev;
    EXPECT_EQ(checks[0].what, "urnic0 socket");
    EXPECT_THAT(checks[0].found, HasSubstr("/no/such: No such file"));
    EXPECT_EQ(checks[0].remedy, "mkdir -p /no/such");
  }
}

TEST(SocketCheckTest, AnExistingDirectoryIsEnough) {
  const std::string folder = testing::TempDir();
  const auto checks = CheckSocketOf("net_vhost0,iface=" + folder + "x.sock");
  ASSERT_THAT(checks, SizeIs(1));
  EXPECT_EQ(checks[0].finding, Finding::kOk) << checks[0].found;
}

// Not even root can create files in /proc.
TEST(SocketCheckTest, OnlyTheListeningEndNeedsToWrite) {
  const auto listens = CheckSocketOf("net_vhost0,iface=/proc/x.sock");
  ASSERT_THAT(listens, SizeIs(1));
  const auto connects = CheckSocketOf("net_vhost0,client=1,iface=/proc/x.sock");
  ASSERT_THAT(connects, SizeIs(1));
  EXPECT_EQ(connects[0].finding, Finding::kOk) << connects[0].found;
  if (geteuid() == 0) GTEST_SKIP() << "access() lets root write anywhere";
  EXPECT_EQ(listens[0].finding, Finding::kFail);
  EXPECT_THAT(listens[0].remedy, HasSubstr("write to"));
}

TEST(SocketCheckTest, OtherPortsHaveNoSocketFile) {
  for (const char* dev :
       {"loop", "iface:lo", "net_null0",
        "net_memif0,socket-abstract=yes,socket=/no/such/x.sock"})
    EXPECT_THAT(CheckSocketOf(dev), IsEmpty()) << dev;
}

TEST(SocketCheckTest, TheDefaultMemifSocketBelongsToThisUser) {
  const auto checks = CheckSocketOf("net_memif0,role=server");
  ASSERT_THAT(checks, SizeIs(1));
  EXPECT_EQ(checks[0].finding, Finding::kOk) << checks[0].found;
  EXPECT_THAT(checks[0].found, HasSubstr(std::to_string(geteuid()) +
                                         "/memif.sock, for programs of this"));
}

// The first IPv4 address that is not one of loopback; empty: none.
std::string AddressOfThisHost() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET ||
        (at->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET_ADDRSTRLEN];
    return inet_ntop(
        AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr,
        text, sizeof(text));
  }
  return "";
}

TEST(AddressCheckTest, WarnsOfAnAddressThatTheKernelHas) {
  const auto check = [](const char* ports) {
    static urnic_device_identity devices[URNIC_MAX_DEVICES];
    char error[256];
    EXPECT_EQ(
        urnic_device_identity_parse(ports, 1, devices, error, sizeof(error)), 1)
        << error;
    return CheckAddresses(devices[0]);
  };
  const std::string address = AddressOfThisHost();
  if (address.empty()) GTEST_SKIP() << "this machine has only loopback";
  const auto both = check(("iface:lo|" + address + "/24|10.9.0.1/24").c_str());
  ASSERT_THAT(both, SizeIs(1));
  EXPECT_EQ(both[0].finding, Finding::kWarn);
  EXPECT_THAT(both[0].found, HasSubstr("the kernel has " + address + " on "));
  EXPECT_THAT(check(("loop|" + address + "/24").c_str()), IsEmpty())
      << "no wire is shared";
}

TEST(RouterCheckTest, WarnsOfARouterOnNoLink) {
  const auto check = [](const char* ports) {
    static urnic_device_identity devices[URNIC_MAX_DEVICES];
    char error[256];
    EXPECT_EQ(
        urnic_device_identity_parse(ports, 1, devices, error, sizeof(error)), 1)
        << error;
    return CheckRouters(devices[0]);
  };
  const auto stray =
      check("loop|10.9.0.1/24|fd01::1/64|route=10.2.0.0/16 via 10.8.0.1");
  ASSERT_THAT(stray, SizeIs(1));
  EXPECT_EQ(stray[0].finding, Finding::kWarn);
  EXPECT_EQ(stray[0].what, "urnic0 route");
  EXPECT_THAT(stray[0].found,
              HasSubstr("via 10.8.0.1 is in none of the networks"));
  for (const char* good :
       {"loop|10.9.0.1/24|route=10.2.0.0/16 via 10.9.0.254",
        "loop|10.9.0.1/24|route=default via fe80::1",
        "loop|fd01::1/64|route=default via fd01::9",
        "loop|10.9.0.1/32|route=10.8.0.1|route=default via 10.8.0.1",
        "loop|10.9.0.1/24|route=10.2.0.0/16"}) {
    EXPECT_THAT(check(good), IsEmpty()) << good;
  }
}

TEST(TransportCheckTest, SaysWhichDeviceRdmaCmTakes) {
  const auto check = [](const char* ports) {
    static urnic_device_identity devices[URNIC_MAX_DEVICES];
    char error[256];
    EXPECT_GT(
        urnic_device_identity_parse(ports, 1, devices, error, sizeof(error)), 0)
        << error;
    return CheckTransports(devices[0]);
  };
  EXPECT_THAT(check("loop|10.9.0.1/24"), IsEmpty());
  const auto marked = check("loop|10.9.0.1/24|10.9.0.2/24,iwarp");
  ASSERT_THAT(marked, SizeIs(1));
  EXPECT_EQ(marked[0].finding, Finding::kOk);
  EXPECT_EQ(marked[0].what, "urnic0 rdma_cm");
  EXPECT_EQ(marked[0].found,
            "takes iwurnic0 for addresses marked iwarp (10.9.0.2) and urnic0 "
            "for all others; listeners at 0.0.0.0 or :: serve both");
  EXPECT_EQ(marked[0].remedy, "");
  const auto unmarked = check("loop|10.9.0.1/24|transport=both");
  ASSERT_THAT(unmarked, SizeIs(1));
  EXPECT_EQ(unmarked[0].found,
            "takes urnic0 for all addresses: none is marked iwarp; listeners "
            "at 0.0.0.0 or :: serve both");
  EXPECT_THAT(unmarked[0].remedy, HasSubstr("--addr IP/LEN,iwarp"));
  EXPECT_THAT(check("loop|10.9.0.1/24|transport=iwarp")[0].found,
              HasSubstr("takes iwurnic0 for all addresses"));
}

TEST(AddressSpaceCheckTest, WarnsBelow64Gigabytes) {
  constexpr uint64_t kGigabyte = uint64_t{1} << 30;
  EXPECT_EQ(CheckAddressSpace(RLIM_INFINITY).finding, Finding::kOk);
  EXPECT_EQ(CheckAddressSpace(64 * kGigabyte).finding, Finding::kOk);
  const Check check = CheckAddressSpace(32 * kGigabyte);
  EXPECT_EQ(check.finding, Finding::kWarn);
  EXPECT_THAT(check.found, HasSubstr("32 GB"));
}

// What else is left over on this machine is counted, too.
TEST(LeftOversCheckTest, PointsToTheCommandThatRemovesThem) {
  setenv("TMPDIR", testing::TempDir().c_str(), 1);
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const std::string left =
      testing::TempDir() + "urnic-demo-" + std::to_string(dead) + "-x";
  std::filesystem::create_directory(left);
  const Check check = CheckLeftOvers();
  std::filesystem::remove(left);
  EXPECT_EQ(check.finding, Finding::kWarn);
  EXPECT_THAT(check.found, HasSubstr("of programs that died: "));
  EXPECT_THAT(check.remedy, HasSubstr("urnic clean"));
}

}  // namespace
}  // namespace urnic
