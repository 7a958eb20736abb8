#include "transport/cc/round_trip_timer.h"

#include <gtest/gtest.h>

#include "transport/base/psn.h"

namespace urnic::cc {
namespace {

constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }

class RoundTripTimerTest : public ::testing::Test {
 protected:
  Time now_ = Time::FromNs(1000000);
  RoundTripTimer<Psn> timer_;
};

TEST_F(RoundTripTimerTest, MeasuresFromAPacketToItsAcknowledgement) {
  timer_.OnSend(Psn(0xfffff4), now_);
  EXPECT_EQ(timer_.Take(Psn(0xfffff3), now_ + Us(5)), Duration());
  EXPECT_EQ(timer_.Take(Psn(0xfffff4), now_ + Us(8)), Us(8));
  EXPECT_EQ(timer_.Take(Psn(0xfffff4), now_ + Us(9)), Duration());
}

TEST_F(RoundTripTimerTest, TimesOnePacketAtATime) {
  timer_.OnSend(Psn(0xfffff4), now_);
  timer_.OnSend(Psn(2), now_ + Us(3));
  EXPECT_EQ(timer_.Take(Psn(2), now_ + Us(10)), Us(10));
  timer_.OnSend(Psn(4), now_ + Us(11));
  EXPECT_EQ(timer_.Take(Psn(4), now_ + Us(15)), Us(4));
}

TEST_F(RoundTripTimerTest, AResentPacketMeasuresNothing) {
  timer_.OnSend(Psn(0xfffff4), now_);
  timer_.OnResend(Psn(0xfffff4));
  EXPECT_EQ(timer_.Take(Psn(0xfffff4), now_ + Us(8)), Duration());
}

}  // namespace
}  // namespace urnic::cc
