#include "ras/facts/facts_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace urnic {
namespace {

using nlohmann::json;

Facts Qp(uint32_t lqpn) {
  return *ParseFacts("qp\tlink:urnic0/1\tlqpn=" + std::to_string(lqpn) +
                     "\ttype:RC\t-\tmsn=3");
}

TEST(FactsJsonTest, AnObjectHasItsFactsInTheirOrder) {
  EXPECT_EQ(JsonOf(Qp(17), /*details=*/true),
            R"({"link":"urnic0/1","lqpn":17,"type":"RC","msn":3})");
  EXPECT_EQ(JsonOf(Qp(17), /*details=*/false),
            R"({"link":"urnic0/1","lqpn":17,"type":"RC"})");
  EXPECT_EQ(JsonOf(Facts(), true), "{}");
}

TEST(FactsJsonTest, AListIsOnOneLineOrIndented) {
  EXPECT_EQ(JsonOf({Qp(17), Qp(18)}, false, /*pretty=*/false),
            R"([{"link":"urnic0/1","lqpn":17,"type":"RC"},)"
            R"({"link":"urnic0/1","lqpn":18,"type":"RC"}])");
  EXPECT_EQ(JsonOf({Qp(17), Facts()}, false, /*pretty=*/true),
            "[\n"
            "    {\n"
            "        \"link\": \"urnic0/1\",\n"
            "        \"lqpn\": 17,\n"
            "        \"type\": \"RC\"\n"
            "    },\n"
            "    {}\n"
            "]");
  EXPECT_EQ(JsonOf(std::vector<Facts>(), true, false), "[]");
  EXPECT_EQ(JsonOf(std::vector<Facts>(), true, true), "[]");
}

TEST(FactsJsonTest, NumbersOf64BitsAreNumbers) {
  const auto facts = *ParseFacts(
      "x\ta=-9223372036854775808\tb=18446744073709551615\t"
      "c=18446744073709551616\td=0");
  EXPECT_EQ(JsonOf(facts, true),
            R"({"a":-9223372036854775808,"b":18446744073709551615,)"
            R"("c":"18446744073709551616","d":0})");
}

// All bytes, so all texts that a program can choose.
TEST(FactsJsonTest, AnyTextIsReadAsItIs) {
  std::string text;
  for (char c = 1; c < 127; ++c) text += c;
  text += "\x7f \u00e9\u20ac\U0001f600";
  Facts facts = {.kind = "x", .facts = {{.name = "text", .value = text}}};
  EXPECT_EQ(json::parse(JsonOf(facts, true))["text"], text);
  facts.facts[0].value = std::string("a\0b", 3);
  EXPECT_EQ(json::parse(JsonOf(facts, true))["text"], facts.facts[0].value);
}

TEST(FactsJsonTest, WhatIsNotUtf8IsReplaced) {
  // Each text has one replacement where the second one has U+FFFD.
  const std::pair<std::string, std::string> cases[] = {
      {"a\"b\\\xff", "a\"b\\\ufffd"},
      {"\xc3", "\ufffd"},                      // cut off
      {"\xc3(", "\ufffd("},                    // no continuation
      {"\xe2\x82", "\ufffd"},                  // cut off after two of three
      {"\xe2\x82(", "\ufffd("},                // two good bytes are one mistake
      {"\xf0\x9f\x98(", "\ufffd("},            // three good bytes, too
      {"\xc0\xaf", "\ufffd\ufffd"},            // overlong
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},  // half of a pair
      {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},  // beyond Unicode
      {"\x80\xbf", "\ufffd\ufffd"},  // a continuation of nothing
  };
  for (const auto& [text, read] : cases) {
    const Facts facts = {.kind = "x",
                         .facts = {{.name = "text", .value = text}}};
    EXPECT_EQ(json::parse(JsonOf(facts, true))["text"], read);
  }
}

}  // namespace
}  // namespace urnic
