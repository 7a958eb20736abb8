#include "verbs/cli/top_view.h"

#include <gtest/gtest.h>

#include <sstream>

namespace urnic {
namespace {

using std::chrono::steady_clock;

Facts Port(int pid, uint64_t rx_bytes) {
  return *ParseFacts(
      "stat\tlink:urnic0/1\tlist:port\tpid=" + std::to_string(pid) +
      "\tcomm:x\trx-bytes=" + std::to_string(rx_bytes));
}

Facts Qp(int lqpn, uint64_t acked) {
  return *ParseFacts("qp\tlink:urnic0/1\tlqpn=" + std::to_string(lqpn) +
                     "\ttype:RC\tstate:RTS\tdst-addr:10.0.0.2\tpid=7\tcomm:x"
                     "\t-\tbytes-acked=" +
                     std::to_string(acked) + "\trtt-ns=12345");
}

std::vector<std::vector<std::string>> WordsOf(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    lines.emplace_back();
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  return lines;
}

const auto kStart = steady_clock::time_point();

TEST(TopViewTest, RatesAreThoseBetweenTheLooks) {
  const TopLook before = {kStart, {Port(7, 1000)}, {Qp(17, 500)}};
  const TopLook now = {kStart + std::chrono::seconds(2),
                       {Port(7, 500'001'000)},
                       {Qp(17, 250'000'500)}};
  const auto lines = WordsOf(TopText(before, now, 0));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1], (std::vector<std::string>{"urnic0/1", "7", "x", "2.00",
                                                "-", "-", "-", "-"}));
  EXPECT_EQ(lines[4], (std::vector<std::string>{"urnic0/1", "7", "17", "RC",
                                                "RTS", "1.00", "-", "-", "-",
                                                "12.3", "10.0.0.2"}));
}

// They are not acknowledged.
TEST(TopViewTest, DatagramsCountWhenTheyAreSent) {
  const auto qp = [](uint64_t bytes) {
    return *ParseFacts(
        "qp\tlink:urnic0/1\tlqpn=17\ttype:UD\tstate:RTS\tpid=7\tcomm:x"
        "\t-\tpackets-sent=" +
        std::to_string(bytes / 1000) + "\tbytes-sent=" + std::to_string(bytes));
  };
  const auto lines = WordsOf(
      TopText({kStart, {}, {qp(0)}},
              {kStart + std::chrono::seconds(2), {}, {qp(500'000)}}, 0));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[3][5], "0.00");
  EXPECT_EQ(lines[3][6], "250");
}

TEST(TopViewTest, TheBusiestComesFirstAndTheScreenIsTheLimit) {
  const TopLook before = {kStart, {}, {Qp(1, 0), Qp(2, 0), Qp(3, 0)}};
  const TopLook now = {
      kStart + std::chrono::seconds(1), {}, {Qp(1, 10), Qp(2, 30), Qp(3, 20)}};
  const auto lines = WordsOf(TopText(before, now, 5));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[3][2], "2");
  EXPECT_EQ(lines[4][2], "3");
}

// A program that is new, or whose pid another one has now.
TEST(TopViewTest, WhatIsNewHasNoRates) {
  const TopLook before = {kStart, {Port(7, 1000)}, {Qp(17, 500)}};
  const TopLook now = {kStart + std::chrono::seconds(1),
                       {Port(8, 5000), Port(7, 10)},
                       {Qp(17, 20), Qp(18, 40)}};
  const auto lines = WordsOf(TopText(before, now, 0));
  EXPECT_EQ(lines[1][3], "-");
  EXPECT_EQ(lines[2][3], "-");
  EXPECT_EQ(lines[5][5], "-");
  EXPECT_EQ(lines[6][5], "-");
}

}  // namespace
}  // namespace urnic
