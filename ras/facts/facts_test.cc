#include "ras/facts/facts.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

TEST(FactsTest, WhatIsWrittenIsRead) {
  std::string line;
  {
    FactWriter facts("qp", line);
    facts.Add("lqpn", 17u);
    facts.Add("type", "RC");
    facts.BeginDetails();
    facts.Add("drift", -3);
    facts.AddHex("rkey", 0xfeed);
  }
  EXPECT_EQ(line, "qp\tlqpn=17\ttype:RC\t-\tdrift=-3\trkey:0xfeed\n");
  const auto parsed = ParseFacts(line.substr(0, line.size() - 1));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->kind, "qp");
  ASSERT_EQ(parsed->facts.size(), 4u);
  EXPECT_TRUE(parsed->facts[0].is_number);
  EXPECT_FALSE(parsed->facts[1].is_number);
  EXPECT_FALSE(parsed->facts[1].is_detail);
  EXPECT_TRUE(parsed->facts[2].is_detail);
  EXPECT_EQ(*parsed->Find("rkey"), "0xfeed");
  EXPECT_EQ(parsed->Find("lkey"), nullptr);
}

// Programs choose their own names, and paths.
TEST(FactsTest, AnyTextSurvives) {
  const std::string name = "a\tb\nc\\t=:-";
  std::string line;
  FactWriter("pd", line).Add("comm", name);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto parsed = ParseFacts(line.substr(0, line.size() - 1));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed->Find("comm"), name);
}

TEST(FactsTest, OtherTextsAreNoFacts) {
  for (const char* text :
       {"", "QP", "qp\t", "qp\tlqpn", "qp\tlqpn=x", "qp\tlqpn=", "qp\t=1",
        "qp\ta:\\", "qp\ta:\\x", "qp\t-\t-", "qp\tlqpn=1\t\ta=2", "qp a=1"}) {
    EXPECT_FALSE(ParseFacts(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseFacts("qp").has_value());
  EXPECT_TRUE(ParseFacts("qp\ta:").has_value());
}

}  // namespace
}  // namespace urnic
