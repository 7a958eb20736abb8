#include "transport/cc/flow_rounds.h"

#include <gtest/gtest.h>

#include "transport/base/psn.h"

namespace urnic::cc {
namespace {

class FlowRoundsTest : public ::testing::Test {
 protected:
  FlowRoundsTest() { rounds_.Start(Psn(0xfffff0)); }

  FlowRounds<Psn> rounds_;
};

TEST_F(FlowRoundsTest, ARoundEndsWhenAllThatWasUnderWayIsAcknowledged) {
  EXPECT_TRUE(rounds_.Take(Psn(0xfffff1), Psn(2)));
  EXPECT_FALSE(rounds_.Take(Psn(1), Psn(8)));
  EXPECT_TRUE(rounds_.Take(Psn(2), Psn(9)));
  EXPECT_FALSE(rounds_.Take(Psn(8), Psn(12)));
}

//= RFC 7661 4
TEST_F(FlowRoundsTest, AFlowIsAppLimitedWhenItsWindowWasNotFull) {
  EXPECT_TRUE(rounds_.app_limited());
  rounds_.OnWindowFull();
  EXPECT_FALSE(rounds_.app_limited());
  EXPECT_TRUE(rounds_.Take(Psn(0xfffff1), Psn(2)));
  EXPECT_FALSE(rounds_.app_limited()) << "full in the round before";
  EXPECT_TRUE(rounds_.Take(Psn(2), Psn(4)));
  EXPECT_TRUE(rounds_.app_limited());
}

}  // namespace
}  // namespace urnic::cc
