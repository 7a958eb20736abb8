#include "transport/iwarp/tcp/last_resets.h"

#include <gtest/gtest.h>

namespace urnic::tcp {
namespace {

LastResets::Reset ResetOf(uint16_t port) {
  LastResets::Reset reset;
  reset.tuple.local_port = reset.fields.src_port = port;
  reset.fields.flags = wire::kTcpRst;
  return reset;
}

//= RFC 9293 3.10.5
TEST(LastResetsTest, AResetIsRepeatedAFewTimes) {
  LastResets resets(4);
  Time now;
  EXPECT_TRUE(resets.NextDeadline().IsInfinite());
  resets.Add(ResetOf(7), now);
  for (int i = 0; i < LastResets::kRepeats; ++i) {
    EXPECT_EQ(resets.NextDeadline(), now + LastResets::kInterval);
    EXPECT_FALSE(resets.OnTimer(now).has_value());
    now = resets.NextDeadline();
    const auto repeat = resets.OnTimer(now);
    ASSERT_TRUE(repeat.has_value());
    EXPECT_EQ(repeat->tuple.local_port, 7);
    EXPECT_EQ(repeat->fields.src_port, 7);
    EXPECT_EQ(repeat->fields.flags, wire::kTcpRst);
    EXPECT_FALSE(resets.OnTimer(now).has_value());
  }
  EXPECT_EQ(resets.size(), 0u);
  EXPECT_TRUE(resets.NextDeadline().IsInfinite());
}

TEST(LastResetsTest, TheOldestMakesRoom) {
  LastResets resets(2);
  for (uint16_t port = 1; port <= 3; ++port) resets.Add(ResetOf(port), Time());
  EXPECT_EQ(resets.size(), 2u);
  const Time due = resets.NextDeadline();
  EXPECT_EQ(resets.OnTimer(due)->tuple.local_port, 2);
  EXPECT_EQ(resets.OnTimer(due)->tuple.local_port, 3);
  EXPECT_FALSE(resets.OnTimer(due).has_value());
}

}  // namespace
}  // namespace urnic::tcp
