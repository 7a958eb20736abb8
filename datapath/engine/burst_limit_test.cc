#include "datapath/engine/burst_limit.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace urnic {
namespace {

constexpr uint32_t kLarge = 4170;
constexpr uint32_t kSmall = 82;

class BurstLimitTest : public ::testing::Test {
 protected:
  void Learn(int bursts, uint32_t first, uint32_t last) {
    for (int i = 0; i < bursts; ++i) limit_.Learn(first, last);
  }

  BurstLimit limit_;
};

TEST_F(BurstLimitTest, FramesOfOneKindComeInWholeBursts) {
  EXPECT_EQ(limit_.frames(), kBurstMax);
  Learn(1000, kSmall, kSmall);
  EXPECT_EQ(limit_.frames(), kBurstMax);
  Learn(1000, kLarge, kLarge);
  EXPECT_EQ(limit_.frames(), kBurstMax);
}

TEST_F(BurstLimitTest, ASmallFrameBesideLargeOnesMakesBurstsShort) {
  Learn(1, kLarge, kSmall);
  EXPECT_LT(limit_.frames(), kBurstMax);
}

TEST_F(BurstLimitTest, ItDoesNotMatterWhichComesFirst) {
  Learn(1, kSmall, kLarge);
  EXPECT_LT(limit_.frames(), kBurstMax);
}

TEST_F(BurstLimitTest, BurstsOfOneKindBetweenThoseOfTheOtherAreAMixture) {
  Learn(1, kLarge, kLarge);
  Learn(1, kSmall, kSmall);
  EXPECT_LT(limit_.frames(), kBurstMax);
  Learn(100, kLarge, kLarge);
  EXPECT_LT(limit_.frames(), kBurstMax);
}

TEST_F(BurstLimitTest, TheMixtureIsForgottenWhenOneKindStops) {
  for (const uint32_t rest : {kLarge, kSmall}) {
    Learn(1, kLarge, kSmall);
    Learn(300, rest, rest);
    EXPECT_EQ(limit_.frames(), kBurstMax) << rest;
  }
}

TEST_F(BurstLimitTest, FramesOfAMiddleLengthAreNeither) {
  Learn(10, 1500, 1500);
  Learn(10, kLarge, 1500);
  EXPECT_EQ(limit_.frames(), kBurstMax);
}

}  // namespace
}  // namespace urnic
