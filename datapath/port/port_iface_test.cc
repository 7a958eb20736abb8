// Ports on kernel interfaces, in the test's own network namespace: a veth pair
// with one of our ports at each end. Needs no root.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "datapath/port/port_factory.h"
#include "datapath/port/port_test_util.h"
#include "tests/support/own_network.h"

namespace urnic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ::urnic::testing::Ip;
using ::urnic::testing::WriteFile;

bool g_have_namespace = false;

std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "re");
  char line[256];
  while (fgets(line, sizeof(line), pipe) != nullptr) text += line;
  pclose(pipe);
  return text;
}

std::unique_ptr<Port> Create(const std::string& dev, uint16_t mtu = 0,
                             PortWarning warn = nullptr) {
  PortConfig config;
  config.warn = std::move(warn);
  config.dev = dev;
  config.mtu = mtu;
  auto port = CreatePort(config);
  EXPECT_TRUE(port.ok()) << dev << ": " << port.status();
  return port.ok() ? std::move(*port) : nullptr;
}

// Waits until `count` frames have arrived; returns all that have.
std::vector<uint64_t> Receive(Port& port, size_t count) {
  std::vector<uint64_t> all;
  Eventually([&] {
    for (uint64_t number : ReceiveNumbers(port)) all.push_back(number);
    return all.size() >= count;
  });
  return all;
}

class IfaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!g_have_namespace) GTEST_SKIP() << "user namespaces are not allowed";
    AddPair(1500);
  }
  void TearDown() override {
    // The test may have deleted it.
    if (g_have_namespace) static_cast<void>(Ip("link del va 2>/dev/null"));
  }
  static void AddPair(int mtu) {
    const std::string m = std::to_string(mtu);
    ASSERT_TRUE(
        Ip("link add va mtu " + m + " type veth peer name vb mtu " + m));
    ASSERT_TRUE(Ip("link set va up") && Ip("link set vb up"));
  }
};

// DPDK's driver derives the number of its fanout group from the process id and
// the interface's index. The number is shared by the whole namespace.
TEST_F(IfaceTest, TwoPortsWhoseDriversChooseTheSameGroupBothStart) {
  const auto a = Create("iface:fa");
  const Process echo({"datapath/port/port_echo", "iface:fb"});
  // The interfaces are created once both pids are known; ports wait for them.
  const int index = 0x10000 + (getpid() & 0xffff);
  const int other = index ^ getpid() ^ echo.pid();
  ASSERT_EQ((index ^ getpid()) & 0xffff, (other ^ echo.pid()) & 0xffff);
  const std::string number = std::to_string(index);
  ASSERT_TRUE(Ip("link add fa index " + number + " type veth peer name fb" +
                 " index " + std::to_string(other)));
  ASSERT_TRUE(Ip("link set fa up") && Ip("link set fb up"));
  EXPECT_TRUE(RoundTrip(*a)) << a->info().text;
  EXPECT_TRUE(Ip("link del fa"));
}

// An RNIC reassembles fragments itself, or counts and drops them. If the kernel
// did it first, the packets would be longer than the MTU.
TEST_F(IfaceTest, FragmentsArriveAsTheyWereSent) {
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << a->info().text;
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << b->info().text;
  for (const uint16_t where : {0x2000, 0x0003}) {  // 24 bytes, the rest
    rte_mbuf* m = TestFrame(*a, 0, 14 + 20 + 24);
    ASSERT_NE(m, nullptr);
    auto* ip = rte_pktmbuf_mtod_offset(m, uint8_t*, 14);
    ip[-2] = 0x08;
    ip[-1] = 0x00;
    const uint8_t header[20] = {0x45, 0, 0,  44, 0, 7, 0,  0, 64, 17,
                                0,    0, 10, 9,  0, 1, 10, 9, 0,  2};
    std::memcpy(ip, header, sizeof(header));
    ip[6] = static_cast<uint8_t>(where >> 8);
    ip[7] = static_cast<uint8_t>(where);
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) {
      sum += static_cast<uint32_t>(ip[i] << 8 | ip[i + 1]);
    }
    sum = ~((sum & 0xffff) + (sum >> 16));
    ip[10] = static_cast<uint8_t>(sum >> 8);
    ip[11] = static_cast<uint8_t>(sum);
    TakeLcore(a->lcore());
    ASSERT_EQ(a->Transmit(&m, 1), 1);
    ReleaseLcore();
  }
  std::vector<int> offsets;
  EXPECT_TRUE(Eventually([&] {
    rte_mbuf* frames[kBurstMax];
    TakeLcore(b->lcore());
    const uint16_t n = b->Receive(frames, kBurstMax);
    for (uint16_t i = 0; i < n; ++i) {
      const auto* data = rte_pktmbuf_mtod(frames[i], const uint8_t*);
      if (frames[i]->data_len == 58 && data[12] == 0x08 && data[19] == 7) {
        offsets.push_back(data[20] << 8 | data[21]);
      }
    }
    rte_pktmbuf_free_bulk(frames, n);
    ReleaseLcore();
    return offsets.size() >= 2;
  }));
  EXPECT_THAT(offsets, ElementsAre(0x2000, 0x0003));
}

// ReceiveNumbers() ignores what the kernel itself sends when an interface is
// created.
TEST_F(IfaceTest, FramesCrossAVethPair) {
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << a->info().text;
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << b->info().text;
  EXPECT_NE(a->mac(), b->mac());
  EXPECT_TRUE(Send(*a, 7, 1514));
  EXPECT_TRUE(Send(*a, 8));
  EXPECT_THAT(Receive(*b, 2), ElementsAre(7, 8));
  EXPECT_THAT(ReceiveNumbers(*a), ElementsAre()) << "no echo of our own";
  EXPECT_GE(a->counters().tx_packets, 2u);
  EXPECT_GE(b->counters().rx_bytes, 1514u + 64);
  EXPECT_GE(b->info().rx_ring, 64);
}

TEST_F(IfaceTest, JumboFramesCrossUnchanged) {
  ASSERT_TRUE(Ip("link set va mtu 9000") && Ip("link set vb mtu 9000"));
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  EXPECT_EQ(a->mtu(), 9000);
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << a->info().text;
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << b->info().text;
  EXPECT_TRUE(Send(*a, 1, 9014));
  EXPECT_THAT(Receive(*b, 1), ElementsAre(1));
}

TEST_F(IfaceTest, AFrameLongerThanThePortsMtuIsCountedAsTruncated) {
  ASSERT_TRUE(Ip("link set va mtu 9000") && Ip("link set vb mtu 9000"));
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb", 1500);
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  EXPECT_TRUE(Send(*a, 1, 1519));  // fits the slot, not the MTU
  EXPECT_TRUE(Send(*a, 2, 8000));  // the kernel truncates it
  EXPECT_TRUE(Send(*a, 3, 1514));
  EXPECT_THAT(Receive(*b, 1), ElementsAre(3));
  EXPECT_EQ(b->counters().rx_truncated, 2u);
}

// Others' frames may be long; the kernel merges those for itself.
TEST_F(IfaceTest, TheUserIsToldOnceThatFramesForThePortAreTooLong) {
  ASSERT_TRUE(Ip("link set va mtu 9000") && Ip("link set vb mtu 9000"));
  std::vector<std::string> warnings;
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb", 1500, [&](const std::string& line) {
    warnings.push_back(line);
  });
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  EXPECT_TRUE(Send(*a, 1, 2000));
  EXPECT_TRUE(Send(*a, 2));
  EXPECT_THAT(Receive(*b, 1), ElementsAre(2));
  EXPECT_TRUE(warnings.empty());
  for (int i = 0; i < 2; ++i) {
    rte_mbuf* m = TestFrame(*a, 3, 2000);
    ASSERT_NE(m, nullptr);
    std::memcpy(rte_pktmbuf_mtod(m, uint8_t*), b->mac().bytes.data(), 6);
    TakeLcore(a->lcore());
    EXPECT_EQ(a->Transmit(&m, 1), 1);
    ReleaseLcore();
  }
  EXPECT_TRUE(Send(*a, 4));
  EXPECT_THAT(Receive(*b, 1), ElementsAre(4));
  EXPECT_EQ(b->counters().rx_truncated, 3u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("ethtool -K vb gro off lro off"));
}

TEST_F(IfaceTest, APortMayBeCreatedBeforeItsInterface) {
  ASSERT_TRUE(Ip("link del va"));
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  ASSERT_TRUE(Eventually([&] { return !a->info().text.empty(); }));
  EXPECT_THAT(a->info().text, HasSubstr("interface va does not exist"));
  EXPECT_EQ(a->info().state, PortState::kStarting);
  EXPECT_TRUE(Send(*a, 1)) << "drops, does not wait";
  AddPair(1500);
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << a->info().text;
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << b->info().text;
  EXPECT_TRUE(Send(*a, 2));
  EXPECT_THAT(Receive(*b, 1), ElementsAre(2));
}

TEST_F(IfaceTest, AnInterfaceMayDisappearUnderLoadAndReturn) {
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << a->info().text;
    ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << b->info().text;
    EXPECT_EQ(a->counters().incarnations, 1u + static_cast<uint64_t>(round));
    const pid_t killer = fork();
    if (killer == 0) {
      execlp("ip", "ip", "link", "del", "va", nullptr);
      _exit(1);
    }
    ASSERT_TRUE(Eventually([&] {
      for (int i = 0; i < 50; ++i) Send(*a, 1);
      ReceiveNumbers(*b);
      return a->info().state != PortState::kUp &&
             b->info().state != PortState::kUp;
    }));
    waitpid(killer, nullptr, 0);
    const uint64_t dropped = a->counters().tx_dropped_down;
    EXPECT_TRUE(Send(*a, 1));
    EXPECT_EQ(a->counters().tx_dropped_down, dropped + 1);
    AddPair(1500);
  }
}

TEST_F(IfaceTest, ALinkFlapNeedsNoNewDevice) {
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  for (const char* end : {"va", "vb"}) {
    ASSERT_TRUE(Ip(std::string("link set ") + end + " down"));
    ASSERT_TRUE(StateBecomes(*a, PortState::kLinkDown)) << end;
    EXPECT_TRUE(Send(*a, 1));
    ASSERT_TRUE(Ip(std::string("link set ") + end + " up"));
    ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << end;
    ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << end;
    ReceiveNumbers(*b);
    EXPECT_TRUE(Send(*a, 5));
    EXPECT_THAT(Receive(*b, 1), ElementsAre(5));
  }
  EXPECT_EQ(a->counters().incarnations, 1u);
}

TEST_F(IfaceTest, AnArmedPortIsReadableWhileFramesWait) {
  // The kernel's own frames must not interfere.
  WriteFile("/proc/sys/net/ipv6/conf/va/disable_ipv6", "1");
  WriteFile("/proc/sys/net/ipv6/conf/vb/disable_ipv6", "1");
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  pollfd p = {.fd = b->wait_fd(), .events = POLLIN, .revents = 0};
  ReceiveNumbers(*b);
  ASSERT_TRUE(b->ArmWakeup());
  ReceiveNumbers(*b);
  ASSERT_TRUE(Send(*a, 1));
  EXPECT_EQ(poll(&p, 1, 1000), 1);
  b->DisarmWakeup();
  EXPECT_EQ(poll(&p, 1, 0), 0) << "disarmed";
  ASSERT_TRUE(b->ArmWakeup());
  EXPECT_EQ(poll(&p, 1, 1000), 1) << "the frame still waits";
  EXPECT_THAT(Receive(*b, 1), ElementsAre(1));
  EXPECT_EQ(poll(&p, 1, 0), 0) << "no frame waits";
  b->DisarmWakeup();
}

TEST_F(IfaceTest, TheInterfaceIsPromiscuousOnlyWhileThePortIsOpen) {
  auto a = Create("iface:va");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  EXPECT_THAT(Output("ip -d link show va"), HasSubstr("promiscuity 1"));
  a = nullptr;
  EXPECT_THAT(Output("ip -d link show va"), HasSubstr("promiscuity 0"));
}

TEST_F(IfaceTest, LostFramesAreCounted) {
  const auto a = Create("iface:va");
  const auto b = Create("iface:vb");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  const uint64_t slots = b->info().rx_ring;
  for (uint64_t i = 0; i < slots + 500; ++i) Send(*a, i);
  ReceiveNumbers(*b);
  EXPECT_GE(b->counters().rx_missed, 400u);
}

TEST_F(IfaceTest, TheInterfacesAddressIsUsedOnRequest) {
  PortConfig config{.dev = "iface:va", .mac_of_interface = true};
  const auto port = CreatePort(config);
  ASSERT_TRUE(port.ok()) << port.status();
  char text[18];
  const auto& m = (*port)->mac().bytes;
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1],
                m[2], m[3], m[4], m[5]);
  EXPECT_THAT(Output("ip link show va"), HasSubstr(text));
}

TEST_F(IfaceTest, TheMtuOfTheInterfaceIsFollowed) {
  const auto a = Create("iface:va");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << a->info().text;
  EXPECT_EQ(a->info().interface_mtu, 1500u);
  for (const uint32_t mtu : {1000u, 9000u}) {
    ASSERT_TRUE(Ip("link set va mtu " + std::to_string(mtu)));
    EXPECT_TRUE(Eventually([&] { return a->info().interface_mtu == mtu; }));
    EXPECT_EQ(a->link_mtu(), std::min(mtu, 4200u));
    EXPECT_EQ(a->mtu(), 4200) << "room for every RDMA packet, at any time";
  }
}

// A veth drops what is longer than its other end's MTU, and the kernel leaves
// the frame in the ring.
TEST_F(IfaceTest, AFrameThatTheInterfaceRefusesDoesNotHoldUpOthers) {
  ASSERT_TRUE(Ip("link set va mtu 9000") && Ip("link set vb mtu 9000"));
  std::mutex mutex;
  std::vector<std::string> warnings;
  const auto a = Create("iface:va", 9000, [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    warnings.push_back(line);
  });
  const auto b = Create("iface:vb");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  ASSERT_TRUE(Ip("link set vb mtu 1500"));
  // A frame that was refused is tried again when another is sent; and the ring
  // of the receiver may be full.
  const auto arrives = [&](uint64_t number, uint16_t bytes) {
    return Eventually([&] {
      const std::vector<uint64_t> numbers = ReceiveNumbers(*b);
      Send(*a, number, bytes);
      return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
    });
  };
  EXPECT_TRUE(Send(*a, 2, 9014));
  EXPECT_TRUE(arrives(3, 1514));
  EXPECT_EQ(a->counters().tx_errors, 1u);
  // A ring full of them.
  for (int i = 0; i < 2 * a->info().tx_ring; ++i) Send(*a, 4, 5000);
  EXPECT_TRUE(arrives(5, 1514));
  EXPECT_GE(a->counters().tx_errors, 1u + a->info().tx_ring);
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return warnings.size() == 1;
  }));
  EXPECT_THAT(warnings[0],
              HasSubstr("interface va refuses frames of 9014 bytes"));
  // All go on when the other end takes them.
  ASSERT_TRUE(Ip("link set vb mtu 9000"));
  EXPECT_TRUE(arrives(6, 4200));
  EXPECT_EQ(a->counters().incarnations, 1u);
}

TEST_F(IfaceTest, AnMtuAboveTheInterfacesIsRefused) {
  PortConfig config{.dev = "iface:va", .mtu = 9000};
  const auto port = CreatePort(config);
  EXPECT_THAT(std::string(port.status().message()),
              HasSubstr("ip link set va mtu 9000"));
}

}  // namespace

void PrepareNamespace() { g_have_namespace = testing::EnterOwnNetwork(); }

}  // namespace urnic

int main(int argc, char** argv) {
  urnic::PrepareNamespace();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
