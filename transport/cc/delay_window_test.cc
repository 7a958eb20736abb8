#include "transport/cc/delay_window.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace urnic::cc {
namespace {

constexpr Duration kBase = Duration::Microseconds(20);

class DelayWindowTest : public ::testing::Test {
 protected:
  DelayWindowTest() { cc_.Start(64, 2000, 4096); }

  void Ack(uint32_t packets, Duration round_trip = {}, bool limited = false) {
    if (!limited) cc_.OnFull(now_);
    AckSample sample;
    sample.now = now_;
    sample.packets = packets;
    sample.round_trip = round_trip;
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

  // The window is full all the time.
  void BusyFor(Duration time) {
    now_ = now_ + time;
    cc_.full_at = now_;
  }

  // A flow that competes, or not, and is about to drain the queue.
  void BeginBeforeDrain(bool competes) {
    cc_.Start(64, 2000, 4096);
    Rounds(4, kBase);
    cc_.starting = false;
    cc_.competes = competes;
    BusyFor(Duration::Seconds(2));
    cc_.slowed_at = now_;
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
  cc_.Start(64, 2000, 4096);
  Rounds(9, Duration::Milliseconds(2));
  EXPECT_EQ(cc_.window(), 2000u);
}

// Otherwise what an acknowledgement lets go would be a queue of its own.
TEST_F(DelayWindowTest, ALongPathIsPaced) {
  constexpr Duration kLonger = Duration::Milliseconds(1);
  Rounds(8, Duration::Microseconds(400));
  EXPECT_FALSE(cc_.pacer.active());
  cc_.Start(64, 2000, 4096);
  Rounds(2, kLonger);
  const auto windows_sent_in = [&](Duration time) {
    const uint32_t window = cc_.window() * 4096;
    cc_.pacer.next_send = now_;
    cc_.pacer.OnSend(now_, window);
    return static_cast<double>(time.ns()) /
           static_cast<double>((cc_.pacer.next_send - now_).ns());
  };
  EXPECT_NEAR(windows_sent_in(kLonger), 2, 0.01);  // it doubles
  cc_.starting = false;
  Ack(1, kLonger);
  EXPECT_NEAR(windows_sent_in(kLonger), 1.25, 0.01);
  EXPECT_EQ(cc_.CatchUp(), Duration::Nanoseconds(31250));
}

TEST_F(DelayWindowTest, DoublingEndsAtTheFirstSignOfAQueue) {
  constexpr Duration kLonger = Duration::Milliseconds(2);
  Rounds(3, kLonger);
  ASSERT_EQ(cc_.window(), 128u);
  Rounds(3, kLonger + Duration::Microseconds(300));
  EXPECT_FALSE(cc_.starting);
  const uint32_t before = cc_.window();
  EXPECT_LE(before, 128u);
  EXPECT_GT(before, 120u);
  // Later, it is none.
  Rounds(2, kLonger + Duration::Microseconds(300));
  EXPECT_GT(cc_.window(), before);
}

TEST_F(DelayWindowTest, SaysWhichLossesItHasAnswered) {
  Rounds(4, kBase);
  EXPECT_FALSE(cc_.OnLoss(now_, 3));  // few
  EXPECT_TRUE(cc_.OnLoss(now_, 20));
  EXPECT_EQ(cc_.window(), 32u);
  EXPECT_TRUE(cc_.OnLoss(now_, 20));  // of the same round trip
  EXPECT_EQ(cc_.window(), 32u);
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
  Rounds(3, Duration::Microseconds(210));  // twice the target
  EXPECT_EQ(cc_.window(), 38u);            // less by 0.8 of a half
  EXPECT_FALSE(cc_.starting);
}

TEST_F(DelayWindowTest, GrowsAgainSlowlyNearTheTarget) {
  Rounds(4, kBase);
  Rounds(3, Duration::Microseconds(210));
  Round(Duration::Microseconds(130));
  EXPECT_EQ(cc_.window(), 39u);
  Round(Duration::Microseconds(30));
  EXPECT_EQ(cc_.window(), 41u);
}

// The queue that a flow leaves is longer if its window is small: among flows at
// one bottleneck, the small ones then grow, and the large ones shrink.
TEST_F(DelayWindowTest, ASmallWindowLeavesALongerQueue) {
  constexpr Duration kLong = Duration::Microseconds(500);
  Rounds(4, kBase);
  cc_.cwnd = DelayWindow::kPacket;
  Rounds(3, kLong);
  EXPECT_GE(cc_.window(), 2u);
  cc_.cwnd = 8 * DelayWindow::kPacket;
  Rounds(3, kLong);
  EXPECT_LT(cc_.window(), 8u);
}

// Below one packet, the window is one packet, and the pacer keeps packets
// apart.
TEST_F(DelayWindowTest, FallsBelowOnePacket) {
  constexpr Duration kLong = Duration::Milliseconds(4);
  cc_.Start(64, 2000, 1000);
  Rounds(4, kBase);
  cc_.cwnd = DelayWindow::kPacket / 2;
  cc_.competes = false;
  Rounds(3, kLong);
  EXPECT_EQ(cc_.window(), 1u);
  EXPECT_LT(cc_.cwnd, DelayWindow::kPacket / 2);
  ASSERT_TRUE(cc_.pacer.active());
  cc_.pacer.OnSend(now_, 1000);
  EXPECT_GT(cc_.pacer.next_send - now_, kLong * 2);
  EXPECT_LE(cc_.pacer.next_send - now_, kLong * 16);
  Rounds(40, kBase);
  EXPECT_FALSE(cc_.pacer.active());
  EXPECT_GT(cc_.window(), 1u);
}

// Flows at one bottleneck: the window that each has is what it gets, so the
// queue is what all of them exceed the pipe by.
TEST_F(DelayWindowTest, FlowsShareABottleneckFairly) {
  constexpr int kFlows = 4;
  constexpr int64_t kPerPacketNs = 3300;  // 10 Gb/s
  DelayWindow flows[kFlows];
  for (int i = 0; i < kFlows; ++i) flows[i].Start(64, 2000, 4096);
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
      flows[i].OnFull(now);
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
  Rounds(2, kBase);
  cc_.OnLoss(now_, 8);
  EXPECT_EQ(cc_.window(), 64u);
  // Those of several queue pairs count together.
  cc_.OnLoss(now_, 1);
  EXPECT_EQ(cc_.window(), 32u);
  // And a round trip is cut once.
  cc_.OnLoss(now_, 30);
  EXPECT_EQ(cc_.window(), 32u);
}

// An eighth of a small window is less than a packet: then it is an eighth of
// the last packets. (Ten hosts with such windows kept a buffer full.)
TEST_F(DelayWindowTest, ManyLossesOfSmallWindowsAreCongestion) {
  Rounds(4, kBase);
  cc_.cwnd = 4 * DelayWindow::kPacket;
  cc_.limit = cc_.quiet = 4 * DelayWindow::kPacket;
  for (int i = 0; i < 40; ++i) {  // one of twelve
    if (i % 3 == 0) cc_.OnLoss(now_, 1);
    Round(kBase);
    ASSERT_EQ(cc_.window(), 4u);
  }
  EXPECT_FALSE(cc_.doubted);
  for (int i = 0; i < 10 && cc_.window() == 4; ++i) {  // one of four
    cc_.OnLoss(now_, 1);
    Round(kBase);
  }
  EXPECT_LT(cc_.window(), 4u);
}

// So much is lost although round trips are short: it may be the buffer of
// others, which was full when the path was measured.
TEST_F(DelayWindowTest, ManyLossesMakeItMeasureThePathSoon) {
  constexpr Duration kLong = Duration::Milliseconds(3);
  Rounds(4, kLong);
  cc_.starting = false;
  const auto drains_within = [&](Duration time) {
    for (const Time end = now_ + time; now_ < end && !cc_.draining;) {
      Round(kLong);
    }
    return cc_.draining;
  };
  ASSERT_TRUE(drains_within(Duration::Milliseconds(540)));
  while (cc_.draining) Round(kLong);
  EXPECT_FALSE(drains_within(Duration::Milliseconds(500)));
  cc_.cwnd = 16 * DelayWindow::kPacket;
  cc_.OnLoss(now_, 8);
  EXPECT_TRUE(cc_.doubted);
  EXPECT_TRUE(drains_within(Duration::Milliseconds(36)));
  while (cc_.draining) Round(kLong);
  EXPECT_FALSE(cc_.doubted);
}

// The same over a whole round trip, by the shortest of many samples.
TEST_F(DelayWindowTest, OneShortSampleOfARoundTripIsEnough) {
  constexpr Duration kLong = Duration::Milliseconds(2);
  constexpr Duration kStep = Duration::Microseconds(250);
  Rounds(4, kBase);
  for (int i = 0; i < 100; ++i) {
    now_ = now_ + kStep;
    Ack(8, i % 8 == 0 ? kBase : kLong);
    ASSERT_EQ(cc_.window(), 64u);
  }
  for (int i = 0; i < 9; ++i) {
    now_ = now_ + kStep;
    Ack(8, kLong);
  }
  EXPECT_LT(cc_.window(), 64u);
}

TEST_F(DelayWindowTest, ALongPathIsAcknowledgedMoreOften) {
  Rounds(4, kBase);
  EXPECT_EQ(cc_.AckEvery(), 32u);
  cc_.Start(64, 2000, 4096);
  Rounds(9, Duration::Microseconds(200));
  EXPECT_EQ(cc_.window(), 256u);
  EXPECT_EQ(cc_.AckEvery(), 32u);
  cc_.cwnd = 64 * DelayWindow::kPacket;
  EXPECT_EQ(cc_.AckEvery(), 8u);
  cc_.Start(64, 2000, 4096);
  Rounds(3, Duration::Milliseconds(2));
  EXPECT_EQ(cc_.window(), 128u);
  EXPECT_EQ(cc_.AckEvery(), 4u);
}

TEST_F(DelayWindowTest, ALossBehindAQueueHalves) {
  Rounds(4, kBase);
  Rounds(3, Duration::Microseconds(210));
  EXPECT_EQ(cc_.window(), 38u);
  now_ = now_ + Duration::Milliseconds(1);
  cc_.OnLoss(now_, 1);
  EXPECT_EQ(cc_.window(), 19u);
  EXPECT_EQ(cc_.resume, 0u);
}

TEST_F(DelayWindowTest, RewindsAndTimeoutsHalveDownToTheFloor) {
  Rounds(4, kBase);
  cc_.OnLoss(now_, 64);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + Duration::Milliseconds(1);
  cc_.OnRto(now_);
  EXPECT_EQ(cc_.window(), 16u);
  for (int i = 0; i < 20; ++i) {
    now_ = now_ + Duration::Milliseconds(1);
    cc_.OnRto(now_);
  }
  EXPECT_EQ(cc_.cwnd, DelayWindow::kFloor);
}

TEST_F(DelayWindowTest, AWindowOfOnePacketStaysAtOne) {
  cc_.Start(1, 1, 4096);
  cc_.OnLoss(now_, 2);
  EXPECT_EQ(cc_.window(), 1u);
  Rounds(4, kBase);
  EXPECT_EQ(cc_.window(), 1u);
}

TEST_F(DelayWindowTest, AMistakenCutIsUndone) {
  Rounds(4, kBase);
  cc_.OnLoss(now_, 64);
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 64u);
}

// Beside flows that fill the buffer, slowing down changes nothing.
TEST_F(DelayWindowTest, CompetesIfTheQueueBelongsToOthers) {
  Rounds(4, kBase);
  now_ = now_ + Duration::Seconds(10);  // drains are rare
  cc_.drained_at = now_;
  for (int i = 0; i < 60 && !cc_.competes; ++i) {
    Round(Duration::Milliseconds(2));
    cc_.drained_at = now_;  // not now
  }
  EXPECT_TRUE(cc_.competes);
  // Half of what it had, soon; then one packet more in a round trip.
  Rounds(10, Duration::Milliseconds(2));
  const uint32_t before = cc_.window();
  EXPECT_GE(before, 32u);
  EXPECT_LE(before, 42u);
  Rounds(20, Duration::Milliseconds(2));
  EXPECT_EQ(cc_.window(), before + 20);
  cc_.OnLoss(now_, 1);
  EXPECT_EQ(cc_.window(), (before + 20) / 2);
  // Others leave the queue short now and then.
  Rounds(20, kBase);
  EXPECT_TRUE(cc_.competes);
  Round(Duration::Milliseconds(2));
  Rounds(20, kBase);
  EXPECT_TRUE(cc_.competes);
  Rounds(20, kBase);
  EXPECT_FALSE(cc_.competes);
}

// Without the flow's own part of the queue, a drain may find none.
TEST_F(DelayWindowTest, CompetesAgainSooner) {
  constexpr Duration kLong = kBase * 50;
  for (const bool before : {false, true}) {
    BeginBeforeDrain(before);
    Rounds(3, kBase);  // a drain
    ASSERT_FALSE(cc_.draining);
    EXPECT_FALSE(cc_.competes);
    EXPECT_EQ(cc_.competed, before);
    const uint32_t window = cc_.cwnd;
    int rounds = 0;
    while (!cc_.competes && ++rounds < 100) Round(kLong);
    if (before) {
      EXPECT_LT(rounds, 15);
      EXPECT_EQ(cc_.resume, window / 4 * 3);
    } else {
      EXPECT_GT(rounds, 32);
      EXPECT_LT(rounds, 100);
      EXPECT_EQ(cc_.resume, window / 2);
    }
  }
}

// Where others do not drain it, the queue is not ours.
TEST_F(DelayWindowTest, ADrainTellsWhoseTheQueueIs) {
  for (const bool emptied : {true, false}) {
    BeginBeforeDrain(/*competes=*/true);
    const Duration round_trip = emptied ? kBase : Duration::Milliseconds(1);
    Round(round_trip);
    ASSERT_TRUE(cc_.draining);
    Rounds(5, round_trip);
    EXPECT_FALSE(cc_.draining);
    EXPECT_EQ(cc_.competes, !emptied);
  }
}

TEST_F(DelayWindowTest, AnUnusedWindowDoesNotGrowBeyondTheQuietOne) {
  for (int i = 0; i < 20; ++i) {
    now_ = now_ + Duration::Milliseconds(2);
    Ack(cc_.window(), Duration::Milliseconds(2), /*limited=*/true);
  }
  EXPECT_EQ(cc_.window(), 64u);
}

// The queue is drained when a second of the wall clock begins, and the path is
// measured again: nothing is sent for a round trip, then a packet.
TEST_F(DelayWindowTest, ThePathMayBecomeLonger) {
  constexpr Duration kLonger = Duration::Milliseconds(1);
  Rounds(4, kBase);
  BusyFor(Duration::Seconds(2));
  Rounds(3, kLonger);
  ASSERT_TRUE(cc_.draining);
  EXPECT_EQ(cc_.window(), 1u);
  EXPECT_EQ(cc_.usual_window(), 32u);
  EXPECT_EQ(cc_.pacer.next_send, now_ + kLonger);
  // A packet that was sent before measures the old queue.
  now_ = now_ + Duration::Microseconds(500);
  Ack(1, kLonger);
  EXPECT_TRUE(cc_.draining);
  now_ = now_ + Duration::Microseconds(1600);
  Ack(1, kLonger);
  EXPECT_FALSE(cc_.draining);
  EXPECT_TRUE(cc_.pacer.active());  // a long path
  EXPECT_EQ(cc_.pacer.next_send, Time());
  EXPECT_EQ(cc_.limit, 64u * 20 * DelayWindow::kPacket);
  EXPECT_EQ(cc_.window(), 32u);
  // Once a second.
  Rounds(20, kLonger * 2);
  EXPECT_FALSE(cc_.draining);
}

// A program that sends a message now and then has no queue of its own.
TEST_F(DelayWindowTest, AFlowThatDoesNotFillItsWindowDrainsNothing) {
  Rounds(4, kBase);
  cc_.starting = false;
  now_ = now_ + Duration::Milliseconds(50);
  for (int i = 0; i < 4000; ++i) {
    now_ = now_ + Duration::Milliseconds(1);
    Ack(1, kBase, /*limited=*/true);
    ASSERT_FALSE(cc_.draining);
  }
  // Nor is it made up for when it begins to.
  Rounds(100, kBase);
  EXPECT_FALSE(cc_.draining);
}

TEST_F(DelayWindowTest, ADrainIsShortAlsoIfThePeerHasSlept) {
  Rounds(4, kBase);
  BusyFor(Duration::Seconds(2));
  Rounds(3, Duration::Seconds(1));
  ASSERT_TRUE(cc_.draining);
  EXPECT_EQ(cc_.pacer.next_send, now_ + kBase * 2 + DelayWindow::kLongestQueue);
}

TEST_F(DelayWindowTest, ADrainWithoutAMeasurementEnds) {
  Rounds(4, kBase);
  BusyFor(Duration::Seconds(2));
  Rounds(3, Duration::Milliseconds(1));
  ASSERT_TRUE(cc_.draining);
  now_ = now_ + Duration::Milliseconds(4);
  Ack(1);
  EXPECT_FALSE(cc_.draining);
  EXPECT_EQ(cc_.Shortest(), kBase);
}

TEST_F(DelayWindowTest, HostsDrainAtTheSameTimeOfTheWallClock) {
  DelayWindow other;
  other.to_wall = Duration::Milliseconds(700);
  other.Start(64, 2000, 4096);
  const auto drains = [](DelayWindow& cc, Time now) {
    AckSample sample;
    sample.now = now;
    sample.packets = 1;
    sample.round_trip = cc.shortest_ns == 0 ? kBase : kBase * 50;
    cc.OnAck(sample);
    return cc.draining;
  };
  // The second of them has a clock that is 700 ms behind.
  Time at[2];
  for (int64_t us = 2'100'000; us < 4'000'000; us += 100) {
    const Time wall = Time::FromNs(us * 1000);
    if (drains(cc_, wall) && at[0] == Time()) at[0] = wall;
    if (drains(other, wall - other.to_wall) && at[1] == Time()) at[1] = wall;
  }
  EXPECT_NE(at[0], Time());
  EXPECT_EQ(at[0], at[1]);
}

// DCQCN: the first notification halves the window; rare ones cost little.
TEST_F(DelayWindowTest, NotificationsCountByHowOftenTheyCome) {
  Rounds(4, kBase);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 32u);
  now_ = now_ + Duration::Microseconds(10);
  cc_.OnCnp(now_);
  EXPECT_EQ(cc_.window(), 32u) << "within a period";
  cc_.OnUndo();
  EXPECT_EQ(cc_.window(), 32u) << "not a mistake";
  // Then back to the middle in a round trip.
  Round(kBase);
  EXPECT_EQ(cc_.window(), 48u);
  now_ = now_ + Duration::Seconds(1);
  Rounds(20, kBase);
  EXPECT_EQ(cc_.window(), 64u);
  cc_.OnCnp(now_);
  EXPECT_GE(cc_.window(), 61u);
  for (int i = 0; i < 200; ++i) {
    now_ = now_ + DelayWindow::kMarkPeriod;
    cc_.OnCnp(now_);
  }
  EXPECT_EQ(cc_.window(), 1u);
  EXPECT_FALSE(cc_.pacer.active()) << "a forger leaves a packet in each trip";
}

}  // namespace
}  // namespace urnic::cc
