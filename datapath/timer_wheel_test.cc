#include "datapath/timer_wheel.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace urnic {
namespace {

struct Node {
  Time NextDeadline() const { return deadline; }
  Time deadline = Time::Infinite();
  TimerLink<Node> timer;
  int fired = 0;
};

constexpr int64_t kTick = 8192;

TEST(TimerWheelTest, NothingFiresBeforeItsTime) {
  TimerWheel<Node> wheel(Time::FromNs(0));
  Node node;
  node.deadline = Time::FromNs(100000);
  wheel.Schedule(node);
  auto fire = [&](int64_t ns) {
    wheel.Fire(Time::FromNs(ns), [](Node& n) {
      ++n.fired;
      n.deadline = Time::Infinite();
    });
  };
  fire(99999);
  EXPECT_EQ(node.fired, 0);
  fire(100000 + 2 * kTick);
  EXPECT_EQ(node.fired, 1);
  EXPECT_TRUE(wheel.NextDeadline().IsInfinite());
}

TEST(TimerWheelTest, ALaterDeadlineIsFoundAgainAtItsOldSlot) {
  TimerWheel<Node> wheel(Time::FromNs(0));
  Node node;
  node.deadline = Time::FromNs(10 * kTick);
  wheel.Schedule(node);
  node.deadline = Time::FromNs(500 * kTick);
  wheel.Schedule(node);
  const auto never = [](Node&) { FAIL() << "fired early"; };
  wheel.Fire(Time::FromNs(400 * kTick), never);
  EXPECT_FALSE(wheel.NextDeadline().IsInfinite());
  EXPECT_LE(wheel.NextDeadline().ns(), 502 * kTick);
}

// Against a plain list: everything fires, within two ticks of its deadline and
// never before, however the clock jumps.
TEST(TimerWheelTest, AgreesWithAListUnderRandomUse) {
  std::mt19937_64 random(7);
  TimerWheel<Node> wheel(Time::FromNs(0));
  std::vector<Node> nodes(200);
  int64_t now = 0;
  for (int step = 0; step < 20000; ++step) {
    Node& node = nodes[random() % nodes.size()];
    switch (random() % 4) {
      case 0:
        node.deadline = Time::FromNs(
            now + static_cast<int64_t>(random() % (100 * 4096 * kTick) >>
                                       (random() % 20)));
        wheel.Schedule(node);
        break;
      case 1:
        wheel.Remove(node);
        node.deadline = Time::Infinite();
        break;
      default:
        now += static_cast<int64_t>(random() % (kTick << (random() % 14)));
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

}  // namespace
}  // namespace urnic
