// The parts of loss recovery that are structs of their own.

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/peer_window.h"
#include "transport/iwarp/tcp/rack.h"
#include "transport/iwarp/tcp/rate_reduction.h"
#include "transport/iwarp/tcp/round_trip.h"

namespace urnic::tcp {
namespace {

constexpr Duration Ms(int64_t n) { return Duration::Milliseconds(n); }
constexpr Time kNow = Time::FromNs(1'000'000'000'000);

//= RFC 6298 2.1
TEST(RoundTripTest, TheFirstTimeoutIsOneSecond) {
  EXPECT_EQ(RoundTrip().timeout(), Duration::Seconds(1));
}

//= RFC 6298 2.2
//= RFC 6298 2.3
TEST(RoundTripTest, SamplesAreSmoothed) {
  RoundTrip rtt;
  rtt.OnSample(Ms(800), kNow);
  EXPECT_EQ(rtt.smoothed, Ms(800));
  EXPECT_EQ(rtt.variance, Ms(400));
  EXPECT_EQ(rtt.timeout(), Ms(800 + 4 * 400));
  rtt.OnSample(Ms(1600), kNow);
  EXPECT_EQ(rtt.smoothed, Ms(900));
  EXPECT_EQ(rtt.variance, Ms(500)) << "3/4 * 400 + 1/4 * 800";
}

TEST(RoundTripTest, TheTimeoutExceedsTheRoundTripByADelayedAcknowledgement) {
  RoundTrip rtt;
  for (int i = 0; i < 100; ++i) rtt.OnSample(Ms(10), kNow);
  EXPECT_EQ(rtt.timeout(), Ms(210));
}

//= RFC 6298 5.5
//= RFC 6298 2.5
//= RFC 6298 5.7
TEST(RoundTripTest, TimeoutsDoubleUpToAMinuteUntilASample) {
  RoundTrip rtt;
  rtt.OnTimeout();
  EXPECT_EQ(rtt.timeout(), Duration::Seconds(2));
  for (int i = 0; i < 20; ++i) rtt.OnTimeout();
  EXPECT_EQ(rtt.timeout(), Duration::Seconds(60));
  rtt.OnSample(Ms(1), kNow);
  EXPECT_LT(rtt.timeout(), Duration::Seconds(1));
}

TEST(RoundTripTest, TheShortestRoundTripIsForgottenAfterTenMinutes) {
  WindowedMin shortest;
  shortest.OnSample(Ms(1), kNow);
  Time now = kNow;
  for (int minute = 1; minute < 5; ++minute) {
    now = now + Duration::Seconds(60);
    shortest.OnSample(Ms(9), now);
    EXPECT_EQ(shortest.value(), Ms(1));
  }
  for (int minute = 5; minute < 11; ++minute) {
    now = now + Duration::Seconds(60);
    shortest.OnSample(Ms(9), now);
  }
  EXPECT_EQ(shortest.value(), Ms(9));
}

//= RFC 7323 5.4
TEST(TimestampClockTest, TicksEveryMillisecond) {
  const TimestampClock clock{.offset = 0xffffffff};
  EXPECT_EQ(clock.At(Time::FromNs(999'999)), 0xffffffffu);
  EXPECT_EQ(clock.At(Time::FromNs(1'000'000)), 0u);
}

//= RFC 8985 5.2
//= RFC 8985 6.2
TEST(RackTest, WithoutReorderingThreeSackedSegmentsEndTheWaiting) {
  Rack rack;
  rack.Start(SeqNum(0));
  EXPECT_EQ(rack.ReorderWindow(false, 2, Ms(8), Ms(10)), Ms(2));
  EXPECT_EQ(rack.ReorderWindow(false, 3, Ms(8), Ms(10)), Duration());
  EXPECT_EQ(rack.ReorderWindow(true, 0, Ms(8), Ms(10)), Duration());
  rack.NoteOrder(SeqNum(10), false);
  rack.NoteOrder(SeqNum(5), true);
  EXPECT_FALSE(rack.reordering_seen) << "it was resent";
  rack.NoteOrder(SeqNum(5), false);
  EXPECT_TRUE(rack.reordering_seen);
  EXPECT_EQ(rack.ReorderWindow(true, 9, Ms(8), Ms(10)), Ms(2));
}

//= RFC 8985 6.2
TEST(RackTest, TheWindowGrowsInRoundsWithDsacksForSixteenRecoveries) {
  Rack rack;
  rack.Start(SeqNum(0));
  rack.reordering_seen = true;
  rack.OnAck(SeqNum(0), SeqNum(100), /*dsack=*/true);
  rack.OnAck(SeqNum(50), SeqNum(150), /*dsack=*/true);
  EXPECT_EQ(rack.multiple, 2) << "once in a round";
  rack.OnAck(SeqNum(100), SeqNum(200), /*dsack=*/true);
  EXPECT_EQ(rack.multiple, 3);
  EXPECT_EQ(rack.ReorderWindow(true, 0, Ms(8), Ms(10)), Ms(6));
  for (int i = 0; i < 4; ++i) {
    rack.OnAck(SeqNum(300 + i * 100), SeqNum(400 + i * 100), true);
  }
  EXPECT_EQ(rack.ReorderWindow(true, 0, Ms(8), Ms(10)), Ms(10))
      << "never more than the round trip";
  for (int i = 0; i < 15; ++i) rack.OnRecoveryEnd();
  EXPECT_EQ(rack.multiple, 7);
  rack.OnRecoveryEnd();
  EXPECT_EQ(rack.multiple, 1);
}

constexpr uint32_t kMss = 1000;

//= RFC 9937 6.1
//= RFC 9937 6.2
//= RFC 9937 6.3
TEST(RateReductionTest, TheFlightShrinksInProportion) {
  RateReduction reduction;
  reduction.Start(20 * kMss, 10 * kMss);
  uint64_t pipe = 18 * kMss;  // a segment is SACKed, another is lost
  reduction.OnAck(kMss, pipe, false, kMss);
  EXPECT_EQ(reduction.quota, kMss) << "the first one leaves at once";
  reduction.OnSend(kMss);
  EXPECT_EQ(reduction.quota, 0u);
  uint64_t sent = 1;
  for (uint64_t acks = 2; acks <= 17; ++acks) {
    pipe = 18 * kMss + (sent - 1) * kMss - (acks - 1) * kMss;
    reduction.OnAck(kMss, pipe, true, kMss);
    while (reduction.quota >= kMss) {
      reduction.OnSend(kMss);
      ++sent;
    }
    if (pipe > 10 * kMss) {
      EXPECT_EQ(sent, acks / 2) << "a segment for two of the old flight";
    }
  }
}

//= RFC 9937 6.2
TEST(RateReductionTest, BelowTheNewWindowItSendsWhatIsDelivered) {
  RateReduction reduction;
  reduction.Start(20 * kMss, 10 * kMss);
  reduction.OnAck(kMss, 4 * kMss, false, kMss);  // heavy loss
  EXPECT_EQ(reduction.quota, kMss);
  reduction.OnSend(kMss);
  reduction.OnAck(2 * kMss, 3 * kMss, false, kMss);
  EXPECT_EQ(reduction.quota, 2 * kMss) << "conservation of packets";
  reduction.OnSend(2 * kMss);
  reduction.OnAck(kMss, 4 * kMss, true, kMss);
  EXPECT_EQ(reduction.quota, 2 * kMss) << "one more: slow start";
  reduction.OnSend(2 * kMss);
  reduction.OnAck(kMss, 10 * kMss, true, kMss);
  EXPECT_EQ(reduction.quota, 0u) << "not beyond the new window";
}

//= RFC 9937 6.2
TEST(RateReductionTest, AnAcknowledgementThatDeliversNothingAllowsNothing) {
  RateReduction reduction;
  reduction.Start(20 * kMss, 10 * kMss);
  reduction.OnAck(kMss, 4 * kMss, false, kMss);
  reduction.OnSend(kMss);
  reduction.OnAck(0, 4 * kMss, true, kMss);
  EXPECT_EQ(reduction.quota, 0u);
}

//= RFC 9293 3.10.7.4
TEST(PeerWindowTest, AnOldSegmentDoesNotChangeTheWindow) {
  PeerWindow window;
  window.Start(SeqNum(100), SeqNum(50), 1000);
  EXPECT_FALSE(window.OnAck(SeqNum(99), SeqNum(50), 5));
  EXPECT_FALSE(window.OnAck(SeqNum(100), SeqNum(49), 5));
  EXPECT_EQ(window.bytes, 1000u);
  EXPECT_TRUE(window.OnAck(SeqNum(100), SeqNum(50), 2000));
  EXPECT_TRUE(window.OnAck(SeqNum(101), SeqNum(40), 3000));
  EXPECT_EQ(window.bytes, 3000u);
  EXPECT_EQ(window.largest, 3000u);
}

// It was sent after all that acknowledge less, and SND.UNA moves with it: the
// right edge stays where the peer has put it.
TEST(PeerWindowTest, ARetransmissionThatAcknowledgesMoreChangesTheWindow) {
  PeerWindow window;
  window.Start(SeqNum(100), SeqNum(50), 1000);
  EXPECT_TRUE(window.OnAck(SeqNum(99), SeqNum(60), 990));
  EXPECT_EQ(window.Usable(SeqNum(60), SeqNum(1050)), 0u);
}

//= RFC 9293 3.8.6
TEST(PeerWindowTest, ARightEdgeThatMovesToTheLeftLeavesNothingUsable) {
  PeerWindow window;
  window.Start(SeqNum(0), SeqNum(0), 1000);
  EXPECT_EQ(window.Usable(SeqNum(0), SeqNum(400)), 600u);
  (void)window.OnAck(SeqNum(0), SeqNum(0), 300);
  EXPECT_EQ(window.Usable(SeqNum(0), SeqNum(400)), 0u);
}

}  // namespace
}  // namespace urnic::tcp
