#include "transport/cc/hystart.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr Duration Ms(int64_t n) { return Duration::Milliseconds(n); }
constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }

class HyStartTest : public ::testing::Test {
 protected:
  // A round in which each packet took so long. True: slow start ended.
  bool Round(Duration round_trip, int samples = 10) {
    bool ended = false;
    for (int i = 1; i <= samples; ++i) {
      ended |= hystart_.OnAck(round_trip, i == samples);
    }
    return ended;
  }

  HyStart hystart_;
};

TEST_F(HyStartTest, ASteadyRoundTripIsNoReasonToStop) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(Round(Ms(20)));
    EXPECT_EQ(hystart_.divisor(), 1u);
  }
}

//= RFC 9406 4.2
TEST_F(HyStartTest, AnEighthMoreBeginsConservativeRounds) {
  // An eighth of 80 ms is between the limits.
  Round(Ms(80));
  Round(Ms(90) - Us(1));
  EXPECT_FALSE(hystart_.conservative);
  hystart_ = HyStart();
  Round(Ms(80));
  Round(Ms(90));
  EXPECT_TRUE(hystart_.conservative);
  EXPECT_EQ(hystart_.divisor(), 4u);
}

//= RFC 9406 4.3
TEST_F(HyStartTest, TheRiseIsAtLeast4MsAndAtMost16Ms) {
  Round(Us(100));
  Round(Us(4099));
  EXPECT_FALSE(hystart_.conservative);
  Round(Us(4099) + Ms(4));
  EXPECT_TRUE(hystart_.conservative);
  hystart_ = HyStart();
  Round(Ms(400));
  Round(Ms(416) - Us(1));
  EXPECT_FALSE(hystart_.conservative);
  Round(Ms(432));
  EXPECT_TRUE(hystart_.conservative);
}

//= RFC 9406 4.2
TEST_F(HyStartTest, FewerThanEightSamplesDecideNothing) {
  Round(Ms(20));
  Round(Ms(100), 7);
  EXPECT_FALSE(hystart_.conservative);
  Round(Ms(200), 8);
  EXPECT_TRUE(hystart_.conservative);
}

TEST_F(HyStartTest, TheShortestOfARoundCounts) {
  Round(Ms(20));
  hystart_.OnAck(Ms(21), false);
  Round(Ms(100));
  EXPECT_FALSE(hystart_.conservative);
}

TEST_F(HyStartTest, AcknowledgementsThatMeasureNothingDoNotCount) {
  Round(Ms(20));
  for (int i = 0; i < 5; ++i) hystart_.OnAck(Ms(100), false);
  for (int i = 0; i < 10; ++i) hystart_.OnAck(Duration(), false);
  EXPECT_FALSE(hystart_.conservative);
  Round(Duration());
  Round(Ms(110));
  EXPECT_FALSE(hystart_.conservative) << "compared with the five samples";
}

TEST_F(HyStartTest, ARoundWithoutMeasurementsIsNotComparedWith) {
  Round(Ms(20));
  Round(Duration());
  Round(Ms(100));
  EXPECT_FALSE(hystart_.conservative);
}

//= RFC 9406 4.2
TEST_F(HyStartTest, FiveConservativeRoundsEndSlowStart) {
  Round(Ms(20));
  EXPECT_FALSE(Round(Ms(30))) << "the round in which they begin is the first";
  for (int i = 2; i <= 4; ++i) EXPECT_FALSE(Round(Ms(30)));
  EXPECT_TRUE(Round(Ms(30)));
}

//= RFC 9406 4.2
TEST_F(HyStartTest, AShorterRoundTripThanTheBaselineResumesSlowStart) {
  Round(Ms(20));
  Round(Ms(30));
  Round(Ms(30));
  EXPECT_TRUE(hystart_.conservative);
  Round(Ms(30) - Us(1), 7);
  EXPECT_TRUE(hystart_.conservative) << "too few samples";
  Round(Ms(30) - Us(1));
  EXPECT_FALSE(hystart_.conservative);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Round(Ms(30)));
  // And it may begin again, with five rounds.
  Round(Ms(40));
  EXPECT_TRUE(hystart_.conservative);
  for (int i = 2; i <= 4; ++i) EXPECT_FALSE(Round(Ms(40)));
  EXPECT_TRUE(Round(Ms(40)));
}

}  // namespace
}  // namespace urnic::cc
