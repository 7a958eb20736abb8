#include "transport/cc/cubic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "transport/base/random.h"

namespace urnic::cc {
namespace {

constexpr double kC = 0.4;
constexpr double kBeta = 0.7;
constexpr Time kBegin = Time::FromNs(1'000'000'000);

constexpr Duration Ms(int64_t n) { return Duration::Milliseconds(n); }
double Packets(FixedPackets n) { return static_cast<double>(n) / kOnePacket; }
FixedPackets Fixed(double n) {
  return static_cast<FixedPackets>(n * kOnePacket);
}
uint64_t ShareOf(double acked, FixedPackets window) {
  return std::min(kOnePacket, Fixed(acked / Packets(window)));
}
double Seconds(Duration d) { return static_cast<double>(d.ns()) / 1e9; }

// The formulas of the standard, in seconds, packets and floating point.
struct Reference {
  double cwnd = 0, w_max = 0, prior = 0, w_est = 0, k = 0;
  Time epoch;
  bool running = false;

  double At(double t) const { return kC * std::pow(t - k, 3) + w_max; }

  void Reduce() {
    w_max = cwnd < w_max ? cwnd * (1 + kBeta) / 2 : cwnd;
    prior = cwnd;
    cwnd *= kBeta;
    running = false;
  }
  void Ack(double acked, Time now, Duration round_trip) {
    if (!running) {
      running = true;
      epoch = now;
      w_est = cwnd;
      w_max = std::max(w_max, cwnd);
      k = std::cbrt((w_max - cwnd) / kC);
    }
    const double share = std::min(1.0, acked / cwnd);
    const double alpha = w_est >= prior ? 1 : 3 * (1 - kBeta) / (1 + kBeta);
    w_est += alpha * share;
    const double t = Seconds(now - epoch);
    if (At(t) < w_est) {
      cwnd = std::max(cwnd, w_est);
      return;
    }
    const double target =
        std::min(std::max(At(t + Seconds(round_trip)), cwnd), 1.5 * cwnd);
    cwnd += (target - cwnd) * share;
  }
};

class CubicTest : public ::testing::Test {
 protected:
  // As after a loss with a window of `packets`.
  void Lose(double packets) {
    window_ = Fixed(packets);
    cubic_.OnReduction(window_, window_);
    window_ = Cubic::AfterLoss(window_);
  }
  // A round trip in which all packets of the window are acknowledged.
  void Round(Duration round_trip) {
    const auto packets = static_cast<int64_t>(window_ / kOnePacket);
    for (int64_t i = 0; i < packets; ++i) {
      now_ = now_ + Duration::Nanoseconds(round_trip.ns() / packets);
      cubic_.Advance(now_, false);
      window_ = cubic_.Grow(window_, ShareOf(1, window_), now_, round_trip);
    }
  }

  Time now_ = kBegin;
  FixedPackets window_ = 0;
  Cubic cubic_;
};

//= RFC 9438 4.2, 4.4, 4.5, 4.6
TEST_F(CubicTest, TheWindowFollowsTheCubicFunctionWithinAPacket) {
  for (const double w_max : {100.0, 1000.0, 20000.0}) {
    cubic_ = Cubic();
    now_ = kBegin;
    Lose(w_max);
    EXPECT_NEAR(Packets(window_), 0.7 * w_max, 1e-6);
    const double k = std::cbrt(w_max * (1 - kBeta) / kC);
    const Duration round_trip = Ms(200);
    while (Seconds(now_ - kBegin) < 2 * k) {
      Round(round_trip);
      const double t = Seconds(now_ - kBegin);
      const double curve = kC * std::pow(t - k, 3) + w_max;
      // Once per round trip on the curve. Within it, the curve bends.
      const double bend =
          3 * kC * std::abs(t - k) * std::pow(Seconds(round_trip), 2);
      ASSERT_NEAR(Packets(window_), curve, 1 + bend) << w_max << " at " << t;
    }
  }
}

TEST_F(CubicTest, TheCurveAndItsKAreThoseOfTheFormula) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    cubic_ = Cubic();
    const double w_max = 4.0 + static_cast<double>(random.Below(1u << 23));
    Lose(w_max);
    const double epoch = Packets(window_);
    window_ = cubic_.Grow(window_, 1, kBegin, Ms(1));
    const double k = std::cbrt((w_max - epoch) / kC);
    ASSERT_NEAR(Seconds(cubic_.k), k, 4e-6);
    for (const double part : {0.0, 0.3, 0.9, 1.0, 1.1, 1.9}) {
      const double t = k * part;
      const auto ns = static_cast<int64_t>(t * 1e9);
      const double expected = kC * std::pow(t - k, 3) + w_max;
      const double slope = 3 * kC * std::pow(t - k, 2);
      ASSERT_NEAR(Packets(cubic_.At(Duration::Nanoseconds(ns))), expected,
                  1e-3 + slope * 4e-6);
    }
  }
}

TEST_F(CubicTest, FarBeyondKTheCurveIsAboveEveryWindow) {
  Lose(100);
  window_ = cubic_.Grow(window_, 1, now_, Ms(1));
  EXPECT_GE(cubic_.At(Duration::Seconds(1'000'000'000)),
            FromPackets(kWindowMax));
  EXPECT_EQ(cubic_.At(Duration::Seconds(-1'000'000'000)), 0u);
}

//= RFC 9438 4.2, 4.3, 4.4, 4.5, 4.7
TEST_F(CubicTest, RandomFlowsGrowAsTheReference) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    Reference reference;
    cubic_ = Cubic();
    now_ = kBegin;
    const auto round_trip =
        Duration::Microseconds(static_cast<int64_t>(50 + random.Below(80000)));
    reference.cwnd = static_cast<double>(10 + random.Below(2000));
    window_ = Fixed(reference.cwnd);
    for (int i = 0; i < 20000; ++i) {
      if (i == 0 || random.OneIn(2000)) {
        cubic_.OnReduction(window_, window_);
        window_ = std::max(Cubic::AfterLoss(window_), 2 * kOnePacket);
        reference.Reduce();
        reference.cwnd = std::max(reference.cwnd, 2.0);
      }
      const uint32_t acked = 1 + static_cast<uint32_t>(random.Below(4));
      now_ =
          now_ +
          Duration::Nanoseconds(static_cast<int64_t>(
              static_cast<double>(round_trip.ns()) * acked / reference.cwnd));
      cubic_.Advance(now_, false);
      window_ = cubic_.Grow(window_, ShareOf(acked, window_), now_, round_trip);
      reference.Ack(acked, now_, round_trip);
      ASSERT_NEAR(Packets(window_), reference.cwnd, 0.1 + 1e-4 * reference.cwnd)
          << "seed " << seed << " step " << i;
    }
  }
}

//= RFC 9438 4.3
TEST_F(CubicTest, AtShortRoundTripsItGrowsByNineSeventeenthsThenByOne) {
  Lose(100);
  const double start = Packets(window_);
  for (int i = 0; i < 20; ++i) Round(Ms(1));
  EXPECT_NEAR(Packets(window_), start + 20 * 9.0 / 17, 0.5);
  while (Packets(window_) < 100) Round(Ms(1));
  const double before = Packets(window_);
  for (int i = 0; i < 20; ++i) Round(Ms(1));
  EXPECT_NEAR(Packets(window_), before + 20, 0.5);
}

//= RFC 9438 4.2
TEST_F(CubicTest, ARoundTripAddsAtMostAHalf) {
  Lose(10);
  window_ = cubic_.Grow(window_, 1, now_, Ms(100));
  now_ = now_ + Duration::Seconds(60);  // the curve is far above by now
  for (int i = 0; i < 10; ++i) {
    const FixedPackets before = window_;
    Round(Ms(100));
    EXPECT_GT(Packets(window_), 1.3 * Packets(before));
    EXPECT_LE(window_, before + before / 2);
  }
  const FixedPackets before = window_;
  window_ = cubic_.Grow(window_, kOnePacket, now_, Ms(100));
  EXPECT_LE(window_, before + before / 2) << "one acknowledgement of all";
}

//= RFC 9438 4.7
TEST_F(CubicTest, AFlowThatDidNotGetBackToItsOldWindowLeavesRoom) {
  Lose(100);
  EXPECT_EQ(cubic_.w_max, Fixed(100));
  Lose(80);
  EXPECT_NEAR(Packets(cubic_.w_max), 68, 1e-6);
  Lose(90);
  EXPECT_EQ(cubic_.w_max, Fixed(90));
}

//= RFC 9438 4.8, 4.10
TEST_F(CubicTest, AFlatStartHasItsPlateauAtTheWindow) {
  Lose(1000);
  cubic_.StartFlat();
  window_ = cubic_.Grow(window_, 1, now_, Ms(1));
  EXPECT_EQ(cubic_.k, Duration());
  EXPECT_EQ(cubic_.w_max, Fixed(700));
}

//= RFC 9438 5.8
TEST_F(CubicTest, TimeInWhichTheWindowIsNotUsedDoesNotCount) {
  Lose(1000);
  Round(Ms(100));
  Cubic paused = cubic_;
  const Duration gap = Duration::Seconds(100);
  paused.Advance(now_ + gap, true);
  for (int i = 1; i <= 10; ++i) {
    const Duration later = Ms(10) * i;
    EXPECT_EQ(paused.Grow(window_, kOnePacket / 9, now_ + gap + later, Ms(100)),
              cubic_.Grow(window_, kOnePacket / 9, now_ + later, Ms(100)));
  }
}

TEST_F(CubicTest, AWindowAboveTheOldOneStartsAtItsPlateau) {
  cubic_.OnReduction(Fixed(10), Fixed(10));
  window_ = cubic_.Grow(Fixed(20), 1, now_, Ms(1));
  EXPECT_EQ(cubic_.w_max, Fixed(20));
  EXPECT_EQ(cubic_.k, Duration());
}

}  // namespace
}  // namespace urnic::cc
