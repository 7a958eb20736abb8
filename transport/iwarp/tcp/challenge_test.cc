#include "transport/iwarp/tcp/challenge.h"

#include <gtest/gtest.h>

namespace urnic::tcp {
namespace {

//= RFC 5961 7
TEST(ChallengeTest, AConnectionSendsFewChallenges) {
  ChallengeBudget budget({{1, 2}}, 1000);
  ChallengeLimit limit;
  Time now = Time::FromNs(1000000000);
  EXPECT_TRUE(limit.Take(budget, now));
  EXPECT_FALSE(limit.Take(budget, now));
  EXPECT_FALSE(limit.Take(budget, now + Duration::Milliseconds(499)));
  EXPECT_TRUE(limit.Take(budget, now + Duration::Milliseconds(500)));
}

//= RFC 5961 7
TEST(ChallengeTest, AllConnectionsTogetherShareANumberThatNobodyKnows) {
  ChallengeBudget budget({{1, 2}}, 1000);
  uint32_t different = 0;
  uint32_t last = 0;
  for (int second = 1; second <= 20; ++second) {
    const Time now = Time::FromNs(second * 1000000000ll);
    uint32_t sent = 0;
    for (int i = 0; i < 2000; ++i) {
      ChallengeLimit limit;
      sent += limit.Take(budget, now) ? 1 : 0;
    }
    EXPECT_GE(sent, 500u);
    EXPECT_LE(sent, 1000u);
    different += sent != last ? 1 : 0;
    last = sent;
  }
  EXPECT_GE(different, 18u);
}

TEST(ChallengeTest, ARefusalByTheBudgetCostsAConnectionNothing) {
  ChallengeBudget none({{1, 2}}, 0);
  ChallengeBudget budget({{1, 2}}, 1000);
  ChallengeLimit limit;
  const Time now = Time::FromNs(1000000000);
  EXPECT_FALSE(limit.Take(none, now));
  EXPECT_TRUE(limit.Take(budget, now));
}

}  // namespace
}  // namespace urnic::tcp
