#include "verbs/cli/fact_list.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

std::vector<Facts> TwoQps() {
  return *ParseFactList(
      "qp\tlink:urnic0/1\tlqpn=17\ttype:RC\tpid=4711\t-\tmsn=3\n"
      "qp\tlink:urnic0/1\tlqpn=18\ttype:UD\tpid=4711\n");
}

std::vector<std::string> Chosen(const std::vector<std::string>& words) {
  std::vector<std::string> numbers;
  const auto filters = ParseFilters(words);
  EXPECT_TRUE(filters.ok()) << filters.status();
  for (const Facts& qp : TwoQps()) {
    if (Matches(qp, *filters)) numbers.push_back(*qp.Find("lqpn"));
  }
  return numbers;
}

using Numbers = std::vector<std::string>;

TEST(FactListTest, FiltersChooseAsThoseOfIproute2) {
  EXPECT_EQ(Chosen({}), Numbers({"17", "18"}));
  EXPECT_EQ(Chosen({"lqpn", "17"}), Numbers({"17"}));
  EXPECT_EQ(Chosen({"lqpn", "0x11"}), Numbers({"17"}));
  EXPECT_EQ(Chosen({"lqpn", "1-17"}), Numbers({"17"}));
  EXPECT_EQ(Chosen({"lqpn", "3,18"}), Numbers({"18"}));
  EXPECT_EQ(Chosen({"type", "RC,UD"}), Numbers({"17", "18"}));
  EXPECT_EQ(Chosen({"pid", "4711", "type", "UD"}), Numbers({"18"}));
  EXPECT_EQ(Chosen({"msn", "3"}), Numbers({"17"}));
  EXPECT_EQ(Chosen({"lqpn", "19"}), Numbers());
}

TEST(FactListTest, AProgramThatCannotMatchIsNotAsked) {
  const auto filters = *ParseFilters({"pid", "3,10-20", "type", "RC"});
  EXPECT_TRUE(MayMatch("pid", "3", filters));
  EXPECT_TRUE(MayMatch("pid", "15", filters));
  EXPECT_FALSE(MayMatch("pid", "4", filters));
  EXPECT_TRUE(MayMatch("pid", "4", {}));
}

TEST(FactListTest, BadFiltersAreExplained) {
  EXPECT_FALSE(ParseFilters({"lqpn"}).ok());
  EXPECT_FALSE(ParseFilters({"lqpn", "1,,2"}).ok());
  const auto status = CheckNames(TwoQps(), *ParseFilters({"lqp", "1"}));
  EXPECT_EQ(status.message(),
            "no qp has \"lqp\"; they have link, lqpn, type, pid, msn");
  EXPECT_TRUE(CheckNames({}, *ParseFilters({"lqp", "1"})).ok());
  EXPECT_TRUE(CheckNames(TwoQps(), *ParseFilters({"msn", "1"})).ok());
}

TEST(FactListTest, LinesShowDetailsOnRequest) {
  const auto qps = TwoQps();
  EXPECT_EQ(FactLine(qps[0], false), "link urnic0/1 lqpn 17 type RC pid 4711");
  EXPECT_EQ(FactLine(qps[0], true),
            "link urnic0/1 lqpn 17 type RC pid 4711\n    msn 3");
  EXPECT_EQ(FactLine(qps[1], true), FactLine(qps[1], false));
}

TEST(FactListTest, OtherAnswersAreRefused) {
  EXPECT_FALSE(ParseFactList("qp\tlqpn=17\nnonsense here\n").ok());
  EXPECT_TRUE(ParseFactList("")->empty());
}

}  // namespace
}  // namespace urnic
