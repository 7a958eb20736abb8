#include "transport/cc/round_trip_estimate.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }

TEST(RoundTripEstimateTest, AssumesAMillisecondAtFirst) {
  RoundTripEstimate estimate;
  EXPECT_FALSE(estimate.known());
  EXPECT_EQ(estimate.smoothed(), Duration::Milliseconds(1));
  EXPECT_EQ(estimate.longest(), Duration::Milliseconds(1));
}

//= RFC 6298 2.2
//= RFC 6298 2.3
TEST(RoundTripEstimateTest, FollowsTheSamples) {
  RoundTripEstimate estimate;
  estimate.OnSample(Us(80));
  EXPECT_EQ(estimate.smoothed(), Us(80));
  EXPECT_EQ(estimate.longest(), Us(80 + 4 * 40));
  estimate.OnSample(Us(160));
  EXPECT_EQ(estimate.smoothed(), Us(90));
  EXPECT_EQ(estimate.longest(), Us(90 + 4 * 50));
  for (int i = 0; i < 100; ++i) estimate.OnSample(Us(20));
  EXPECT_LT(estimate.longest(), Us(21));
}

TEST(RoundTripEstimateTest, ExtremesAreKept) {
  RoundTripEstimate estimate;
  estimate.OnSample(Duration());
  EXPECT_TRUE(estimate.known());
  estimate.OnSample(Duration::Seconds(1000));
  EXPECT_LE(estimate.smoothed(), RoundTripEstimate::kMax);
  EXPECT_GT(estimate.longest(), Duration());
}

}  // namespace
}  // namespace urnic::cc
