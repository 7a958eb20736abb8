#include "verbs/cli/filter_check.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

std::string MistakeIn(const std::vector<std::string>& words) {
  return std::string(CheckNumbers(*ParseFilters(words)).message());
}

TEST(FilterCheckTest, NumbersAndRangesAreGood) {
  for (const char* value :
       {"17", "0x11", "3-7", "0x3-7", "7-7", "1,3-4", "18446744073709551615"}) {
    EXPECT_EQ(MistakeIn({"lqpn", value}), "");
    EXPECT_EQ(MistakeIn({"type", "RC", "pid", value}), "");
  }
}

TEST(FilterCheckTest, ANumberThatIsNoneIsNamed) {
  EXPECT_EQ(MistakeIn({"type", "RC", "lqpn", "17,abc"}),
            "lqpn: \"abc\" is not a number of 64 bits or a range: 17, 0x11 or "
            "3-7");
  for (const char* value :
       {"0x", "-5", "5-", "1-2-3", "1x", "99999999999999999999"}) {
    for (const char* name : {"lqpn", "rqpn", "pid", "cqn", "mrn", "level"}) {
      EXPECT_TRUE(MistakeIn({name, value})
                      .starts_with(std::string(name) + ": \"" + value +
                                   "\" is not a number"));
    }
  }
}

TEST(FilterCheckTest, ARangeWithoutANumberIsNamed) {
  EXPECT_EQ(MistakeIn({"lqpn", "5-3"}),
            "lqpn: \"5-3\" is a range without a number");
}

TEST(FilterCheckTest, TextsAreWhatTheyAre) {
  EXPECT_EQ(MistakeIn({"state", "5-3", "comm", "abc", "type", "0x"}), "");
}

TEST(FilterCheckTest, AValueThatThereIsNotIsNamed) {
  const auto mistake = [](const std::vector<std::string>& words) {
    const auto filters = *ParseFilters(words);
    absl::Status status = CheckValues(filters, "level", {"0", "1", "2"});
    if (status.ok())
      status = CheckValues(filters, "component", {"verbs", "receive"});
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(mistake({"component", "receive,verbs", "level", "0x1"}), "");
  EXPECT_EQ(mistake({"level", "1-9", "comm", "foo"}), "");
  EXPECT_EQ(mistake({"level", "1,11"}),
            "unknown level \"11\"; there is 0, 1, 2");
  EXPECT_EQ(mistake({"component", "foo"}),
            "unknown component \"foo\"; there is verbs, receive");
  EXPECT_EQ(mistake({"component", "recieve"}),
            "unknown component \"recieve\": did you mean \"receive\"?");
}

}  // namespace
}  // namespace urnic
