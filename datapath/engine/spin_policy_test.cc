#include "datapath/engine/spin_policy.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

class SpinPolicyTest : public ::testing::Test {
 protected:
  // Looks every microsecond until polling ends; returns how long that took.
  Duration SpinUntilRefused(SpinPolicy& policy) {
    const Time start = now_;
    while (policy.MaySpin(now_, last_look_, start)) Look();
    return now_ - start;
  }
  void Look() {
    last_look_ = now_;
    now_ = now_ + Duration::Microseconds(1);
  }
  // One packet after a short sleep, as from a peer that waits for us.
  void QuickWake(SpinPolicy& policy) {
    policy.OnSlept(Duration::Microseconds(2));
    policy.OnPackets(1);
    Look();
  }

  Time now_ = Time::FromNs(1000000);
  Time last_look_ = now_;
};

TEST_F(SpinPolicyTest, SleepsImmediatelyWithoutEvidence) {
  SpinPolicy policy(/*alone=*/false);
  policy.OnPackets(1);
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 0);
}

TEST_F(SpinPolicyTest, SpinsAfterManyPacketsInQuickSuccession) {
  SpinPolicy policy(/*alone=*/false);
  for (int i = 0; i < 64; ++i) QuickWake(policy);
  EXPECT_TRUE(policy.spinning());
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 20000);
}

TEST_F(SpinPolicyTest, APauseEndsTheEvidence) {
  SpinPolicy policy(/*alone=*/false);
  for (int i = 0; i < 63; ++i) QuickWake(policy);
  policy.OnSlept(Duration::Milliseconds(1));
  policy.OnPackets(1);
  EXPECT_FALSE(policy.spinning());
}

TEST_F(SpinPolicyTest, TriesLessAndLessOftenWhenSpinningFindsNothing) {
  SpinPolicy policy(/*alone=*/false);
  int wakes = 0;
  for (int failures = 0; failures < 3; ++failures) {
    while (!policy.spinning()) {
      QuickWake(policy);
      ++wakes;
    }
    SpinUntilRefused(policy);
  }
  EXPECT_EQ(wakes, 64 + 128 + 256);
}

TEST_F(SpinPolicyTest, TheEndOfAStreamIsNotAFailure) {
  SpinPolicy policy(/*alone=*/false);
  for (int i = 0; i < 2; ++i) {
    policy.OnPackets(64);
    EXPECT_TRUE(policy.spinning());
    SpinUntilRefused(policy);
    EXPECT_FALSE(policy.spinning());
    policy.OnSlept(Duration::Microseconds(2));
  }
}

TEST_F(SpinPolicyTest, GivesWayToAThreadThatPreemptsIt) {
  SpinPolicy policy(/*alone=*/false);
  policy.OnPackets(1000);
  const Time previous = now_;
  now_ = now_ + Duration::Milliseconds(3);
  EXPECT_FALSE(policy.MaySpin(now_, previous, previous));
  policy.OnPackets(1000);
  EXPECT_FALSE(policy.spinning());
}

// Otherwise a peer that waits for each answer would get only one per
// millisecond, forever.
TEST_F(SpinPolicyTest, APacketFoundByPollingEarnsOneTry) {
  SpinPolicy policy(/*alone=*/false);
  policy.OnSlept(Duration::Milliseconds(1), /*polled=*/true);
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 0);
  policy.OnPackets(1);
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 20000);
  EXPECT_FALSE(policy.spinning());
  policy.OnSlept(Duration::Milliseconds(1), /*polled=*/true);
  policy.OnPackets(64);
  EXPECT_TRUE(policy.spinning());
}

TEST_F(SpinPolicyTest, TheTryEndsWhenAnotherThreadNeedsTheCpu) {
  SpinPolicy policy(/*alone=*/false);
  policy.OnSlept(Duration::Milliseconds(1), /*polled=*/true);
  policy.OnPackets(1);
  const Time previous = now_;
  now_ = now_ + Duration::Milliseconds(3);
  EXPECT_FALSE(policy.MaySpin(now_, previous, now_));
  EXPECT_FALSE(policy.MaySpin(now_, now_, now_));
}

TEST_F(SpinPolicyTest, SpinsWhereThereIsACpuToSpare) {
  SpinPolicy policy(/*alone=*/true);
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 50000);
}

// Two programs watch their memory on two CPUs: there is no CPU to spare.
TEST_F(SpinPolicyTest, AfterAPreemptionNoCpuIsToSpareForASecond) {
  SpinPolicy policy(/*alone=*/true);
  const Time previous = now_;
  now_ = now_ + Duration::Milliseconds(3);
  EXPECT_FALSE(policy.MaySpin(now_, previous, previous));
  now_ = last_look_ = now_ + Duration::Milliseconds(999);
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 0);
  now_ = last_look_ = now_ + Duration::Milliseconds(1);
  EXPECT_EQ(SpinUntilRefused(policy).ns(), 50000);
}

}  // namespace
}  // namespace urnic
