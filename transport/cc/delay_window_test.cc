#include "transport/cc/delay_window.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace urnic::cc {
namespace {

constexpr Duration kBase = Duration::Microseconds(20);

class DelayWindowTest : public ::testing::Test {
 protected:
  DelayWindowTest() { cc_.Start(64, 2000, 0); }

  void Ack(uint32_t packets, Duration round_trip = {}, bool limited = false) {
    AckSample sample;
    sample.now = now_;
    sample.packets = packets;
    sample.round_trip = round_trip;
    sample.app_limited = limited;
    cc_.OnAck(sample);
  }
  // One round: the window is acknowledged, after `round_trip`.
  void Round(Duration round_trip) {
    now_ = now_ + round_trip;
    Ack(cc_.window(), round_trip);
  }
  void Rounds(int count, Duration round_trip) {
    for (int i = 0; i < count; ++i) Round(round_trip);
  }

  Time now_ = Time::FromNs(1000000);
  DelayWindow cc_;
};

TEST_F(DelayWindowTest, DoublesAtFirstUpToWhatAShortPathNeeds) {
  EXPECT_EQ(cc_.window(), 16u);
  Round(kBase);
  EXPECT_EQ(cc_.window(), 32u);
  Rounds(5, kBase);
  EXPECT_EQ(cc_.window(), 64u);
}

TEST_F(DelayWindowTest, ALongPathNeedsMore) {
  Rounds(8, Duration::Milliseconds(1));
  EXPECT_EQ(cc_.window(), 64u * 20);
  cc_.Start(64, 2000, 0);
  Rounds(9, Duration::Milliseconds(2));
  EXPECT_EQ(cc_.window(), 2000u);
}

TEST_F(DelayWindowTest, OneLongRoundTripMeansNothing) {
  Rounds(4, kBase);
  Round(Duration::Milliseconds(5));
  EXPECT_EQ(cc_.window(), 64u);
  Round(kBase);
  Round(Duration::Milliseconds(5));
  EXPECT_EQ(cc_.window(), 64u);
}

TEST_F(DelayWindowTest, AQueueMakesItSmaller) {
  Rounds(4, kBase);
  Rounds(3, Duration::Microseconds(240));  // twice the target
  EXPECT_EQ(cc_.window(), 40u);            // less by 0.8 of a half, rounded
  EXPECT_FALSE(cc_.starting);
}

TEST_F(DelayWindowTest, GrowsAgainSlowlyNearTheTarget) {
  Rounds(4, kBase);
  Rounds(3, Duration::Microseconds(240));
  Round(Duration::Microseconds(110));
  EXPECT_EQ(cc_.window(), 41u);
  Round(Duration::Microseconds(30));
  EXPECT_EQ(cc_.window(), 45u);
}

// Flows at one bottleneck: the window that each has is what it gets, so the
// queue is what all of them exceed the pipe by.
TEST_F(DelayWindowTest, FlowsShareABottleneckFairly) {
  constexpr int kFlows = 4;
  constexpr int64_t kPerPacketNs = 3300;  // 10 Gb/s
  DelayWindow flows[kFlows];
  for (int i = 0; i < kFlows; ++i) flows[i].Start(64, 2000, 0);
  Time now = now_;
  uint64_t delivered[kFlows] = {};
  int64_t longest = 0;
  for (int round = 0; round < 20000; ++round) {
    uint64_t all = 0;
    for (const DelayWindow& flow : flows) all += flow.window();
    const int64_t ns =
        std::max(kBase.ns(), static_cast<int64_t>(all) * kPerPacketNs);
    now = now + Duration::Nanoseconds(ns);
    for (int i = 0; i < kFlows; ++i) {
      AckSample sample;
      sample.now = now;
      sample.packets = flows[i].window();
      sample.round_trip = Duration::Nanoseconds(ns);
      if (round >= 10000) delivered[i] += sample.packets;
      flows[i].OnAck(sample);
    }
    if (round >= 10000) longest = std::max(longest, ns);
  }
  double sum = 0;
  double squares = 0;
  for (const uint64_t packets : delivered) {
    sum += static_cast<double>(packets);
    squares += static_cast<double>(packets) * static_cast<double>(packets);
  }
  EXPECT_GT(sum * sum / (kFlows * squares), 0.9);  // Jain's index
  EXPECT_LT(longest, 3 * 120'000);
}

TEST_F(DelayWindowTest, FewLossesWithoutAQueueAreNotCongestion) {
  Rounds(4, kBase);
  cc_.OnLoss(now_, 8);
  EXPECT_EQ(cc_.window(), 64u);
  cc_.OnLoss(now_, 9);
  EXPECT_EQ(cc_.window(), 32u);
}

TEST_F(DelayWindowTest, ALossBehindAQueueHalves) {
  Rounds(4, kBase);
  Rounds(3, Duration::Microseconds(240));
  EXPECT_EQ(cc_.window(), 40u);
  cc_.OnLoss(now_, 1);
  EXPECT_EQ(cc_.window(), 20u);
}

TEST_F(DelayWindowTest, RewindsAndTimeoutsHalveDownToTwoPackets) {
  Rounds(4, kBase);
  cc_.OnLoss(now_);
  EXPECT_EQ(cc_.window(), 32u);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.window(), 16u);
  for (int i = 0; i < 9; ++i) cc_.OnLoss(now_);
  EXPECT_EQ(cc_.window(), 2u);
}

TEST_F(DelayWindowTest, AWindowOfOnePacketStaysAtOne) {
  cc_.Start(1, 1, 0);
  cc_.OnLoss(now_);
  EXPECT_EQ(cc_.window(), 1u);
  Rounds(4, kBase);
  EXPECT_EQ(cc_.window(), 1u);
}

TEST_F(DelayWindowTest, AMistakenCutIsUndone) {
  Rounds(4, kBase);
  cc_.OnLoss(now_);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 64u);
}

// Beside flows that fill the buffer, slowing down changes nothing.
TEST_F(DelayWindowTest, CompetesIfTheQueueBelongsToOthers) {
  Rounds(4, kBase);
  Rounds(12, Duration::Milliseconds(2));
  const uint32_t before = cc_.window();
  EXPECT_GE(before, 2u);
  Rounds(20, Duration::Milliseconds(2));
  EXPECT_EQ(cc_.window(), std::min(64u, before + 20));
  cc_.OnLoss(now_, 1);
  EXPECT_EQ(cc_.window(), (before + 20) / 2);
  // Until the queue is gone.
  Rounds(2, kBase);
  cc_.OnLoss(now_, 1);
  EXPECT_GE(cc_.window(), (before + 20) / 2);
}

TEST_F(DelayWindowTest, AnUnusedWindowDoesNotGrowBeyondTheQuietOne) {
  for (int i = 0; i < 20; ++i) {
    now_ = now_ + Duration::Milliseconds(2);
    Ack(cc_.window(), Duration::Milliseconds(2), /*limited=*/true);
  }
  EXPECT_EQ(cc_.window(), 64u);
}

TEST_F(DelayWindowTest, ThePathMayBecomeLonger) {
  Rounds(4, kBase);
  now_ = now_ + DelayWindow::kRemember;
  Ack(1, Duration::Milliseconds(1));
  EXPECT_EQ(cc_.window(), 4u);
  Ack(1, Duration::Milliseconds(1));
  EXPECT_EQ(cc_.window(), 4u);
  Ack(1, Duration::Milliseconds(1));
  EXPECT_EQ(cc_.limit, 64u * 20);
  EXPECT_GE(cc_.window(), 64u);
}

TEST_F(DelayWindowTest, NotificationsCountOncePerRoundTrip) {
  Rounds(4, kBase);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + Duration::Microseconds(10);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + Duration::Microseconds(10);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 16u);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 16u);
  for (int i = 0; i < 100; ++i) {
    now_ = now_ + Duration::Microseconds(20);
    cc_.OnCnp(now_);
  }
  EXPECT_EQ(cc_.window(), 2u);
}

}  // namespace
}  // namespace urnic::cc
