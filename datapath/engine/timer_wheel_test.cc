#include "datapath/engine/timer_wheel.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace urnic {
namespace {

struct Node {
  Time deadline = Time::Infinite();  // what the wheel was given
  TimerLink<Node> timer;
  int fired = 0;
};

void Set(TimerWheel<Node>& wheel, Node& node, int64_t ns) {
  node.deadline = Time::FromNs(ns);
  wheel.Schedule(node, node.deadline);
}

constexpr int64_t kTick = 8192;

TEST(TimerWheelTest, NothingFiresBeforeItsTime) {
  TimerWheel<Node> wheel(Time::FromNs(0));
  Node node;
  Set(wheel, node, 100000);
  auto fire = [&](int64_t ns) {
    wheel.Fire(Time::FromNs(ns), [](Node& n) { ++n.fired; });
  };
  fire(99999);
  EXPECT_EQ(node.fired, 0);
  fire(100000 + 2 * kTick);
  EXPECT_EQ(node.fired, 1);
  EXPECT_TRUE(wheel.NextDeadline().IsInfinite());
}

TEST(TimerWheelTest, ALaterDeadlineIsCheckedAtItsOldSlot) {
  TimerWheel<Node> wheel(Time::FromNs(0));
  Node node;
  Set(wheel, node, 10 * kTick);
  Set(wheel, node, 500 * kTick);
  const auto never = [](Node&) { FAIL() << "fired early"; };
  wheel.Fire(Time::FromNs(400 * kTick), never);
  EXPECT_FALSE(wheel.NextDeadline().IsInfinite());
  EXPECT_LE(wheel.NextDeadline().ns(), 502 * kTick);
}

// Compared with a plain list: everything fires within two ticks after its
// deadline and never before, however the clock jumps.
TEST(TimerWheelTest, AgreesWithAListUnderRandomUse) {
  std::mt19937_64 random(7);
  TimerWheel<Node> wheel(Time::FromNs(0));
  std::vector<Node> nodes(200);
  int64_t now = 0;
  for (int step = 0; step < 20000; ++step) {
    Node& node = nodes[random() % nodes.size()];
    switch (random() % 4) {
      case 0:
        Set(wheel, node,
            now + static_cast<int64_t>((random() >> 16) >> random() % 48));
        break;
      case 1:
        wheel.Remove(node);
        node.deadline = Time::Infinite();
        break;
      default:
        now += static_cast<int64_t>(random() % (kTick << (random() % 32)));
        wheel.Fire(Time::FromNs(now), [&](Node& n) {
          EXPECT_LE(n.deadline.ns(), now);
          n.deadline = Time::Infinite();
        });
        for (Node& n : nodes) {
          if (n.deadline.IsInfinite()) continue;
          ASSERT_GT(n.deadline.ns() + 2 * kTick, now) << "not fired";
          ASSERT_LE(wheel.NextDeadline().ns(), n.deadline.ns() + 2 * kTick);
        }
    }
  }
}

// Keepalive timers of two hours: until then the wheel does nothing, and near
// the end each node has moved at most once per ring.
TEST(TimerWheelTest, ThousandsOfIdleNodesCostNothingUntilTheyAreDue) {
  constexpr int64_t kTwoHours = 7'200'000'000'000;
  TimerWheel<Node> wheel(Time::FromNs(kTick));
  std::vector<Node> nodes(65536);
  for (size_t i = 0; i < nodes.size(); ++i) {
    Set(wheel, nodes[i], kTwoHours + static_cast<int64_t>(i) * 1000);
  }
  int wakes = 0;
  int fired = 0;
  while (!wheel.NextDeadline().IsInfinite()) {
    const Time now = wheel.NextDeadline();
    if (now.ns() < kTwoHours) ++wakes;
    wheel.Fire(now, [&](Node& node) {
      EXPECT_GE(now, node.deadline);
      ++fired;
    });
  }
  EXPECT_LE(wakes, 6);
  EXPECT_EQ(fired, 65536);
}

// A program's clock may have any value; here all digits change together.
TEST(TimerWheelTest, AllDigitsOfTheClockMayChangeTogether) {
  const int64_t edge = int64_t{1} << (13 + 40);
  TimerWheel<Node> wheel(Time::FromNs(edge - 3 * kTick));
  Node node;
  Set(wheel, node, edge + kTick);
  int fired = 0;
  wheel.Fire(Time::FromNs(edge), [&](Node&) { ++fired; });
  EXPECT_EQ(fired, 0);
  wheel.Fire(Time::FromNs(edge + 3 * kTick), [&](Node&) { ++fired; });
  EXPECT_EQ(fired, 1);
}

}  // namespace
}  // namespace urnic
