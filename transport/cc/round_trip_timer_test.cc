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

TEST_F(RoundTripTimerTest, TimesSeveralPackets) {
  timer_.OnSend(Psn(0xfffff4), now_);
  timer_.OnSend(Psn(2), now_ + Us(3));
  timer_.OnSend(Psn(4), now_ + Us(4));
  timer_.OnSend(Psn(6), now_ + Us(5));
  EXPECT_EQ(timer_.Take(Psn(0xfffff4), now_ + Us(10)), Us(10));
  EXPECT_EQ(timer_.Take(Psn(5), now_ + Us(11)), Us(7)) << "the latest of two";
  EXPECT_EQ(timer_.Take(Psn(5), now_ + Us(12)), Duration());
  EXPECT_EQ(timer_.Take(Psn(6), now_ + Us(13)), Us(8));
}

TEST_F(RoundTripTimerTest, TimesNoMoreThanItHasRoomFor) {
  for (int i = 1; i <= 9; ++i) timer_.OnSend(Psn(i), now_ + Us(i));
  EXPECT_EQ(timer_.Take(Psn(7), now_ + Us(20)), Us(13));
  EXPECT_EQ(timer_.Take(Psn(9), now_ + Us(21)), Us(13)) << "the eighth";
}

TEST_F(RoundTripTimerTest, AResentPacketMeasuresNothing) {
  timer_.OnSend(Psn(0xfffff4), now_);
  timer_.OnResend(Psn(0xfffff4));
  EXPECT_EQ(timer_.Take(Psn(0xfffff4), now_ + Us(8)), Duration());
}

}  // namespace
}  // namespace urnic::cc
