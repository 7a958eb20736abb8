// A connection finds out which packets its path carries: by reports of routers,
// by black holes, and by probes.

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/connection_fixture.h"
#include "transport/wire/ipv4.h"

namespace urnic::tcp {
namespace {

constexpr Duration Ms(int64_t n) { return Duration::Milliseconds(n); }

uint32_t BytesOf(const Packet& packet) {
  return static_cast<uint32_t>(sizeof(wire::Ipv4) +
                               wire::TcpHeaderBytes(packet.fields.options) +
                               packet.payload.size());
}

// A path between two hosts with links of 9000 bytes.
class PathTest : public ::testing::Test {
 protected:
  PathTest() {
    config_a.offer.mss = config_b.offer.mss = 8960;
    pair.passes = [this](TestEnd& from, const Packet& packet) {
      const uint32_t bytes = BytesOf(packet);
      largest = std::max(largest, bytes);
      if (bytes <= path) return true;
      ++refused;
      if (reports) {
        from.connection.OnTooBig(path, packet.fields.seq, pair.now);
      }
      return false;
    };
  }
  void Start() { ASSERT_NO_FATAL_FAILURE(pair.Establish(config_a, config_b)); }
  // Sends so much more, and waits until it is acknowledged.
  void Send(uint64_t bytes) {
    largest = 0;
    pair.a.to_send += bytes;
    const Time start = pair.now;
    pair.Run(Duration::Seconds(600));
    took = pair.now - start;
    ASSERT_EQ(pair.a.acked, pair.a.to_send);
    ASSERT_EQ(pair.b.received, pair.a.to_send);
  }
  // Only time passes.
  void Wait(Duration time) { pair.now = pair.now + time; }
  const SenderCounters& counters() const {
    return pair.a.connection.sender().counters();
  }
  uint32_t path_mtu() const { return pair.a.connection.path_mtu(); }

  Pair pair;
  ConnectionConfig config_a = TestConfig(1, 2);
  ConnectionConfig config_b = TestConfig(2, 1);
  uint32_t path = 9000;
  bool reports = false;
  uint32_t refused = 0;
  uint32_t largest = 0;  // packet sent
  Duration took;
};

//= RFC 9293 3.7.1
TEST_F(PathTest, ASegmentHasTheSmallestOfAllLimits) {
  config_a.path_mtu = 4000;
  config_b.offer.mss = 3000;
  Start();
  EXPECT_EQ(path_mtu(), 3040u) << "what the peer receives";
  EXPECT_EQ(pair.a.connection.mss(), 3000u - 12) << "less the timestamps";
  EXPECT_EQ(pair.b.connection.path_mtu(), 3040u);
  Send(100'000);
  EXPECT_EQ(largest, 3040u);
}

TEST_F(PathTest, ItBeginsWithWhatTheNetworkKnows) {
  config_a.path_mtu = 1400;
  config_a.ipv6 = true;
  config_a.offer.mss = 8940;
  Start();
  EXPECT_EQ(path_mtu(), 1400u);
  EXPECT_EQ(pair.a.connection.mss(), 1400u - 60 - 12);
}

//= RFC 1191 3, 6.4
//= RFC 8201 5.4
TEST_F(PathTest, AReportOfARouterShrinksTheSegmentsAtOnce) {
  path = 1500;
  reports = true;
  Start();
  Send(300'000);
  EXPECT_EQ(path_mtu(), 1500u);
  EXPECT_EQ(pair.a.connection.mss(), 1448u);
  EXPECT_EQ(refused, 2u) << "the initial window";
  EXPECT_EQ(counters().timeouts, 0u);
  EXPECT_EQ(counters().recoveries, 0u) << "no congestion";
  EXPECT_LT(took, Ms(10));
  Send(300'000);
  EXPECT_EQ(refused, 2u);
  EXPECT_EQ(largest, 1500u);
}

//= RFC 5927 4.1
TEST_F(PathTest, AReportAboutNothingUnderWayIsIgnored) {
  Start();
  Send(10'000);
  const Sender<Connection::CongestionControl>& sender =
      pair.a.connection.sender();
  pair.a.to_send += 5000;
  ASSERT_EQ(pair.a.Transmit(pair.now).size(), 1u);
  for (const SeqNum quoted : {SeqNum(sender.una().value() - 1), sender.nxt()}) {
    pair.a.connection.OnTooBig(1000, quoted, pair.now);
    EXPECT_EQ(path_mtu(), 9000u);
  }
  pair.a.connection.OnTooBig(1000, sender.una(), pair.now);
  EXPECT_EQ(path_mtu(), 1000u);
  const auto resent = pair.a.Transmit(pair.now);
  ASSERT_FALSE(resent.empty());
  EXPECT_EQ(resent[0].payload.size(), 1000u - 52 - 1)
      << "no part begins at a multiple of four";
}

//= RFC 9293 3.7.1
TEST_F(PathTest, TheMtuOfTheLinkCountsAlsoIfNothingIsUnderWay) {
  Start();
  pair.a.connection.OnLinkMtu(1500, pair.now);
  EXPECT_EQ(path_mtu(), 1500u);
  Send(100'000);
  EXPECT_EQ(largest, 1500u);
  pair.a.to_send += 20'000;
  ASSERT_FALSE(pair.a.Transmit(pair.now).empty());
  path = 1000;
  pair.a.connection.OnLinkMtu(1000, pair.now);
  Send(0);
  EXPECT_LE(largest, 1000u);
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(counters().timeouts, 0u) << "what is too large is resent at once";
  path = 9000;
  pair.a.connection.OnLinkMtu(UINT16_MAX, pair.now);
  Send(100'000);
  EXPECT_EQ(path_mtu(), 9000u) << "what both ends have offered";
}

TEST_F(PathTest, TheLinkMayShrinkDuringTheHandshake) {
  pair.a.connection.Connect(config_a, pair.now);
  pair.a.connection.OnLinkMtu(1500, pair.now);
  EXPECT_EQ(path_mtu(), 0u);
}

TEST_F(PathTest, BeforeTheHandshakeAReportSaysNothing) {
  pair.a.connection.OnTooBig(600, SeqNum(), pair.now);
  pair.a.connection.Connect(config_a, pair.now);
  pair.a.connection.OnTooBig(600, config_a.iss, pair.now);
  EXPECT_EQ(path_mtu(), 0u);
}

//= RFC 4821 7.7
TEST_F(PathTest, WithoutReportsTimeoutsFindABlackHole) {
  path = 1500;
  Start();
  Send(100'000);
  EXPECT_LE(path_mtu(), 1500u);
  EXPECT_LT(took, Duration::Seconds(3));
  EXPECT_EQ(pair.a.connection.ended(), End::kNone);
}

TEST_F(PathTest, SmallSegmentsThatArriveDoNotHideABlackHole) {
  path = 1500;
  config_a.path_mtu = 1500;
  Start();
  Send(100'000);
  path = 1200;
  // Each large chunk is surrounded by small ones.
  for (int i = 0; i < 10; ++i) {
    pair.a.chunk_bytes = i % 2 == 0 ? 1448 : 100;
    pair.a.to_send += pair.a.chunk_bytes;
    pair.Run(Duration::Microseconds(20));
  }
  Send(0);
  EXPECT_LE(path_mtu(), 1200u);
  EXPECT_LT(took, Duration::Seconds(10));
}

TEST_F(PathTest, AClosedWindowIsNoBlackHole) {
  Start();
  const Connection& a = pair.a.connection;
  pair.a.to_send = 5000;
  ASSERT_EQ(pair.a.Transmit(pair.now).size(), 1u);
  Packet closed;
  closed.fields.flags = wire::kTcpAck;
  closed.fields.seq = a.receiver().next();
  closed.fields.ack = a.sender().una();
  closed.fields.options.timestamps = {a.receiver().ts_recent(), 0};
  ASSERT_EQ(pair.a.Deliver(closed, pair.now), RxVerdict::kAccept);
  ASSERT_EQ(a.sender().peer_window(), 0u);
  for (int i = 0; i < 20 && counters().timeouts < 6; ++i) {
    pair.now = std::max(pair.now, a.deadline());
    pair.a.connection.OnTimer(pair.now);
    (void)pair.a.Transmit(pair.now);
  }
  EXPECT_EQ(counters().timeouts, 6u);
  EXPECT_EQ(path_mtu(), 9000u);
}

//= RFC 1191 6.3, RFC 8201 5.3
TEST_F(PathTest, APathThatCarriesMoreAgainIsUsedAfterTenMinutes) {
  path = 1500;
  reports = true;
  Start();
  Send(100'000);
  path = 9000;
  Wait(PathMtu::kRaiseInterval - Duration::Seconds(2));
  Send(100'000);
  EXPECT_EQ(path_mtu(), 1500u);
  Wait(Duration::Seconds(2));
  Send(200'000);
  EXPECT_EQ(path_mtu(), 9000u);
  EXPECT_EQ(largest, 9000u);
}

// No probe without data that fill it: what a program sends in small pieces
// leaves the path alone.
TEST_F(PathTest, SmallChunksAreNoProbes) {
  config_a.path_mtu = 1500;
  pair.a.chunk_bytes = 1000;
  Start();
  Wait(PathMtu::kRaiseInterval);
  Send(100'000);
  EXPECT_EQ(path_mtu(), 1500u);
  pair.a.chunk_bytes = 3000;
  Send(100'000);
  EXPECT_EQ(path_mtu(), 3052u) << "no more than the largest chunk";
}

//= RFC 4821 7.4
TEST_F(PathTest, AProbeNeedsRoomInTheWindowOfThePeer) {
  config_a.path_mtu = 1500;
  config_b.window_bytes = 9000;
  Start();
  Wait(PathMtu::kRaiseInterval);
  Send(100'000);
  EXPECT_EQ(path_mtu(), 1500u);
}

TEST_F(PathTest, AProbeThatARouterRefusesIsDividedAtOnce) {
  config_a.path_mtu = 1500;
  path = 4000;
  reports = true;
  Start();
  Wait(PathMtu::kRaiseInterval);
  Send(100'000);
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(path_mtu(), 4000u);
  EXPECT_EQ(counters().recoveries, 0u);
  EXPECT_EQ(counters().timeouts, 0u);
  EXPECT_LT(took, Ms(10));
}

// With SACK, and without.
class ProbeTest : public PathTest, public ::testing::WithParamInterface<bool> {
 protected:
  ProbeTest() { config_a.offer.sack = GetParam(); }
};

//= RFC 4821 7.6.1
TEST_P(ProbeTest, AfterABlackHoleProbesFindWhatThePathCarries) {
  path = 5000;
  Start();
  Send(100'000);
  EXPECT_LT(path_mtu(), 2000u);
  const uint64_t recoveries = counters().recoveries;
  const uint64_t timeouts = counters().timeouts;
  for (int i = 0; i < 100; ++i) {
    Wait(PathMtu::kProbeSpacing);
    Send(200'000);
  }
  EXPECT_LE(path_mtu(), 5000u);
  EXPECT_GT(path_mtu(), 5000u - PathMtu::kPrecision);
  //= RFC 4821 7.6.2
  EXPECT_EQ(counters().recoveries, recoveries) << "no congestion";
  EXPECT_EQ(counters().timeouts, timeouts);
  Send(200'000);
  EXPECT_EQ(largest, path_mtu());
}

// A single chunk: nothing follows the probe that could show its loss.
TEST_P(ProbeTest, AProbeThatIsTheLastSegmentCostsNoReduction) {
  config_a.path_mtu = 1500;
  path = 1500;
  Start();
  Send(50'000);
  Wait(PathMtu::kRaiseInterval);
  Send(8948);
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(path_mtu(), 1500u);
  EXPECT_EQ(counters().timeouts, 0u);
  EXPECT_EQ(counters().recoveries, 0u);
  EXPECT_LT(took, Ms(300));
  for (int i = 0; i < 200; ++i) {
    Wait(PathMtu::kProbeSpacing);
    Send(8948);
  }
  EXPECT_LE(refused, 3 * 10u) << "the search ends";
  EXPECT_EQ(counters().timeouts, 0u);
}

INSTANTIATE_TEST_SUITE_P(Sack, ProbeTest, ::testing::Bool());

// The path changes all the time, and loses.
class RandomPathTest : public PathTest,
                       public ::testing::WithParamInterface<int> {};

TEST_P(RandomPathTest, EachByteArrives) {
  const auto seed = static_cast<uint64_t>(GetParam());
  Random random(seed);
  for (ConnectionConfig* config : {&config_a, &config_b}) {
    config->offer.mss = static_cast<uint16_t>(1000 + random.Below(7960));
    config->offer.sack = !random.OneIn(4);
    config->offer.timestamps = !random.OneIn(4);
    config->window_bytes = static_cast<uint32_t>(1 + random.Below(1 << 18));
  }
  pair.faults.loss_percent = static_cast<uint32_t>(random.Below(4));
  pair.faults.reorder_percent = static_cast<uint32_t>(random.Below(10));
  Start();
  for (int i = 0; i < 30; ++i) {
    path = static_cast<uint32_t>(600 + random.Below(8400));
    reports = random.OneIn(2);
    pair.a.chunk_bytes = static_cast<uint32_t>(100 + random.Below(9000));
    if (random.OneIn(2)) Wait(Ms(static_cast<int64_t>(random.Below(700'000))));
    ASSERT_NO_FATAL_FAILURE(Send(random.Below(100'000)));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPathTest, ::testing::Range(1, 21));

}  // namespace
}  // namespace urnic::tcp
