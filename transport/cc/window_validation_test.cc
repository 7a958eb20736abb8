#include "transport/cc/window_validation.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr uint32_t kMss = 1000;
constexpr uint64_t kWindow = 100 * kMss;
constexpr Duration kRoundTrip = Duration::Milliseconds(10);

class WindowValidationTest : public ::testing::Test {
 protected:
  WindowValidationTest() { validation_.Start(now_); }

  void Round(uint32_t packets) {
    now_ = now_ + kRoundTrip;
    for (uint32_t i = 1; i <= packets; ++i) {
      validation_.OnAck(kMss, i == packets, kWindow, kMss, now_, kRoundTrip);
    }
  }

  Time now_ = Time::FromNs(1000000);
  WindowValidation validation_;
};

//= RFC 7661 4.3
TEST_F(WindowValidationTest, AWindowIsConfirmedIfAHalfOfItIsUsed) {
  EXPECT_TRUE(validation_.validated) << "nothing is known";
  Round(49);
  EXPECT_FALSE(validation_.validated);
  Round(50);
  EXPECT_TRUE(validation_.validated);
}

//= RFC 7661 4.2
TEST_F(WindowValidationTest, TheMostOfTheLastSecondCounts) {
  Round(80);
  EXPECT_EQ(validation_.pipe_ack(), 80 * kMss);
  for (int i = 0; i < 49; ++i) Round(1);
  EXPECT_EQ(validation_.pipe_ack(), 80 * kMss) << "half a second later";
  for (int i = 0; i < 51; ++i) Round(1);
  EXPECT_EQ(validation_.pipe_ack(), kMss);
  EXPECT_FALSE(validation_.validated);
}

//= RFC 7661 4.2
TEST_F(WindowValidationTest, AtLongRoundTripsThreeOfThemCount) {
  const Duration slow = Duration::Seconds(2);
  validation_.OnAck(80 * kMss, true, kWindow, kMss, now_, slow);
  now_ = now_ + Duration::Milliseconds(2900);
  validation_.OnAck(kMss, true, kWindow, kMss, now_, slow);
  EXPECT_EQ(validation_.pipe_ack(), 80 * kMss);
  now_ = now_ + Duration::Seconds(6);
  validation_.OnAck(kMss, true, kWindow, kMss, now_, slow);
  EXPECT_EQ(validation_.pipe_ack(), kMss);
}

TEST_F(WindowValidationTest, AnIdleTimeForgetsTheSamples) {
  Round(80);
  now_ = now_ + Duration::Milliseconds(100);
  validation_.OnRestart(kWindow, kMss, now_, kRoundTrip);
  EXPECT_TRUE(validation_.validated) << "a short one does not";
  now_ = now_ + Duration::Seconds(2);
  validation_.OnRestart(kWindow, kMss, now_, kRoundTrip);
  EXPECT_FALSE(validation_.validated);
  EXPECT_EQ(validation_.pipe_ack(), 0u);
}

//= RFC 7661 5
TEST_F(WindowValidationTest, EachFiveMinutesWithoutConfirmationExpire) {
  Round(80);
  now_ = now_ + Duration::Seconds(2);
  validation_.OnRestart(kWindow, kMss, now_, kRoundTrip);
  EXPECT_FALSE(validation_.TakeExpired(now_));
  now_ = now_ + Duration::Seconds(298) - Duration::Nanoseconds(1);
  EXPECT_FALSE(validation_.TakeExpired(now_));
  now_ = now_ + Duration::Nanoseconds(1);
  EXPECT_TRUE(validation_.TakeExpired(now_));
  EXPECT_FALSE(validation_.TakeExpired(now_));
  now_ = now_ + Duration::Seconds(600);
  EXPECT_TRUE(validation_.TakeExpired(now_));
  EXPECT_TRUE(validation_.TakeExpired(now_));
  EXPECT_FALSE(validation_.TakeExpired(now_));
}

//= RFC 7661 4.4.1
TEST_F(WindowValidationTest, AfterARepairNothingIsKnown) {
  Round(10);
  EXPECT_FALSE(validation_.validated);
  validation_.OnRecovered(now_);
  EXPECT_TRUE(validation_.validated);
  EXPECT_EQ(validation_.pipe_ack(), 0u);
}

}  // namespace
}  // namespace urnic::cc
