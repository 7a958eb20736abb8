// An event always has the same time of day, until a clock is set.

#include "verbs/control/wall_time.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace urnic::control {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(ClockOffsetTest, ItIsTheSameWhateverALookCosts) {
  ClockOffset offset;
  constexpr int64_t kFirst = 1000 * kMs;
  EXPECT_EQ(offset.Ns([] { return kFirst; }), kFirst);
  for (const int64_t off : {int64_t{1}, kMs, -kMs, 10 * kMs, -10 * kMs})
    EXPECT_EQ(offset.Ns([=] { return kFirst + off; }), kFirst) << off;
}

TEST(ClockOffsetTest, AClockThatWasSetReplacesIt) {
  ClockOffset offset;
  int64_t seen = 1000 * kMs;
  const auto look = [&] { return seen; };
  EXPECT_EQ(offset.Ns(look), seen);
  for (const int64_t step : {11 * kMs, -11 * kMs, 3'600'000 * kMs}) {
    seen += step;
    EXPECT_EQ(offset.Ns(look), seen) << step;
  }
}

TEST(ClockOffsetTest, AThreadThatWasInterruptedLooksAgain) {
  ClockOffset offset;
  constexpr int64_t kTrue = 1000 * kMs;
  int looks = 0;
  const auto interrupted_twice = [&] {
    return ++looks <= 2 ? kTrue - 50 * kMs : kTrue;
  };
  EXPECT_EQ(offset.Ns(interrupted_twice), kTrue);
  looks = 0;
  EXPECT_EQ(offset.Ns(interrupted_twice), kTrue);
}

TEST(WallTimeTest, ATimeIsATextWithMicroseconds) {
  EXPECT_EQ(WallTimeText(int64_t{1'795'615'387'123'456'789}),
            "2026-11-25T14:03:07.123456Z");
}

}  // namespace
}  // namespace urnic::control
