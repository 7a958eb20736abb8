// Ports inside one process: loop, rings, and what all ports have in common.

#include "datapath/port/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "datapath/memory/packet_pool.h"
#include "datapath/port/dpdk_port.h"
#include "datapath/port/port_factory.h"
#include "datapath/port/port_test_util.h"

namespace urnic {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<Port> Create(const std::string& dev) {
  PortConfig config;
  config.dev = dev;
  auto port = CreatePort(config);
  EXPECT_TRUE(port.ok()) << dev << ": " << port.status();
  return port.ok() ? std::move(*port) : nullptr;
}

bool Readable(int fd) {
  pollfd p = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, 0) == 1;
}

TEST(PortTest, LoopHasBuffersAndDropsWhatItIsGiven) {
  const auto port = Create("loop");
  EXPECT_EQ(port->info().state, PortState::kUp);
  EXPECT_EQ(port->wait_fd(), -1);
  EXPECT_TRUE(Send(*port, 1));
  EXPECT_THAT(ReceiveNumbers(*port), IsEmpty());
  EXPECT_EQ(port->counters().tx_dropped_down, 1u);
}

TEST(PortTest, TwoLoopPortsDiffer) {
  const auto a = Create("loop");
  const auto b = Create("loop");
  EXPECT_NE(a->ordinal(), b->ordinal());
  EXPECT_NE(a->lcore(), b->lcore());
  EXPECT_NE(a->pool(), b->pool());
}

TEST(PortTest, ARingPairCarriesFramesInOrder) {
  const auto a = Create("ring:order:a");
  const auto b = Create("ring:order:b");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  std::vector<uint64_t> sent(100);
  std::iota(sent.begin(), sent.end(), 1);
  for (uint64_t number : sent) EXPECT_TRUE(Send(*a, number));
  EXPECT_EQ(ReceiveNumbers(*b), sent);
  EXPECT_THAT(ReceiveNumbers(*a), IsEmpty()) << "no echo to oneself";
  EXPECT_EQ(a->counters().tx_packets, 100u);
  EXPECT_EQ(b->counters().rx_packets, 100u);
  EXPECT_EQ(a->info().tx_ring, 1024);
}

TEST(PortTest, ARingWithoutAPartnerDropsAndCounts) {
  const auto a = Create("ring:alone:a");
  ASSERT_TRUE(StateBecomes(*a, PortState::kNoPeer));
  for (int i = 0; i < 3000; ++i) EXPECT_TRUE(Send(*a, 1));
  EXPECT_EQ(a->counters().tx_dropped_down, 3000u);
}

TEST(PortTest, AFullRingLeavesTheRestWithTheCaller) {
  const auto a = Create("ring:full:a");
  const auto b = Create("ring:full:b");
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  int sent = 0;
  while (sent < 5000 && Send(*a, 1)) ++sent;
  EXPECT_EQ(sent, 1023) << "the slots of a DPDK ring less one";
  EXPECT_EQ(a->counters().tx_dropped_down, 0u);
  EXPECT_EQ(ReceiveNumbers(*b).size(), 1023u);
  EXPECT_TRUE(Send(*a, 1));
}

TEST(PortTest, APartnerMayLeaveAndReturn) {
  const auto a = Create("ring:return:a");
  for (int round = 0; round < 3; ++round) {
    auto b = Create("ring:return:b");
    ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << round;
    ASSERT_TRUE(StateBecomes(*b, PortState::kUp)) << round;
    for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(Send(*a, i));
    if (round != 1) {
      EXPECT_EQ(ReceiveNumbers(*b).size(), 10u);
    }
    b = nullptr;  // in round 1 with ten unread frames
    ASSERT_TRUE(StateBecomes(*a, PortState::kNoPeer)) << round;
    EXPECT_TRUE(Send(*a, 1));
  }
  EXPECT_EQ(a->counters().tx_packets, 30u);
  EXPECT_EQ(a->counters().tx_dropped_down, 3u);
}

TEST(PortTest, AFrameLongerThanTheMtuIsDroppedAndCounted) {
  PortConfig config{.dev = "ring:mtu:a", .mtu = 9000};
  const auto a = *CreatePort(config);
  config = {.dev = "ring:mtu:b", .mtu = 1500};
  const auto b = *CreatePort(config);
  ASSERT_TRUE(StateBecomes(*a, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*b, PortState::kUp));
  EXPECT_TRUE(Send(*a, 1, 1518));
  EXPECT_TRUE(Send(*a, 2, 1519));
  EXPECT_TRUE(Send(*a, 3, 64));
  EXPECT_EQ(ReceiveNumbers(*b), (std::vector<uint64_t>{1, 3}));
  EXPECT_EQ(b->counters().rx_truncated, 1u);
}

TEST(PortTest, ARingCannotWakeButItsLinkDoes) {
  const auto a = Create("ring:wake:a");
  ASSERT_TRUE(StateBecomes(*a, PortState::kNoPeer));
  EXPECT_FALSE(a->ArmWakeup()) << "must be polled";
  a->DisarmWakeup();
  EXPECT_FALSE(Readable(a->wait_fd()));
  const auto b = Create("ring:wake:b");
  EXPECT_TRUE(Eventually([&] { return Readable(a->wait_fd()); }));
  a->DisarmWakeup();
  EXPECT_FALSE(Readable(a->wait_fd()));
}

TEST(PortTest, TheMacIsLocalUnicastAndStable) {
  const auto mac_of = [](const char* dev) { return Create(dev)->mac(); };
  const wire::MacAddress mac = mac_of("ring:mac:a");
  EXPECT_EQ(mac.bytes[0] & 3, 2);
  EXPECT_EQ(mac, mac_of("ring:mac:a"));
  EXPECT_NE(mac, mac_of("ring:mac:b"));
  PortConfig config{.dev = "loop", .mac = {{2, 0, 0, 0, 0, 9}}};
  EXPECT_EQ((*CreatePort(config))->mac().bytes[5], 9);
}

TEST(PortTest, ASecondOpenerLearnsWhoHoldsThePort) {
  const auto a = Create("net_null0");
  PortConfig config{.dev = "net_null0"};
  const auto again = CreatePort(config);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.status().message()),
              HasSubstr("pid " + std::to_string(getpid())));
}

TEST(PortTest, DpdksOwnRingIsALoopback) {
  const auto port = Create("net_ring7");
  ASSERT_TRUE(StateBecomes(*port, PortState::kUp));
  EXPECT_TRUE(RoundTrip(*port));
}

TEST(PortTest, BadDeviceArgumentsAreExplained) {
  PortConfig config{.dev = "net_memif0,rsize=99"};
  const auto port = CreatePort(config);
  ASSERT_TRUE(port.ok());
  ASSERT_TRUE(Eventually([&] { return !(*port)->info().text.empty(); }));
  EXPECT_EQ((*port)->info().state, PortState::kStarting);
  EXPECT_THAT((*port)->info().text, HasSubstr("memif"));
}

TEST(PortTest, AForkedChildMayDestroyItsCopy) {
  auto port = Create("ring:fork:a");
  ASSERT_TRUE(StateBecomes(*port, PortState::kNoPeer));
  const pid_t child = fork();
  if (child == 0) {
    port = nullptr;
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(port->info().state, PortState::kNoPeer);
}

TEST(PortTest, ManyPortsInSuccessionLeaveNothingBehind) {
  for (int i = 0; i < 40; ++i) {
    const auto a = Create("ring:turn:a");
    const auto b = Create("ring:turn:b");
    ASSERT_TRUE(StateBecomes(*a, PortState::kUp)) << i;
    ASSERT_TRUE(Send(*a, 1));
  }
}

}  // namespace
}  // namespace urnic
