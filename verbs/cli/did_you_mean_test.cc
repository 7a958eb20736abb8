#include "verbs/cli/did_you_mean.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace urnic {
namespace {

TEST(DidYouMeanTest, ASwapIsOneStepAndCaseIsNone) {
  EXPECT_EQ(LettersApart("run", "run"), 0u);
  EXPECT_EQ(LettersApart("RUN", "run"), 0u);
  EXPECT_EQ(LettersApart("ruN", "run"), 0u);
  EXPECT_EQ(LettersApart("prot", "port"), 1u);
  EXPECT_EQ(LettersApart("prt", "port"), 1u);
  EXPECT_EQ(LettersApart("pport", "port"), 1u);
  EXPECT_EQ(LettersApart("pork", "port"), 1u);
  EXPECT_EQ(LettersApart("", "port"), 4u);
  EXPECT_EQ(LettersApart("port", ""), 4u);
  EXPECT_EQ(LettersApart("sever", "slave"), 3u);
}

TEST(DidYouMeanTest, NamesTheClosestWord) {
  const std::vector<std::string> known = {"run", "addr", "route", "state"};
  EXPECT_EQ(DidYouMean("ruN", known), ": did you mean \"run\"?");
  EXPECT_EQ(DidYouMean("stats", known), ": did you mean \"state\"?");
  EXPECT_EQ(DidYouMean("ruote", known), ": did you mean \"route\"?");
}

TEST(DidYouMeanTest, AWordThatResemblesNoneGetsNoAdvice) {
  const std::vector<std::string> known = {"run", "id", "role"};
  EXPECT_EQ(DidYouMean("dance", known), "");
  EXPECT_EQ(DidYouMean("", known), "");
  EXPECT_EQ(DidYouMean("if", known), "") << "half of it is wrong";
  EXPECT_EQ(DidYouMean("ro", {}), "");
}

TEST(DidYouMeanTest, LongWordsAreLeftAlone) {
  const std::string longest(kDidYouMeanLetters, 'x');
  EXPECT_EQ(DidYouMean(longest, {longest}),
            ": did you mean \"" + longest + "\"?");
  EXPECT_EQ(DidYouMean(longest + "x", {longest}), "");
  EXPECT_EQ(DidYouMean(longest, {longest + "x"}), "");
}

}  // namespace
}  // namespace urnic
