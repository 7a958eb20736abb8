#include "transport/cc/pacer.h"

#include <gtest/gtest.h>

namespace urnic::cc {
namespace {

constexpr uint32_t kBytes = 1250;  // 10 us at 1 Gb/s
constexpr uint64_t kGigabit = 1'000'000'000;
constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }

class PacerTest : public ::testing::Test {
 protected:
  PacerTest() { pacer_.SetRate(kGigabit); }

  Time now_ = Time::FromNs(1000000);
  Pacer pacer_;
};

TEST_F(PacerTest, WithoutARateItIsInactive) {
  pacer_.SetRate(0);
  EXPECT_FALSE(pacer_.active());
}

TEST_F(PacerTest, APacketTakesItsTime) {
  pacer_.next_send = now_;
  EXPECT_EQ(pacer_.Allowed(now_, kBytes), 1u);
  pacer_.OnSend(now_, kBytes);
  EXPECT_EQ(pacer_.next_send, now_ + Us(10));
  EXPECT_EQ(pacer_.Allowed(now_ + Us(10) - Duration::Nanoseconds(1), kBytes),
            0u);
  EXPECT_EQ(pacer_.Allowed(now_ + Us(10), kBytes), 1u);
}

TEST_F(PacerTest, ALateTimerIsMadeUpFor) {
  pacer_.next_send = now_;
  pacer_.OnSend(now_, kBytes);
  now_ = now_ + Us(20);  // 10 us late
  EXPECT_EQ(pacer_.Allowed(now_, kBytes), 2u);
  pacer_.OnSend(now_, 2 * kBytes);
  EXPECT_EQ(pacer_.next_send, now_ + Us(10));
}

TEST_F(PacerTest, AnIdleTimeIsNotMadeUpFor) {
  now_ = now_ + Duration::Seconds(1);
  EXPECT_EQ(pacer_.Allowed(now_, kBytes), 3u);
  pacer_.OnSend(now_, 3 * kBytes);
  EXPECT_EQ(pacer_.next_send, now_ + Us(10));
}

TEST_F(PacerTest, KeepsTheFastestAndTheSlowestRatesOfVerbs) {
  for (const uint64_t gigabits : {1u, 1200u}) {
    Pacer pacer;
    pacer.SetRate(gigabits * kGigabit);
    pacer.next_send = now_;
    pacer.OnSend(now_, 125'000'000);  // a gigabit
    EXPECT_NEAR(static_cast<double>((pacer.next_send - now_).ns()),
                1e9 / static_cast<double>(gigabits), 1e4);
  }
}

}  // namespace
}  // namespace urnic::cc
