#include "transport/cc/halving_window.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr Duration kRoundTrip = Duration::Microseconds(20);

class HalvingWindowTest : public ::testing::Test {
 protected:
  HalvingWindowTest() { cc_.Start(64, 0); }

  void Ack(uint32_t packets, bool marked = false) {
    AckSample sample;
    sample.now = now_;
    sample.packets = packets;
    sample.marked = marked;
    cc_.OnAck(sample);
  }
  void Measure(Duration round_trip) {
    AckSample sample;
    sample.now = now_;
    sample.round_trip = round_trip;
    cc_.OnAck(sample);
  }

  Time now_ = Time::FromNs(1000000);
  HalvingWindow cc_;
};

TEST_F(HalvingWindowTest, StartsFull) { EXPECT_EQ(cc_.window(), 64u); }

TEST_F(HalvingWindowTest, LossesAndTimeoutsHalveDownToTwoPackets) {
  cc_.OnLoss(now_);
  EXPECT_EQ(cc_.window(), 32u);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.window(), 16u);
  for (int i = 0; i < 9; ++i) cc_.OnLoss(now_);
  EXPECT_EQ(cc_.window(), 2u);
}

TEST_F(HalvingWindowTest, AWindowOfOnePacketStaysAtOne) {
  cc_.Start(1, 0);
  cc_.OnLoss(now_);
  EXPECT_EQ(cc_.window(), 1u);
  Ack(100);
  EXPECT_EQ(cc_.window(), 1u);
}

TEST_F(HalvingWindowTest, GrowsByASixteenthForEachWindowAcknowledged) {
  cc_.OnLoss(now_);
  Ack(31);
  EXPECT_EQ(cc_.window(), 32u);
  Ack(1);
  EXPECT_EQ(cc_.window(), 36u);
  for (int i = 0; i < 100; ++i) Ack(64);
  EXPECT_EQ(cc_.window(), 64u);
}

TEST_F(HalvingWindowTest, ALossResetsTheProgressToTheNextStep) {
  Ack(63);
  cc_.OnLoss(now_);
  Ack(1);
  EXPECT_EQ(cc_.window(), 32u);
}

TEST_F(HalvingWindowTest, AMistakenCutIsUndone) {
  cc_.OnLoss(now_);
  Ack(32);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 64u);
}

TEST_F(HalvingWindowTest, TheCutOfANotificationIsNeverUndone) {
  cc_.OnCnp(now_);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 32u);
}

TEST_F(HalvingWindowTest, NotificationsCountOncePerRoundTrip) {
  Measure(kRoundTrip);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + kRoundTrip - Duration::Nanoseconds(1);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + Duration::Nanoseconds(1);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 16u);
}

TEST_F(HalvingWindowTest, AFloodOfNotificationsDoesNotStopTheFlow) {
  for (int i = 0; i < 1000; ++i) {
    now_ = now_ + Duration::Milliseconds(1);
    cc_.OnCnp(now_);
  }
  EXPECT_EQ(cc_.window(), 2u);
  for (int i = 0; i < 100; ++i) Ack(64);
  EXPECT_EQ(cc_.window(), 64u);
}

TEST_F(HalvingWindowTest, AMarkCountsAsANotification) {
  Measure(kRoundTrip);
  Ack(1, /*marked=*/true);
  Ack(1, /*marked=*/true);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + kRoundTrip;
  Ack(1, /*marked=*/true);
  EXPECT_EQ(cc_.window(), 16u);
}

TEST_F(HalvingWindowTest, AfterALossNotificationsAreIgnoredForARoundTrip) {
  Measure(kRoundTrip);
  cc_.OnLoss(now_);
  cc_.OnCnp(now_ + Duration::Microseconds(1));
  EXPECT_EQ(cc_.window(), 32u);
}

}  // namespace
}  // namespace urnic::cc
