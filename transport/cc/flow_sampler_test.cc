#include "transport/cc/flow_sampler.h"

#include <gtest/gtest.h>

#include "transport/base/psn.h"

namespace urnic::cc {
namespace {

constexpr Duration Us(int64_t n) { return Duration::Microseconds(n); }

class FlowSamplerTest : public ::testing::Test {
 protected:
  FlowSamplerTest() { sampler_.Start(Psn(0xfffff0)); }

  Time now_ = Time::FromNs(1000000);
  FlowSampler<Psn> sampler_;
};

TEST_F(FlowSamplerTest, MeasuresFromAPacketToItsAcknowledgement) {
  sampler_.OnSend(Psn(0xfffff4), false, now_);
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(0xfffff3), now_ + Us(5)), Duration());
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(0xfffff4), now_ + Us(8)), Us(8));
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(0xfffff4), now_ + Us(9)), Duration());
}

TEST_F(FlowSamplerTest, TimesOnePacketAtATime) {
  sampler_.OnSend(Psn(0xfffff4), false, now_);
  sampler_.OnSend(Psn(2), false, now_ + Us(3));
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(2), now_ + Us(10)), Us(10));
  sampler_.OnSend(Psn(4), false, now_ + Us(11));
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(4), now_ + Us(15)), Us(4));
}

TEST_F(FlowSamplerTest, AResentPacketMeasuresNothing) {
  sampler_.OnSend(Psn(0xfffff4), true, now_);
  sampler_.OnResend(Psn(0xfffff4));
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(0xfffff4), now_ + Us(8)), Duration());
  EXPECT_EQ(sampler_.shortest, Duration());
}

TEST_F(FlowSamplerTest, OnlyAPacketSentAloneSetsTheFirstShortest) {
  sampler_.OnSend(Psn(0xfffff4), false, now_);
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(0xfffff4), now_ + Us(8)), Us(8));
  EXPECT_EQ(sampler_.shortest, Duration());
  sampler_.OnSend(Psn(0xfffff5), true, now_);
  EXPECT_EQ(sampler_.TakeRoundTrip(Psn(0xfffff5), now_ + Us(9)), Us(9));
  EXPECT_EQ(sampler_.shortest, Us(9));
}

TEST_F(FlowSamplerTest, ABusyFlowLowersTheShortestAndNeverRaisesIt) {
  sampler_.OnSend(Psn(0xfffff1), true, now_);
  (void)sampler_.TakeRoundTrip(Psn(0xfffff1), now_ + Us(900));
  sampler_.OnSend(Psn(0xfffff9), false, now_);
  (void)sampler_.TakeRoundTrip(Psn(0xfffff9), now_ + Us(30));
  EXPECT_EQ(sampler_.shortest, Us(30));
  sampler_.OnSend(Psn(0xfffffa), true, now_);
  (void)sampler_.TakeRoundTrip(Psn(0xfffffa), now_ + Us(40));
  EXPECT_EQ(sampler_.shortest, Us(30));
}

TEST_F(FlowSamplerTest, ARoundEndsWhenAllThatWasUnderWayIsAcknowledged) {
  EXPECT_TRUE(sampler_.TakeRound(Psn(0xfffff1), Psn(2)));
  EXPECT_FALSE(sampler_.TakeRound(Psn(1), Psn(8)));
  EXPECT_TRUE(sampler_.TakeRound(Psn(2), Psn(9)));
  EXPECT_FALSE(sampler_.TakeRound(Psn(8), Psn(12)));
}

//= RFC 7661 4
TEST_F(FlowSamplerTest, AFlowIsAppLimitedWhenItsWindowWasNotFull) {
  EXPECT_TRUE(sampler_.app_limited());
  sampler_.OnWindowFull();
  EXPECT_FALSE(sampler_.app_limited());
  EXPECT_TRUE(sampler_.TakeRound(Psn(0xfffff1), Psn(2)));
  EXPECT_FALSE(sampler_.app_limited()) << "full in the round before";
  EXPECT_TRUE(sampler_.TakeRound(Psn(2), Psn(4)));
  EXPECT_TRUE(sampler_.app_limited());
}

}  // namespace
}  // namespace urnic::cc
