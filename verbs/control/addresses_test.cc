// Addresses that are added and removed while a device is open: the GID table,
// its holes, and the parts of the device that follow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datapath/nic/nic.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/control_protocol.h"
#include "verbs/control/device.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/pd.h"

namespace urnic::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<urnic_device_identity> Identity(const std::string& ports) {
  std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
  char error[256];
  EXPECT_EQ(urnic_device_identity_parse(ports.c_str(), 1, identities.data(),
                                        error, sizeof(error)),
            1)
      << error;
  return std::make_unique<urnic_device_identity>(identities[0]);
}

urnic_ip_address Address(const std::string& text) {
  urnic_ip_address address = {};
  char error[128];
  EXPECT_EQ(
      urnic_ip_address_parse(text.c_str(), &address, error, sizeof(error)), 0)
      << error;
  return address;
}

std::vector<std::string> Texts(const GidTable& table) {
  std::vector<std::string> texts;
  for (const GidPair& pair : table.Pairs()) {
    if (pair.index == 0) continue;  // link-local
    texts.push_back(
        absl::StrCat(pair.index, " ", AddressText(pair.gid, pair.prefix_bits)));
  }
  return texts;
}

TEST(GidTableTest, StartsWithTheConfiguredAddresses) {
  const GidTable table(*Identity("loop|10.1.0.1/24|fd01::1/64"));
  EXPECT_THAT(Texts(table), ElementsAre("2 10.1.0.1/24", "4 fd01::1/64"));
  EXPECT_EQ(table.Pairs()[0].prefix_bits, 64);
  EXPECT_TRUE(table.At(2)->roce_v1);
  EXPECT_FALSE(table.At(3)->roce_v1);
  EXPECT_EQ(table.At(3)->gid, wire::Gid::FromIpv4(0x0a010001u));
  EXPECT_FALSE(table.At(6).has_value());
  EXPECT_FALSE(table.At(URNIC_GID_TABLE_LEN).has_value());
}

TEST(GidTableTest, ARemovedAddressLeavesAHoleAndTheNextOneFillsIt) {
  GidTable table(*Identity("loop|10.1.0.1/24|10.1.0.2/24|10.1.0.3/24"));
  EXPECT_TRUE(table.Remove(Address("10.1.0.2/24")).ok());
  EXPECT_THAT(Texts(table), ElementsAre("2 10.1.0.1/24", "6 10.1.0.3/24"));
  EXPECT_FALSE(table.At(4).has_value());
  EXPECT_FALSE(table.At(5).has_value());
  const auto shown = table.Snapshot();
  EXPECT_EQ(shown->gids[5].type, URNIC_GID_NONE);
  const uint8_t kZero[16] = {};
  EXPECT_EQ(std::memcmp(shown->gids[5].gid, kZero, sizeof(kZero)), 0);
  EXPECT_TRUE(table.Add(Address("fd01::9/48")).ok());
  EXPECT_TRUE(table.Add(Address("10.1.0.2/24")).ok());
  EXPECT_THAT(Texts(table), ElementsAre("2 10.1.0.1/24", "4 fd01::9/48",
                                        "6 10.1.0.3/24", "8 10.1.0.2/24"));
}

TEST(GidTableTest, RefusesDuplicatesUnknownAddressesAndTooMany) {
  GidTable table(*Identity("loop|10.1.0.1/24"));
  absl::Status s = table.Add(Address("10.1.0.1/16"));
  EXPECT_EQ(s.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("10.1.0.1/24 already, at GID index 2"));
  s = table.Remove(Address("10.1.0.1/16"));
  EXPECT_EQ(s.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(s.message()), HasSubstr("but 10.1.0.1/24"));
  EXPECT_EQ(table.Remove(Address("10.1.0.2/24")).code(),
            absl::StatusCode::kNotFound);
  const GidPair local = table.Pairs()[0];
  EXPECT_EQ(
      table.Remove(Address(AddressText(local.gid, local.prefix_bits))).code(),
      absl::StatusCode::kInvalidArgument);
  for (int i = 2; i <= URNIC_MAX_ADDRS; ++i) {
    EXPECT_TRUE(table.Add(Address(absl::StrCat("10.1.0.", i, "/24"))).ok());
  }
  EXPECT_EQ(table.Add(Address("10.1.0.99/24")).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(GidTableTest, OutlivesTheDeviceButNotItsConfiguration) {
  const auto identity = Identity("loop|10.1.0.1/24");
  EXPECT_TRUE(GidTable::Of(*identity)->Add(Address("10.1.0.2/24")).ok());
  EXPECT_EQ(GidTable::Of(*identity)->Pairs().size(), 3u);
  EXPECT_EQ(GidTable::Of(*Identity("loop|10.1.0.3/24"))->Pairs().size(), 2u);
  EXPECT_EQ(GidTable::Of(*identity)->Pairs().size(), 2u);
}

// ------------------------------------------------------------------ a device

struct Listener final : EventSink {
  void OnCompletion(Cq&) override {}
  void OnCqError(Cq&) override {}
  void OnQpEvent(void*, QpEvent) override {}
  void OnSrqLimit(Srq&) override {}
  void OnSrqError(Srq&) override {}
  void OnPortState(bool) override {}
  void OnDeviceFatal() override {}
  void OnGidChange() override { ++changes; }
  int changes = 0;
};

// Stand-ins for the preload: the GIDs that it shows, and its run directory.
std::vector<wire::Gid> g_shown;
int g_show_error = 0;
std::string g_run_dir;

int Show(const urnic_device_identity* device) {
  g_shown.clear();
  for (const urnic_gid_entry& entry : device->gids) {
    if (entry.type == URNIC_GID_ROCE_V2) {
      g_shown.push_back(wire::Gid::FromIpv6(entry.gid));
    }
  }
  return g_show_error;
}
const char* RunDir() { return g_run_dir.c_str(); }

class AddressesTest : public testing::Test {
 protected:
  AddressesTest() {
    // Not in the test's own directory: a socket address holds 107 characters.
    char path[] = "/dev/shm/urnic-addresses-XXXXXX";
    EXPECT_NE(mkdtemp(path), nullptr);
    g_run_dir = path;
    g_show_error = 0;
    ProgramHooks hooks;
    hooks.set_gids = Show;
    hooks.run_dir = RunDir;
    // A configuration of its own for each test: tables outlive devices.
    static int number = 0;
    auto device = Device::Open(
        *Identity(absl::StrCat("loop|10.9.", ++number, ".1/24|10.9.0.1/24")),
        hooks);
    EXPECT_TRUE(device.ok()) << device.status().message();
    device_ = *std::move(device);
    device_->Listen(&listener_);
    pd_ = *Pd::Create(*device_);
  }
  ~AddressesTest() override {
    pd_.reset();
    device_->Unlisten(&listener_);
    device_.reset();
    EXPECT_EQ(rmdir(g_run_dir.c_str()), 0) << "the socket is gone";
  }
  std::string Ask(const std::string& request) {
    std::string answer;
    AnswerControl(device_->open_nic(), request, [&](std::string_view part) {
      answer += part;
      return true;
    });
    return answer;
  }
  absl::StatusCode HandleCode(uint32_t index, uint32_t to) {
    AddressVector vector;
    vector.is_global = 1;
    vector.port_num = 1;
    vector.sgid_index = static_cast<uint8_t>(index);
    vector.dgid = wire::Gid::FromIpv4(to);
    return AddressHandle::Create(*pd_, vector).status().code();
  }
  std::string SocketPath() const { return g_run_dir + "/urnic0.sock"; }

  Listener listener_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
};

TEST_F(AddressesTest, AnAddressIsUsableUntilItIsRemoved) {
  constexpr uint32_t kNew = 0x0a090007;
  EXPECT_EQ(HandleCode(7, kNew), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask("addr add 10.9.0.7/24"), "ok\n6 10.9.0.7/24\n");
  EXPECT_EQ(listener_.changes, 1);
  EXPECT_EQ(g_shown.back(), wire::Gid::FromIpv4(kNew));
  // Loopback, from the new address and from an old one.
  EXPECT_EQ(HandleCode(7, kNew), absl::StatusCode::kOk);
  EXPECT_EQ(HandleCode(5, kNew), absl::StatusCode::kOk);
  EXPECT_EQ(Ask("addr del 10.9.0.7/24"), "ok\n6 10.9.0.7/24\n");
  EXPECT_EQ(listener_.changes, 2);
  EXPECT_EQ(g_shown.size(), 3u);
  EXPECT_EQ(HandleCode(7, kNew), absl::StatusCode::kInvalidArgument);
}

TEST_F(AddressesTest, RoutesAreAddedAndRemoved) {
  EXPECT_EQ(Ask("route"), "ok\n");
  EXPECT_EQ(HandleCode(3, 0x0a630001), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Ask("route add default via 10.9.0.253"), "ok\n");
  EXPECT_EQ(Ask("route add 10.98.0.0/16 via 10.9.0.254 metric 7"), "ok\n");
  EXPECT_EQ(Ask("route"),
            "ok\n10.98.0.0/16 via 10.9.0.254 metric 7 proto static\n"
            "default via 10.9.0.253 proto static\n");
  // There is a route now, but its router does not answer.
  const auto path =
      device_->nic().ResolvePath({.local = device_->gids().At(3)->gid,
                                  .remote = wire::Gid::FromIpv4(0x0a630001)},
                                 Duration());
  EXPECT_EQ(path.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Ask("route del default via 10.9.0.253"), "ok\n");
  EXPECT_EQ(Ask("route"),
            "ok\n10.98.0.0/16 via 10.9.0.254 metric 7 proto static\n");
  EXPECT_EQ(Ask("addr del 10.9.0.1/24").substr(0, 3), "ok\n");
  EXPECT_EQ(listener_.changes, 1) << "of the addresses";
}

TEST_F(AddressesTest, TheCountersOfThePortAreListedWithThePort) {
  EXPECT_THAT(Ask("counters"),
              ::testing::AllOf(::testing::StartsWith("ok\nport loop\nnetns "),
                               HasSubstr("\nport_xmit_data 0\n"),
                               HasSubstr("\nport_rcv_errors 0\n")));
}

TEST_F(AddressesTest, ARouterMustBeOnALinkOfOurs) {
  EXPECT_THAT(
      Ask("route add 10.2.0.0/16 via 10.8.0.1"),
      ::testing::AllOf(
          ::testing::StartsWith(
              "error\nURN3009: via 10.8.0.1 is in none of the networks"),
          HasSubstr(" 10.9.0.1/24")));
  EXPECT_THAT(Ask("route add default via fd77::1"),
              HasSubstr("is in none of the networks"));
  EXPECT_EQ(Ask("route"), "ok\n");
  // An IPv6 link-local address is always on a link. A route without a router
  // can put other addresses on a link.
  EXPECT_EQ(Ask("route add default via fe80::1"), "ok\n");
  EXPECT_EQ(Ask("route add 10.8.0.1"), "ok\n");
  EXPECT_EQ(Ask("route add 10.2.0.0/16 via 10.8.0.1"), "ok\n");
}

TEST_F(AddressesTest, ARefusedRequestChangesNothing) {
  const std::string before = Ask("addr");
  for (const char* request :
       {"", "addr ", "addr add", "addr add ", "addr add 10.9.0.7",
        "addr add 10.9.0.7/33", "addr add 10.9.0.1/24", "addr add ff02::1/64",
        "addr del 10.9.0.7/24", "addr del x", "addr  add 10.9.0.7/24",
        "addr add 10.9.0.7/24 ", "show", "route ", "route add",
        "route add 10.2.0.1/16 via 10.9.0.254", "route add default",
        "route del 10.2.0.0/16 via 10.9.0.254"}) {
    EXPECT_THAT(Ask(request), ::testing::StartsWith("error\n")) << request;
  }
  EXPECT_EQ(Ask("addr"), before);
  EXPECT_EQ(listener_.changes, 0);
}

TEST_F(AddressesTest, ADeviceWithoutQueuePairsHasNoState) {
  EXPECT_EQ(Ask("state"), "ok\n");
}

TEST_F(AddressesTest, ReportsThatSysfsCouldNotBeWritten) {
  g_show_error = -ENOSPC;
  EXPECT_THAT(Ask("addr add 10.9.0.7/24"), HasSubstr("No space left"));
  EXPECT_EQ(listener_.changes, 1) << "the device has it nevertheless";
}

TEST_F(AddressesTest, TheSocketAnswersAndIsOnlyForItsOwner) {
  struct stat st = {};
  ASSERT_EQ(stat(SocketPath().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  for (const std::string request : {"addr add 10.9.0.7/24", "addr"}) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, SocketPath().c_str());
    ASSERT_EQ(
        connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(fd, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    char answer[512];
    const ssize_t bytes = recv(fd, answer, sizeof(answer), 0);
    ASSERT_GT(bytes, 0);
    EXPECT_THAT(std::string(answer, static_cast<size_t>(bytes)),
                HasSubstr("6 10.9.0.7/24\n"));
    EXPECT_EQ(recv(fd, answer, sizeof(answer), 0), 0) << "it hangs up";
    close(fd);
  }
}

}  // namespace
}  // namespace urnic::control
