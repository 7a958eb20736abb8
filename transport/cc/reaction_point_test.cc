#include "transport/cc/reaction_point.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr Duration kPeriod = Duration::Microseconds(50);
constexpr uint32_t kWindow = 64 * 4096;

class ReactionPointTest : public ::testing::Test {
 protected:
  uint32_t NotifyAfter(Duration time) {
    now_ = now_ + time;
    return point_.OnNotification(now_, kPeriod, kWindow);
  }

  ReactionPoint point_;
  Time now_ = Time::FromNs(1'000'000);
};

TEST_F(ReactionPointTest, TheFirstHalvesTheWindow) {
  EXPECT_EQ(NotifyAfter({}), kWindow / 2);
}

TEST_F(ReactionPointTest, OneInAPeriodCounts) {
  (void)NotifyAfter({});
  EXPECT_EQ(NotifyAfter(kPeriod - Duration::Nanoseconds(1)), kWindow);
  EXPECT_EQ(NotifyAfter(Duration::Nanoseconds(1)), kWindow / 2);
}

TEST_F(ReactionPointTest, RareOnesCostLittle) {
  (void)NotifyAfter({});
  EXPECT_GT(NotifyAfter(kPeriod * 10), kWindow / 2);
  // A sixteenth of the periods, and half of that, is the least.
  EXPECT_GE(NotifyAfter(Duration::Seconds(100)), kWindow - kWindow / 30);
}

TEST_F(ReactionPointTest, ManyInARowHalveItEachTime) {
  (void)NotifyAfter(Duration::Seconds(1));
  (void)NotifyAfter(Duration::Seconds(1));
  uint32_t left = 0;
  for (int i = 0; i < 200; ++i) left = NotifyAfter(kPeriod);
  EXPECT_NEAR(left, kWindow / 2, kWindow / 1000.0);
}

}  // namespace
}  // namespace urnic::cc
