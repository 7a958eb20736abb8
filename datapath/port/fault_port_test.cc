// A faulty port on a ring. The faults are tested where they are decided
// (transport/impair). Here: every frame that is lost between the two ports is
// counted, and a sleeping thread is woken.

#include "datapath/port/fault_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "datapath/port/port_factory.h"
#include "datapath/port/port_test_util.h"

namespace urnic {
namespace {

using impair::Count;
using testing::HasSubstr;
using testing::IsEmpty;
using Numbers = std::vector<uint64_t>;

Time g_now = Time::FromNs(1'000'000'000);
Time FakeNow() { return g_now; }
void Pass(Duration time) { g_now = g_now + time; }

std::unique_ptr<Port> Create(const std::string& dev,
                             const std::string& fault = "") {
  PortConfig config;
  config.dev = dev;
  config.fault = fault;
  auto port = CreatePort(config);
  EXPECT_TRUE(port.ok()) << dev << ": " << port.status();
  return port.ok() ? std::move(*port) : nullptr;
}

Numbers UpTo(uint64_t last) {
  Numbers numbers(last);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

// `bad` has the faults. Its clock stands still except in Pass().
struct Pair {
  explicit Pair(const std::string& name, const std::string& fault) {
    auto spec = impair::ParseFaultSpec(fault);
    EXPECT_TRUE(spec.ok()) << spec.status();
    auto port =
        FaultPort::Create(Create("ring:" + name + ":a"), *spec, fault, FakeNow);
    EXPECT_TRUE(port.ok()) << port.status();
    bad = *std::move(port);
    good = Create("ring:" + name + ":b");
    EXPECT_TRUE(StateBecomes(*bad, PortState::kUp));
    EXPECT_TRUE(StateBecomes(*good, PortState::kUp));
  }
  // A hot call, which passes on the frames that are due.
  void Look() { EXPECT_THAT(ReceiveNumbers(*bad), IsEmpty()); }
  uint64_t Out(Count count) const { return bad->fault_counts().out.of(count); }
  uint64_t In(Count count) const { return bad->fault_counts().in.of(count); }

  std::unique_ptr<FaultPort> bad;
  std::unique_ptr<Port> good;
};

bool Readable(int fd, int timeout_ms) {
  pollfd p = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, timeout_ms) == 1;
}

TEST(FaultPortTest, FramesAreDelayedInBothDirections) {
  Pair pair("delay", "delay=1ms");
  EXPECT_TRUE(Send(*pair.bad, 1));
  EXPECT_TRUE(Send(*pair.good, 2));
  pair.Look();
  EXPECT_THAT(ReceiveNumbers(*pair.good), IsEmpty());
  EXPECT_EQ(pair.bad->frames_held(), 1u) << "only what goes out";
  Pass(Duration::Milliseconds(1));
  EXPECT_EQ(ReceiveNumbers(*pair.bad), Numbers{2});
  EXPECT_EQ(ReceiveNumbers(*pair.good), Numbers{1});
  EXPECT_EQ(pair.bad->frames_held(), 0u);
  EXPECT_EQ(pair.Out(Count::k_delivered), 1u);
  EXPECT_EQ(pair.In(Count::k_delivered), 1u);
}

TEST(FaultPortTest, OneDirectionLeavesTheOtherAlone) {
  Pair pair("one", "delay=1ms,direction=in");
  EXPECT_TRUE(Send(*pair.bad, 1));
  EXPECT_EQ(ReceiveNumbers(*pair.good), Numbers{1});
  EXPECT_TRUE(Send(*pair.good, 2));
  pair.Look();
  Pass(Duration::Milliseconds(1));
  EXPECT_EQ(ReceiveNumbers(*pair.bad), Numbers{2});
  EXPECT_EQ(pair.Out(Count::k_offered), 0u);
}

TEST(FaultPortTest, NoFrameIsLostUncounted) {
  for (const char* fault :
       {"loss=10%,duplicate=10%,corrupt=10%,burst=1%:20%",
        "reorder=20%,duplicate=10%,jitter=1ms,loss=1%",
        "rate=100Mbit,buffer=20KB,delay=50us", "stall=1ms:1ms:3ms,loss=5%"}) {
    Pair pair("sum", fault);
    uint64_t received = 0;
    for (uint64_t i = 1; i <= 3000; ++i) {
      EXPECT_TRUE(Send(*pair.bad, i));
      EXPECT_TRUE(Send(*pair.good, i));
      Pass(Duration::Microseconds(3));
      received += ReceiveNumbers(*pair.bad).size();
      // Frames with a damaged type are not test frames; free them, too.
      TakeLcore(pair.good->lcore());
      rte_mbuf* frames[kBurstMax];
      while (const uint16_t n = pair.good->Receive(frames, kBurstMax)) {
        rte_pktmbuf_free_bulk(frames, n);
      }
      ReleaseLcore();
    }
    Pass(Duration::Seconds(1));
    received += ReceiveNumbers(*pair.bad).size();
    const PortCounters counters = pair.bad->counters();
    EXPECT_EQ(counters.tx_packets, pair.Out(Count::k_delivered)) << fault;
    EXPECT_EQ(counters.rx_packets, pair.In(Count::k_offered)) << fault;
    EXPECT_LE(received, pair.In(Count::k_delivered)) << fault;
    for (const impair::CountValues& c :
         {pair.bad->fault_counts().out, pair.bad->fault_counts().in}) {
      EXPECT_EQ(c.of(Count::k_offered), 3000u) << fault;
      EXPECT_EQ(c.of(Count::k_offered) + c.of(Count::k_duplicated),
                c.of(Count::k_delivered) + c.of(Count::k_lost) +
                    c.of(Count::k_burst_lost) + c.of(Count::k_overflowed))
          << fault;
    }
  }
}

TEST(FaultPortTest, AFullPortRefusesFramesDespiteItsFaults) {
  for (const char* fault : {"delay=1ms", "loss=0%"}) {
    Pair pair("full", fault);
    uint64_t sent = 0;
    while (sent < 3000 && Send(*pair.bad, sent + 1)) ++sent;
    Pass(Duration::Milliseconds(1));
    pair.Look();  // the ring of 1023 fills
    EXPECT_FALSE(Send(*pair.bad, 9999));
    EXPECT_GE(sent, 1023u);
    Numbers received;
    for (int i = 0; i < 10; ++i) {
      const Numbers more = ReceiveNumbers(*pair.good);
      received.insert(received.end(), more.begin(), more.end());
      pair.Look();
    }
    EXPECT_EQ(received, UpTo(sent)) << fault;
    EXPECT_TRUE(Send(*pair.bad, 9999));
    Pass(Duration::Milliseconds(1));
  }
}

TEST(FaultPortTest, FramesBeyondTheRoomAreLostAndCounted) {
  Pair pair("room", "delay=1ms");
  for (uint64_t i = 1; i <= FaultPort::kFramesUnderWay + 5; ++i) {
    EXPECT_TRUE(Send(*pair.bad, i));
  }
  EXPECT_EQ(pair.Out(Count::k_no_room), 5u);
  // Now the held frames are due.
  Pass(Duration::Milliseconds(1));
  Numbers received;
  while (pair.bad->frames_held() != 0) {
    pair.Look();
    const Numbers more = ReceiveNumbers(*pair.good);
    received.insert(received.end(), more.begin(), more.end());
  }
  EXPECT_EQ(received, UpTo(FaultPort::kFramesUnderWay));
}

TEST(FaultPortTest, ASleeperIsWokenWhenAFrameIsDue) {
  const auto bad = Create("ring:wake:a", "delay=2ms");
  const auto good = Create("ring:wake:b");
  ASSERT_TRUE(StateBecomes(*bad, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*good, PortState::kUp));
  EXPECT_FALSE(bad->ArmWakeup()) << "a ring cannot: the answer is the port's";
  EXPECT_FALSE(Readable(bad->wait_fd(), 0));
  // While one thread sleeps, another may transmit.
  EXPECT_TRUE(Send(*bad, 1));
  EXPECT_TRUE(Readable(bad->wait_fd(), kPatienceMs));
  EXPECT_THAT(ReceiveNumbers(*bad), IsEmpty());
  EXPECT_EQ(ReceiveNumbers(*good), Numbers{1});
  EXPECT_FALSE(Readable(bad->wait_fd(), 0)) << "nothing waits any more";
  // A frame already waits when the thread goes to sleep.
  EXPECT_TRUE(Send(*good, 2));
  bad->DisarmWakeup();
  EXPECT_THAT(ReceiveNumbers(*bad), IsEmpty());
  bad->ArmWakeup();
  EXPECT_TRUE(Readable(bad->wait_fd(), kPatienceMs));
  bad->DisarmWakeup();
  EXPECT_FALSE(Readable(bad->wait_fd(), 0));
  EXPECT_EQ(ReceiveNumbers(*bad), Numbers{2});
}

TEST(FaultPortTest, AReportOfThePortBelowWakesToo) {
  const auto bad = Create("ring:link:a", "delay=2ms");
  ASSERT_TRUE(StateBecomes(*bad, PortState::kNoPeer));
  bad->ArmWakeup();
  const auto good = Create("ring:link:b");
  EXPECT_TRUE(Readable(bad->wait_fd(), kPatienceMs));
}

TEST(FaultPortTest, FramesUnderWayAreSentBeforeThePortCloses) {
  auto bad = Create("ring:last:a", "delay=20ms");
  const auto good = Create("ring:last:b");
  ASSERT_TRUE(StateBecomes(*bad, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*good, PortState::kUp));
  for (uint64_t i = 1; i <= 40; ++i) EXPECT_TRUE(Send(*bad, i));
  bad = nullptr;
  EXPECT_EQ(ReceiveNumbers(*good), UpTo(40));
}

TEST(FaultPortTest, ItsTextNamesTheFaultsAndTheRestIsThePorts) {
  const auto bad = Create("ring:same:a", "loss=1%");
  ASSERT_TRUE(StateBecomes(*bad, PortState::kNoPeer));
  EXPECT_THAT(bad->info().text, HasSubstr("with deliberate faults: loss=1%"));
  const wire::MacAddress mac = bad->mac();
  EXPECT_EQ(mac.bytes[0] & 3, 2);
  EXPECT_EQ(bad->info().tx_ring, 1024);
}

TEST(FaultPortTest, AFrozenDeviceTakesAndGivesNothing) {
  Pair pair("freeze", "freeze=1ms:2ms");
  Pass(Duration::Milliseconds(1));
  EXPECT_FALSE(Send(*pair.bad, 1));
  EXPECT_TRUE(Send(*pair.good, 2));
  pair.Look();
  Pass(Duration::Milliseconds(2));
  EXPECT_TRUE(Send(*pair.bad, 3));
  EXPECT_EQ(ReceiveNumbers(*pair.bad), Numbers{2});
  EXPECT_EQ(ReceiveNumbers(*pair.good), Numbers{3});
}

TEST(FaultPortTest, AStuckDeviceOnlyReceives) {
  Pair pair("stuck", "stuck=1ms:2ms");
  Pass(Duration::Milliseconds(1));
  EXPECT_FALSE(Send(*pair.bad, 1));
  EXPECT_TRUE(Send(*pair.good, 2));
  EXPECT_EQ(ReceiveNumbers(*pair.bad), Numbers{2});
  EXPECT_FALSE(pair.bad->ReplaceDevice("a test")) << "time helps, not that";
  Pass(Duration::Milliseconds(2));
  EXPECT_TRUE(Send(*pair.bad, 3));
}

// --- Those of the port's keeper, which has a clock of its own ----------------

TEST(DeviceFaultTest, ALinkGoesDownAndComesBack) {
  const auto bad = Create("ring:down:a", "down=300ms:300ms");
  const auto good = Create("ring:down:b");
  ASSERT_TRUE(StateBecomes(*good, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*bad, PortState::kLinkDown));
  EXPECT_THAT(bad->info().text, HasSubstr("down on purpose"));
  EXPECT_TRUE(Send(*bad, 1));
  EXPECT_EQ(bad->counters().tx_dropped_down, 1u);
  EXPECT_TRUE(Send(*good, 2));
  EXPECT_THAT(ReceiveNumbers(*bad), IsEmpty());
  EXPECT_EQ(bad->counters().rx_missed, 1u);
  ASSERT_TRUE(StateBecomes(*bad, PortState::kUp));
  EXPECT_TRUE(Send(*bad, 3));
  EXPECT_EQ(ReceiveNumbers(*good), Numbers{3}) << "what was lost stays lost";
  EXPECT_EQ(bad->counters().incarnations, 1u);
}

TEST(DeviceFaultTest, ADeviceIsRemovedAndComesBack) {
  const auto bad = Create("ring:gone:a", "remove=300ms:200ms");
  const auto good = Create("ring:gone:b");
  ASSERT_TRUE(StateBecomes(*bad, PortState::kRemoved));
  EXPECT_TRUE(Send(*bad, 1)) << "a port that is down takes all";
  ASSERT_TRUE(StateBecomes(*bad, PortState::kUp));
  EXPECT_EQ(bad->counters().incarnations, 2u);
  EXPECT_TRUE(Send(*bad, 2));
  EXPECT_EQ(ReceiveNumbers(*good), Numbers{2});
}

TEST(DeviceFaultTest, ADeviceIsResetAgainAndAgain) {
  const auto bad = Create("ring:reset:a", "reset=50ms:100ms");
  const auto good = Create("ring:reset:b");
  for (int i = 0; i < kPatienceMs && bad->counters().incarnations < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(bad->counters().incarnations, 4u);
}

TEST(FaultPortTest, AWrongSpecificationIsRefused) {
  PortConfig config{.dev = "ring:wrong:a", .fault = "loss=200%"};
  const auto port = CreatePort(config);
  EXPECT_EQ(port.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(port.status().message()), HasSubstr("loss=200%"));
}

}  // namespace
}  // namespace urnic
