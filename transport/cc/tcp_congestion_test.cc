#include "transport/cc/tcp_congestion.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr uint32_t kMss = 1460;

constexpr Duration Ms(int64_t n) { return Duration::Milliseconds(n); }
constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }

class TcpCongestionTest : public ::testing::Test {
 protected:
  TcpCongestionTest() { Start(TcpAlgorithm::kCubic); }

  void Start(TcpAlgorithm algorithm) {
    cc_.Start({.algorithm = algorithm, .mss = kMss}, now_);
  }
  AckSample Sample(uint32_t packets) {
    AckSample sample;
    sample.now = now_;
    sample.round_trip = round_trip_;
    sample.packets = packets;
    sample.bytes = packets * kMss;
    return sample;
  }
  void Ack(uint32_t packets) { cc_.OnAck(Sample(packets)); }
  void AckMarked(uint32_t packets) {
    AckSample sample = Sample(packets);
    sample.marked = true;
    sample.marked_bytes = sample.bytes;
    cc_.OnAck(sample);
  }
  // A round trip in which the whole window is acknowledged, or so many packets
  // that were not all of it.
  void Round() {
    const uint32_t packets = cc_.window();
    for (uint32_t i = 1; i <= packets; ++i) {
      now_ = now_ + Duration::Nanoseconds(round_trip_.ns() / packets);
      AckSample sample = Sample(1);
      sample.ends_round = i == packets;
      cc_.OnAck(sample);
    }
  }
  void LimitedRound(uint32_t packets) {
    now_ = now_ + round_trip_;
    AckSample sample = Sample(packets);
    sample.ends_round = sample.app_limited = true;
    cc_.OnAck(sample);
  }
  void GrowTo(uint32_t packets) {
    while (cc_.window() < packets) Round();
  }
  // In congestion avoidance, with a window of about `packets`.
  void Avoid(uint32_t packets) {
    GrowTo(packets * 10 / 7);
    Lose();
  }
  void Lose() {
    cc_.OnLoss(now_);
    now_ = now_ + round_trip_;
    cc_.OnRecovered(now_, 1);
    now_ = now_ + round_trip_;  // a mark counts again
  }

  Time now_ = Time::FromNs(1'000'000'000);
  Duration round_trip_ = Ms(20);
  TcpCongestion cc_;
};

//= RFC 6928 2
TEST_F(TcpCongestionTest,
       StartsWithTenPacketsButNotWithMuchMoreThan14600Bytes) {
  EXPECT_EQ(cc_.window(), 10u);
  EXPECT_EQ(cc_.ssthresh(), UINT32_MAX);
  EXPECT_EQ(InitialWindow(536), 10u);
  EXPECT_EQ(InitialWindow(1461), 9u);
  EXPECT_EQ(InitialWindow(4096), 3u);
  EXPECT_EQ(InitialWindow(8960), 2u);
  cc_.Start({.mss = kMss, .handshake_resent = true}, now_);
  EXPECT_EQ(cc_.window(), 1u);
  cc_.Start({.mss = kMss, .window_max = 4}, now_);
  EXPECT_EQ(cc_.window(), 4u);
}

TEST_F(TcpCongestionTest, SlowStartDoublesTheWindowInARoundTrip) {
  Round();
  EXPECT_EQ(cc_.window(), 20u);
  Round();
  EXPECT_EQ(cc_.window(), 40u);
}

TEST_F(TcpCongestionTest, SmallPacketsCountByTheirBytes) {
  AckSample sample = Sample(1);
  sample.bytes = kMss / 10;
  for (int i = 0; i < 9; ++i) cc_.OnAck(sample);
  EXPECT_EQ(cc_.window(), 10u);
  for (int i = 0; i < 2; ++i) cc_.OnAck(sample);
  EXPECT_EQ(cc_.window(), 11u);
}

TEST_F(TcpCongestionTest, TheWindowNeverExceedsItsLimit) {
  cc_.Start({.mss = kMss, .window_max = 100}, now_);
  for (int i = 0; i < 10; ++i) Round();
  EXPECT_EQ(cc_.window(), 100u);
}

//= RFC 9406 4.2
TEST_F(TcpCongestionTest,
       WithoutPacingAnAcknowledgementCountsUpToEightPackets) {
  round_trip_ = Us(20);
  Ack(64);
  EXPECT_EQ(cc_.window(), 18u);
  round_trip_ = Ms(20);
  Start(TcpAlgorithm::kCubic);
  Ack(1);  // it paces from now on
  Ack(64);
  EXPECT_EQ(cc_.window(), 11u + 64);
}

//= RFC 9406 4.2, 4.3
TEST_F(TcpCongestionTest, ARisingDelayEndsTheFirstSlowStartWithoutALoss) {
  GrowTo(100);
  const uint32_t before = cc_.window();
  round_trip_ = Ms(30);
  Round();
  EXPECT_TRUE(cc_.hystart.conservative);
  EXPECT_LE(cc_.window(), before + 8 + before / 4);
  EXPECT_EQ(cc_.ssthresh(), UINT32_MAX);
  for (int i = 0; i < 4; ++i) Round();
  EXPECT_EQ(cc_.ssthresh(), cc_.window());
  //= RFC 9438 4.10
  const uint32_t exit = cc_.window();
  Round();
  EXPECT_EQ(cc_.cubic.w_max >> 32, exit);
  EXPECT_EQ(cc_.cubic.k, Duration());
}

//= RFC 9406 4.3
TEST_F(TcpCongestionTest, ALaterSlowStartIgnoresTheDelay) {
  GrowTo(1000);
  cc_.OnRto(now_);
  cc_.OnRecovered(now_, 0);
  GrowTo(100);
  round_trip_ = Ms(60);
  const uint32_t before = cc_.window();
  Round();
  EXPECT_EQ(cc_.window(), before * 2);
}

//= RFC 9438 4.6
TEST_F(TcpCongestionTest, ALossLeavesSevenTenthsButTwoPackets) {
  GrowTo(160);
  cc_.OnLoss(now_, 160);
  EXPECT_EQ(cc_.window(), 112u);
  EXPECT_EQ(cc_.ssthresh(), 112u);
  cc_.OnRecovered(now_, 5);
  EXPECT_EQ(cc_.window(), 112u);
  for (int i = 0; i < 50; ++i) Lose();
  EXPECT_EQ(cc_.window(), 2u);
  EXPECT_EQ(cc_.ssthresh(), 2u);
}

//= RFC 6937 3
TEST_F(TcpCongestionTest, TheTransportSetsTheWindowDuringARepair) {
  GrowTo(160);
  cc_.OnLoss(now_);
  cc_.SetWindow(130);
  EXPECT_EQ(cc_.window(), 130u);
  Ack(50);
  EXPECT_EQ(cc_.window(), 130u) << "a repair does not grow";
  cc_.SetWindow(0);
  EXPECT_EQ(cc_.window(), 1u);
  cc_.OnRecovered(now_, 5);
  EXPECT_EQ(cc_.window(), 112u);
  cc_.OnRecovered(now_, 5);
  EXPECT_EQ(cc_.window(), 112u) << "nothing was left to repair";
}

//= RFC 5681 3.1
//= RFC 9438 4.8
TEST_F(TcpCongestionTest, ATimeoutLeavesOnePacketAndSlowStart) {
  GrowTo(1280);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.window(), 1u);
  EXPECT_EQ(cc_.ssthresh(), 896u);
  cc_.OnRto(now_);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.ssthresh(), 896u) << "time-outs of what was already resent";
  Ack(1);
  EXPECT_EQ(cc_.window(), 2u) << "slow start, also before the repair's end";
  cc_.OnRecovered(now_, 1280);
  EXPECT_EQ(cc_.window(), 2u);
  GrowTo(896);
  EXPECT_EQ(cc_.window(), 896u);
  Round();
  EXPECT_EQ(cc_.cubic.w_max >> 32, 896u) << "K is 0";
  EXPECT_EQ(cc_.cubic.k, Duration());
}

TEST_F(TcpCongestionTest,
       TheRepairOfATimeoutGrowsAlsoIfOnlyResentPacketsFillIt) {
  GrowTo(160);
  cc_.OnRto(now_);
  LimitedRound(1);
  LimitedRound(2);
  EXPECT_EQ(cc_.window(), 4u);
  cc_.OnRecovered(now_, 160);
  LimitedRound(4);
  EXPECT_EQ(cc_.window(), 4u);
}

TEST_F(TcpCongestionTest, ATimeoutInARepairDoesNotReduceTwice) {
  GrowTo(160);
  cc_.OnLoss(now_);
  cc_.SetWindow(80);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.window(), 1u);
  EXPECT_EQ(cc_.ssthresh(), 112u);
}

//= RFC 9438 4.9.1, 4.9.2
TEST_F(TcpCongestionTest, AMistakeIsUndoneWithItsCurve) {
  Avoid(100);
  for (int i = 0; i < 20; ++i) Round();
  const TcpCongestion before = cc_;
  for (const bool timeout : {false, true}) {
    cc_ = before;
    timeout ? cc_.OnRto(now_) : cc_.OnLoss(now_);
    Ack(1);
    cc_.OnUndo();
    EXPECT_EQ(cc_.cwnd, before.cwnd);
    EXPECT_EQ(cc_.threshold, before.threshold);
    EXPECT_EQ(cc_.cubic.w_max, before.cubic.w_max);
    EXPECT_EQ(cc_.cubic.w_est, before.cubic.w_est);
    EXPECT_EQ(cc_.cubic.prior, before.cubic.prior);
    EXPECT_EQ(cc_.cubic.k, before.cubic.k);
    EXPECT_EQ(cc_.cubic.epoch, before.cubic.epoch);
    EXPECT_TRUE(cc_.cubic.running);
    Round();
    EXPECT_GT(cc_.cwnd, before.cwnd) << "and it grows again";
  }
}

TEST_F(TcpCongestionTest, AfterSeveralTimeoutsTheFirstStateIsRestored) {
  GrowTo(160);
  for (int i = 0; i < 4; ++i) cc_.OnRto(now_);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 160u);
  EXPECT_EQ(cc_.ssthresh(), UINT32_MAX);
}

//= RFC 9438 4.9.2
TEST_F(TcpCongestionTest, AnUndoDoesNotMakeAWindowSmallerAndCountsOnce) {
  Avoid(100);
  const uint32_t before = cc_.window();
  Lose();
  while (cc_.window() <= before + 5) Round();
  const uint32_t grown = cc_.window();
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), grown);
  Lose();
  const uint32_t reduced = cc_.window();
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), grown);
  EXPECT_LT(reduced, grown);
  cc_.SetWindow(7);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 7u);
}

TEST_F(TcpCongestionTest, AnUndoneTimeoutOfARepairLeavesTheRepairsReduction) {
  GrowTo(160);
  cc_.OnLoss(now_);
  cc_.SetWindow(40);
  cc_.OnRto(now_);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 112u);
  EXPECT_EQ(cc_.ssthresh(), 112u);
}

//= RFC 3168 6.1.2
TEST_F(TcpCongestionTest, AMarkCountsAsALossOncePerRoundTrip) {
  GrowTo(160);
  AckMarked(1);
  EXPECT_EQ(cc_.window(), 112u);
  now_ = now_ + round_trip_ - Us(1);
  AckMarked(1);
  EXPECT_EQ(cc_.window(), 112u);
  now_ = now_ + Us(1);
  AckMarked(1);
  EXPECT_EQ(cc_.window(), 78u);
}

TEST_F(TcpCongestionTest, AfterAMarkAnEarlierLossIsNotUndone) {
  GrowTo(160);
  Lose();
  AckMarked(1);
  EXPECT_EQ(cc_.window(), 78u);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 78u);
}

//= RFC 3168 6.1.2
TEST_F(TcpCongestionTest, ALossAndAMarkInOneWindowCountOnce) {
  GrowTo(160);
  AckMarked(1);
  cc_.OnLoss(now_ + Ms(5));
  cc_.OnRecovered(now_ + Ms(30), 1);
  EXPECT_EQ(cc_.window(), 112u);
  now_ = now_ + Ms(40);
  cc_.OnLoss(now_);
  EXPECT_EQ(cc_.ssthresh(), 78u);
  AckMarked(1);
  now_ = now_ + Ms(40);
  AckMarked(1);
  EXPECT_EQ(cc_.ssthresh(), 78u);
}

//= RFC 9438 4.6
TEST_F(TcpCongestionTest, MarksAloneMayReduceTheWindowToOnePacket) {
  for (int i = 0; i < 30; ++i) {
    now_ = now_ + Ms(100);
    cc_.OnCnp(now_);
  }
  EXPECT_EQ(cc_.window(), 1u);
  EXPECT_EQ(cc_.ssthresh(), 2u);
}

//= RFC 8257 3.3
TEST_F(TcpCongestionTest, DctcpReducesByHalfOfAlphaOncePerRoundTrip) {
  Start(TcpAlgorithm::kDctcp);
  GrowTo(1000);
  const double alpha = static_cast<double>(cc_.dctcp.alpha) / Dctcp::kAll;
  ASSERT_LT(alpha, 0.7);
  const double before = cc_.window();
  AckMarked(1);
  EXPECT_NEAR(cc_.window(), before * (1 - alpha / 2), 1.1);
  const uint32_t once = cc_.window();
  AckMarked(1);
  EXPECT_EQ(cc_.window(), once);
  for (int i = 0; i < 200; ++i) {
    now_ = now_ + Ms(100);
    AckMarked(1);
  }
  EXPECT_EQ(cc_.window(), 2u);
}

//= RFC 8257 3.4, 3.5
TEST_F(TcpCongestionTest, DctcpLosesAndGrowsLikeReno) {
  Start(TcpAlgorithm::kDctcp);
  GrowTo(160);
  AckMarked(1);
  now_ = now_ + Ms(1);
  const uint32_t before = cc_.window();
  Lose();
  EXPECT_EQ(cc_.window(), before / 2);
  for (int i = 0; i < 20; ++i) Round();
  EXPECT_NEAR(cc_.window(), before / 2 + 20, 1);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.window(), 1u);
}

//= RFC 7661 4.4
//= RFC 9438 5.8
TEST_F(TcpCongestionTest, AWindowThatIsNotFullDoesNotGrow) {
  for (int i = 0; i < 10; ++i) LimitedRound(5);
  EXPECT_EQ(cc_.window(), 10u);
  Avoid(1000);
  Round();
  const FixedPackets before = cc_.cwnd;
  for (int i = 0; i < 1000; ++i) LimitedRound(600);
  EXPECT_EQ(cc_.cwnd, before);
  Round();
  EXPECT_LT(cc_.cwnd, before + before / 20) << "twenty seconds did not count";
}

//= RFC 5681 3.2
TEST_F(TcpCongestionTest, DuplicateAcknowledgementsDoNotGrowTheWindow) {
  const uint32_t before = cc_.window();
  AckSample sample = Sample(1);
  sample.duplicate = true;
  cc_.OnAck(sample);
  EXPECT_EQ(cc_.window(), before);
  sample.duplicate = false;
  cc_.OnAck(sample);
  EXPECT_EQ(cc_.window(), before + 1);
}

//= RFC 9438 5.8
TEST_F(TcpCongestionTest, AnIdleTimeDoesNotCount) {
  Avoid(1000);
  Round();
  TcpCongestion other = cc_;
  const Time busy = now_;
  Round();
  const FixedPackets without = cc_.cwnd;
  cc_ = other;
  now_ = busy + Duration::Seconds(100);
  cc_.OnRestart(now_);
  Round();
  EXPECT_EQ(cc_.cwnd, without);
}

//= RFC 7661 4.4.1
TEST_F(TcpCongestionTest, ALossAfterIdleTimeCountsWhatWasUsed) {
  Avoid(1000);
  now_ = now_ + Duration::Seconds(10);
  cc_.OnRestart(now_);
  LimitedRound(40);
  cc_.OnLoss(now_, 60);
  EXPECT_EQ(cc_.window(), 30u);
  EXPECT_EQ(cc_.cubic.w_max >> 32, 51u) << "and fast convergence";
  cc_.OnRecovered(now_, 20);
  EXPECT_EQ(cc_.window(), 20u) << "(60 - 20) / 2";
  EXPECT_EQ(cc_.ssthresh(), 30u);
}

//= RFC 7661 4.4.1
TEST_F(TcpCongestionTest,
       ALossWithFewPacketsUnderWayCountsWhatWasAcknowledged) {
  Avoid(1000);
  LimitedRound(40);
  LimitedRound(30);
  cc_.OnLoss(now_, 3);
  EXPECT_EQ(cc_.window(), 20u);
  cc_.OnRecovered(now_, 1000);
  EXPECT_EQ(cc_.window(), 2u);
}

TEST_F(TcpCongestionTest, AMarkInAnUnusedWindowCountsWhatWasUsed) {
  Avoid(1000);
  LimitedRound(40);
  now_ = now_ + Ms(100);
  AckSample sample = Sample(1);
  sample.marked = sample.app_limited = true;
  cc_.OnAck(sample);
  EXPECT_EQ(cc_.window(), 28u);
}

//= RFC 7661 4.4.3
TEST_F(TcpCongestionTest,
       AWindowIsKeptForFiveMinutesAndThenHalvedDownToTheFirst) {
  Avoid(1000);
  Round();
  cc_.cwnd = FromPackets(cc_.window());
  cc_.threshold = FromPackets(20);
  const uint32_t full = cc_.window();
  now_ = now_ + Duration::Seconds(290);
  cc_.OnRestart(now_);
  EXPECT_EQ(cc_.window(), full);
  now_ = now_ + Duration::Seconds(20);
  cc_.OnRestart(now_);
  EXPECT_EQ(cc_.window(), full / 2);
  EXPECT_EQ(cc_.ssthresh(), FromPackets(full) / 4 * 3 >> 32);
  now_ = now_ + Duration::Seconds(600);
  cc_.OnRestart(now_);
  EXPECT_EQ(cc_.window(), full / 8);
  now_ = now_ + Duration::Seconds(1000000);
  cc_.OnRestart(now_);
  EXPECT_EQ(cc_.window(), 10u);
}

TEST_F(TcpCongestionTest,
       ItPacesAtTwiceTheWindowInSlowStartAndThenByAFifthMore) {
  const auto nanoseconds = [&](uint64_t bytes) {
    return static_cast<double>(bytes * cc_.pacer.cost >> Pacer::kFraction);
  };
  EXPECT_FALSE(cc_.pacer.active()) << "no round trip is known";
  GrowTo(160);
  EXPECT_NEAR(nanoseconds(320 * kMss), 20e6, 1e5);
  Lose();
  Round();
  EXPECT_NEAR(nanoseconds(cc_.window() * kMss * 6 / 5), 20e6, 5e5);
}

TEST_F(TcpCongestionTest, ItDoesNotPaceRoundTripsBelowFiftyMicroseconds) {
  round_trip_ = Us(49);
  Ack(1);
  EXPECT_FALSE(cc_.pacer.active());
  Start(TcpAlgorithm::kCubic);
  round_trip_ = Us(50);
  Ack(1);
  EXPECT_TRUE(cc_.pacer.active());
}

TEST_F(TcpCongestionTest, LargerPacketsDoNotMakeTheWindowLargerInBytes) {
  GrowTo(160);
  cc_.SetMss(kMss * 2);
  EXPECT_EQ(cc_.window(), 80u);
  cc_.SetMss(kMss);
  EXPECT_EQ(cc_.window(), 80u);
}

TEST_F(TcpCongestionTest, ASuspendedPeerDoesNotMakeThePacerWaitForever) {
  round_trip_ = Duration::Seconds(1000000);
  Ack(1);
  EXPECT_EQ(cc_.round_trip, TcpCongestion::kRoundTripMax);
}

}  // namespace
}  // namespace urnic::cc
