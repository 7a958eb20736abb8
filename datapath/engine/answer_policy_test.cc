#include "datapath/engine/answer_policy.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

constexpr Duration kMoment = Duration::Microseconds(5);

class AnswerPolicyTest : public ::testing::Test {
 protected:
  // Data arrives, and the program answers a moment later. True: the
  // acknowledgement waited for the answer.
  bool Answered() {
    const bool waited = policy_.OnData(now_);
    now_ = now_ + kMoment;
    policy_.OnPost();
    return waited;
  }
  // Data arrives, and nobody answers. True: the acknowledgement waited.
  bool Unanswered() {
    const bool waited = policy_.OnData(now_);
    now_ = now_ + AnswerPolicy::kWait;
    EXPECT_FALSE(policy_.MayWait(now_));
    return waited;
  }
  // How many answers there are before the first that is waited for.
  int AnswersUntilWaited() {
    int count = 0;
    while (!policy_.expects_answers() && count < 100000) {
      EXPECT_FALSE(Answered());
      ++count;
    }
    return count;
  }
  // Waits that bring no answer, until acknowledgements wait no more.
  int VainWaits() {
    int count = 0;
    while (Unanswered()) ++count;
    return count;
  }

  AnswerPolicy policy_;
  Time now_ = Time::FromNs(1000000);
};

TEST_F(AnswerPolicyTest, AfterFourAnswersAcknowledgementsWait) {
  EXPECT_EQ(AnswersUntilWaited(), 4);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Answered());
}

TEST_F(AnswerPolicyTest, APassiveProgramIsAcknowledgedImmediately) {
  for (int i = 0; i < 10000; ++i) EXPECT_FALSE(Unanswered());
}

TEST_F(AnswerPolicyTest, APostForEverySecondDataIsNoAnswer) {
  for (int i = 0; i < 10000; ++i) {
    EXPECT_FALSE(policy_.OnData(now_));
    EXPECT_FALSE(Answered());
  }
}

TEST_F(AnswerPolicyTest, PostsWithoutDataAreNoAnswers) {
  for (int i = 0; i < 100; ++i) policy_.OnPost();
  EXPECT_EQ(AnswersUntilWaited(), 4);
}

TEST_F(AnswerPolicyTest, AnAcknowledgementWaitsForABoundedTime) {
  AnswersUntilWaited();
  ASSERT_TRUE(policy_.OnData(now_));
  const Time until = policy_.until();
  EXPECT_EQ(until, now_ + AnswerPolicy::kWait);
  // More data does not postpone it.
  ASSERT_TRUE(policy_.OnData(now_ + kMoment));
  EXPECT_EQ(policy_.until(), until);
  EXPECT_TRUE(policy_.MayWait(now_ + kMoment));
  EXPECT_FALSE(policy_.MayWait(until));
  EXPECT_FALSE(policy_.waiting());
}

TEST_F(AnswerPolicyTest, AProgramThatStopsAnsweringPaysForAFewWaits) {
  AnswersUntilWaited();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Answered());
  EXPECT_EQ(VainWaits(), 9);
}

TEST_F(AnswerPolicyTest, EachDisappointmentDoublesTheAnswersThatAreNeeded) {
  for (const int needed : {4, 8, 16, 32}) {
    EXPECT_EQ(AnswersUntilWaited(), needed);
    EXPECT_EQ(VainWaits(), 2);
  }
}

TEST_F(AnswerPolicyTest, AnswersInTimeRestoreTrust) {
  for (int i = 0; i < 3; ++i) {
    AnswersUntilWaited();
    VainWaits();
  }
  AnswersUntilWaited();
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(Answered());
  VainWaits();
  EXPECT_EQ(AnswersUntilWaited(), 8);
}

TEST_F(AnswerPolicyTest, OneLateAnswerOfTenKeepsItsCredit) {
  AnswersUntilWaited();
  for (int i = 0; i < 100; ++i) {
    for (int answers = 0; answers < 9; ++answers) EXPECT_TRUE(Answered());
    EXPECT_TRUE(Unanswered());
    policy_.OnPost();
  }
}

}  // namespace
}  // namespace urnic
