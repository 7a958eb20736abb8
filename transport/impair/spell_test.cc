#include "transport/impair/spell.h"

#include <gtest/gtest.h>

namespace urnic::impair {
namespace {

constexpr Duration S(int64_t seconds) { return Duration::Seconds(seconds); }

TEST(SpellTest, ByDefaultItNeverHappens) {
  const Spell never;
  EXPECT_FALSE(never.Covers(S(0)));
  EXPECT_EQ(never.NextEdge(S(0)), std::nullopt);
  EXPECT_EQ(never.LastBegin(S(5)), std::nullopt);
}

TEST(SpellTest, Once) {
  const Spell spell = {.after = S(2), .length = S(3)};
  EXPECT_FALSE(spell.Covers(S(1)));
  EXPECT_EQ(spell.NextEdge(S(1)), S(2));
  EXPECT_TRUE(spell.Covers(S(2)));
  EXPECT_EQ(spell.NextEdge(S(2)), S(5));
  EXPECT_FALSE(spell.Covers(S(5)));
  EXPECT_EQ(spell.NextEdge(S(5)), std::nullopt);
  EXPECT_EQ(spell.LastBegin(S(100)), S(2));
}

TEST(SpellTest, AgainAndAgain) {
  const Spell spell = {.after = S(2), .length = S(3), .every = S(10)};
  EXPECT_TRUE(spell.Covers(S(24)));
  EXPECT_EQ(spell.LastBegin(S(24)), S(22));
  EXPECT_EQ(spell.NextEdge(S(24)), S(25));
  EXPECT_EQ(spell.NextEdge(S(25)), S(32));
}

}  // namespace
}  // namespace urnic::impair
