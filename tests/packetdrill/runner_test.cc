// The interpreter must be able to find a difference: each rule of comparison is
// broken once.

#include "tests/packetdrill/runner.h"

#include <gtest/gtest.h>

#include <string>

namespace urnic::packetdrill {
namespace {

// An established connection with fd 4, of a peer without options but an MSS.
constexpr char kOpen[] = R"(
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 20000 <mss 1000,sackOK>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK>
  +.1 < . 1:1(0) ack 1 win 20000
   +0 accept(3, ..., ...) = 4
)";

Outcome OutcomeOf(const std::string& text) {
  return Runner().Run(text).outcome;
}

// What differs in these steps behind kOpen; "" if nothing does.
std::string Steps(const std::string& steps, const std::string& options = "") {
  const Outcome outcome = OutcomeOf(options + kOpen + steps);
  EXPECT_NE(outcome.result, Result::kNotApplicable) << outcome.text;
  return outcome.text;
}

TEST(Runner, AConnectionAndItsDataPass) {
  EXPECT_EQ(Steps("+0 write(4, ..., 2500) = 2500\n"
                  "+0 > P. 1:2501(2500) ack 1\n"),
            "");
}

TEST(Runner, AMissingSegmentDiffers) {
  EXPECT_EQ(Steps("+0 > . 1:1(0) ack 1\n"), "nothing was sent until 0.104000");
}

TEST(Runner, EachFieldIsCompared) {
  const auto difference = [](const std::string& packet) {
    const std::string text =
        Steps("+0 write(4, ..., 500) = 500\n+0 > " + packet + "\n");
    return text.empty() ? "" : text.substr(text.rfind(": ") + 2);
  };
  EXPECT_EQ(difference(". 1:501(500) ack 1"), "");
  EXPECT_EQ(difference("E. 1:501(500) ack 1"), "the flags differ");
  EXPECT_EQ(difference("F. 1:1(0) ack 1"), "the length differs");
  EXPECT_EQ(difference(". 1:1(0) ack 1"), "the length differs");
  EXPECT_EQ(difference(". 2:502(500) ack 1"), "the sequence number differs");
  EXPECT_EQ(difference(". 1:501(500) ack 2"),
            "the acknowledgement number differs");
  EXPECT_EQ(difference(". 1:501(500) ack 1 win 0"), "the window differs");
  EXPECT_EQ(difference("[ect0] . 1:501(500) ack 1"), "ECT differs");
  EXPECT_EQ(difference(". 1:501(500) ack 1 <sack 1:2>"), "sack differs");
  EXPECT_EQ(difference(". 1:501(500) ack 1 <TS val 1 ecr 2>"), "TS differs");
}

TEST(Runner, WhatASynOffersIsCompared) {
  const std::string connect =
      "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"
      "+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n"
      "+0 connect(3, ..., ...) = -1 EINPROGRESS\n";
  const auto difference = [&](const std::string& options) {
    const std::string text =
        OutcomeOf(connect + "+0 > S 0:0(0) <" + options + ">\n").text;
    return text.empty() ? "" : text.substr(text.rfind(": ") + 2);
  };
  EXPECT_EQ(difference("mss 1460,sackOK,TS val 1 ecr 0,wscale 9"), "");
  EXPECT_EQ(difference("mss 1400,sackOK,TS val 1 ecr 0,wscale 9"),
            "the MSS differs");
  EXPECT_EQ(difference("mss 1460,TS val 1 ecr 0,wscale 9"), "sackOK differs");
  EXPECT_EQ(difference("mss 1460,sackOK,wscale 9"), "TS differs");
  EXPECT_EQ(difference("mss 1460,sackOK,TS val 1 ecr 0"), "wscale differs");
  EXPECT_EQ(difference("..."), "");
}

TEST(Runner, TimesAreCompared) {
  // A time-out of 300 ms.
  const std::string lost =
      "+0 write(4, ..., 500) = 500\n+0 > . 1:501(500) ack 1\n";
  EXPECT_EQ(Steps(lost + "+.3 > . 1:501(500) ack 1\n"), "");
  EXPECT_EQ(Steps(lost + "+.25~+.35 > . 1:501(500) ack 1\n"), "");
  EXPECT_NE(Steps(lost + "+.2 > . 1:501(500) ack 1\n"), "");
  EXPECT_NE(Steps(lost + "+.4 > . 1:501(500) ack 1\n"), "");
  EXPECT_EQ(Steps(lost + "* > . 1:501(500) ack 1\n"), "");
  // An acknowledgement that waits for 1 ms.
  const std::string data = "+0 < . 1:101(100) ack 1 win 20000\n";
  EXPECT_EQ(Steps(data + "+0 > . 1:1(0) ack 101\n"), "");
  EXPECT_NE(Steps(data + "+0 > . 1:1(0) ack 101\n", "--strict\n"), "");
}

TEST(Runner, ResultsOfCallsAreCompared) {
  EXPECT_EQ(Steps("+0 < . 1:101(100) ack 1 win 20000\n"
                  "+0 read(4, ..., 99) = 100\n"),
            "read returned 99 , not 100 ");
  EXPECT_EQ(Steps("+0 fcntl(4, F_SETFL, O_NONBLOCK) = 0\n"
                  "+0 read(4, ..., 99) = -1 ECONNRESET\n"),
            "read returned -1 EAGAIN, not -1 ECONNRESET");
  EXPECT_EQ(Steps("+0 read(4, ..., 99) = 99\n"), "read blocks");
}

TEST(Runner, ACallBlocksUntilItsTime) {
  const std::string read = "+0...0.200 read(4, ..., 1000) = 100\n";
  EXPECT_EQ(Steps(read + "+.2 < . 1:101(100) ack 1 win 20000\n"), "");
  EXPECT_EQ(Steps(read + "+.1 < . 1:101(100) ack 1 win 20000\n"),
            "read returns at 0.200000, not at 0.300000");
  EXPECT_EQ(Steps(read), "read does not return");
}

TEST(Runner, AssertionsAreCheckedOrNamed) {
  EXPECT_EQ(Steps("+0 %{ assert tcpi_snd_cwnd == 10 }%"), "");
  EXPECT_EQ(Steps("+0 %{ assert 9 < tcpi_snd_cwnd <= 10, 'x' }%"), "");
  EXPECT_EQ(Steps("+0 %{ assert tcpi_snd_cwnd == 9 + 2, 'x' }%"),
            "assert tcpi_snd_cwnd == 9 + 2: tcpi_snd_cwnd is 10");
  const Report report = Runner().Run(
      std::string(kOpen).append("+0 %{ assert tcpi_magic == 1 }%"));
  EXPECT_TRUE(report.outcome.ok());
  EXPECT_TRUE(report.skipped.contains("tcpi_magic"));
}

TEST(Runner, StrictlyNothingMayBeLeft) {
  const std::string write = "+0 write(4, ..., 500) = 500\n";
  EXPECT_EQ(Steps(write), "");
  EXPECT_EQ(Steps(write, "--strict\n"),
            "more was sent: P. 1:501(500) ack 1 win 65535");
}

TEST(Runner, WhatIsUnknownIsNotApplicable) {
  for (const char* script :
       {"--tun=1\n", "0 epoll_create(1) = 4\n", "0 < icmp unreachable\n",
        "0 < S 0:0(0) win 5 <FO>\n", "`sysctl -q net.ipv4.tcp_magic=1`\n",
        "`rm -f x`\n", "0 < SA 0:0(0)\n"}) {
    EXPECT_EQ(OutcomeOf(script).result, Result::kNotApplicable) << script;
  }
}

}  // namespace
}  // namespace urnic::packetdrill
