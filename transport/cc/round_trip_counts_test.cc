#include "transport/cc/round_trip_counts.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

TEST(RoundTripCountsTest, APlaceIsAPowerOfTwo) {
  RoundTripCounts counts;
  counts.Add(Duration::Nanoseconds(0));
  counts.Add(Duration::Nanoseconds(999));
  counts.Add(Duration::Microseconds(1));
  counts.Add(Duration::Microseconds(2));
  counts.Add(Duration::Microseconds(3));
  counts.Add(Duration::Microseconds(4));
  EXPECT_EQ(counts.counts[0], 2u);
  EXPECT_EQ(counts.counts[1], 1u);
  EXPECT_EQ(counts.counts[2], 2u);
  EXPECT_EQ(counts.counts[3], 1u);
}

TEST(RoundTripCountsTest, TheLastPlaceTakesAllThatIsLonger) {
  RoundTripCounts counts;
  counts.Add(Duration::Microseconds(1 << 19));
  counts.Add(Duration::Seconds(1000));
  EXPECT_EQ(counts.counts[RoundTripCounts::kPlaces - 1], 2u);
  counts.Add(Duration::Microseconds((1 << 19) - 1));
  EXPECT_EQ(counts.counts[RoundTripCounts::kPlaces - 2], 1u);
}

}  // namespace
}  // namespace urnic::cc
