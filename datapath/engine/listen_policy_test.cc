#include "datapath/engine/listen_policy.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

using Act = ListenPolicy::Act;

class ListenPolicyTest : public ::testing::Test {
 protected:
  // Take-overs that find packets, until the runner listens.
  int LooksUntilItListens() {
    int looks = 0;
    while (!policy_.listens() && looks < 1000000) {
      policy_.OnLook(1);
      ++looks;
    }
    return looks;
  }
  // The program leaves its queue and comes back to poll. Returns how often the
  // port was armed and disarmed.
  int Cycle(bool frame_wakes) {
    int changes = 0;
    bool armed = false;
    const auto poll = [&](bool leaves) {
      const Act act = policy_.OnPoll(leaves, armed);
      if (act == Act::kNothing) return;
      armed = act == Act::kArm;
      ++changes;
    };
    poll(/*leaves=*/true);
    if (frame_wakes) policy_.OnWoken(1);
    for (int i = 0; i < 100; ++i) poll(/*leaves=*/false);
    return changes;
  }

  ListenPolicy policy_;
};

TEST_F(ListenPolicyTest, TakeOversThatFindNothingAreNoEvidence) {
  for (int i = 0; i < 1000; ++i) policy_.OnLook(0);
  EXPECT_FALSE(policy_.listens());
}

TEST_F(ListenPolicyTest, TwoTakeOversThatFindPacketsMakeItListen) {
  EXPECT_EQ(LooksUntilItListens(), 2);
}

TEST_F(ListenPolicyTest, ThePortIsArmedWhileTheProgramIsGone) {
  LooksUntilItListens();
  EXPECT_EQ(policy_.OnPoll(/*leaves=*/true, /*armed=*/false), Act::kArm);
  EXPECT_EQ(policy_.OnPoll(/*leaves=*/true, /*armed=*/true), Act::kNothing);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(policy_.OnPoll(/*leaves=*/false, /*armed=*/true), Act::kNothing);
  EXPECT_EQ(policy_.OnPoll(/*leaves=*/false, /*armed=*/true), Act::kDisarm);
}

TEST_F(ListenPolicyTest, PollsInVainChangeNothing) {
  LooksUntilItListens();
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(policy_.OnPoll(/*leaves=*/false, /*armed=*/false), Act::kNothing);
}

TEST_F(ListenPolicyTest, AProgramThatSpinsOnMemoryKeepsItListening) {
  LooksUntilItListens();
  for (int i = 0; i < 10000; ++i) {
    Cycle(/*frame_wakes=*/i % 50 == 0);
    ASSERT_TRUE(policy_.listens());
  }
}

TEST_F(ListenPolicyTest, AProgramThatPollsPaysABoundedNumberOfTimes) {
  for (const int looks : {2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(LooksUntilItListens(), looks);
    int changes = 0;
    for (int i = 0; i < 10000 && policy_.listens(); ++i)
      changes += Cycle(/*frame_wakes=*/false);
    EXPECT_FALSE(policy_.listens());
    EXPECT_EQ(changes, 2 * 64);
  }
}

TEST_F(ListenPolicyTest, WakeUpsThatFindNothingEndIt) {
  LooksUntilItListens();
  for (int i = 0; i < 64; ++i) policy_.OnWoken(0);
  EXPECT_FALSE(policy_.listens());
}

}  // namespace
}  // namespace urnic
