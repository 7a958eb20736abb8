#include "transport/iwarp/tcp/half_open.h"

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/connection_fixture.h"

namespace urnic::tcp {
namespace {

using wire::kTcpAck;
using wire::kTcpRst;
using wire::kTcpSyn;

constexpr uint32_t kWindow = 1 << 20;

FourTuple Tuple(uint16_t remote_port) { return {{}, {}, 80, remote_port}; }

wire::TcpSegment Syn(SeqNum seq) {
  wire::TcpSegment syn;
  syn.seq = seq;
  syn.flags = kTcpSyn;
  syn.window = 4000;
  syn.options.mss = 1460;
  syn.options.sack_permitted = true;
  syn.options.window_shift = 7;
  syn.options.timestamps = {99, 0};
  return syn;
}

wire::TcpSegment AckOf(const wire::TcpFields& answer, SeqNum seq) {
  wire::TcpSegment ack;
  ack.seq = seq;
  ack.ack = answer.seq + 1;
  ack.flags = kTcpAck;
  ack.window = 500;
  ack.options.timestamps = {100, answer.options.timestamps->value};
  return ack;
}

class HalfOpenTest : public ::testing::Test {
 protected:
  wire::TcpFields OnSyn(uint16_t port, SeqNum seq) {
    return table.OnSyn(Tuple(port), Syn(seq), Offer(), kWindow, now);
  }
  HalfOpenTable table{kTestKey, 8};
  Time now = Time::FromNs(5'000'000'000'000);
  bool reset = false;
};

TEST_F(HalfOpenTest, TheAcknowledgementOfTheSynAckCompletesTheHandshake) {
  const SeqNum irs(1000);
  const wire::TcpFields answer = OnSyn(7, irs);
  EXPECT_EQ(answer.flags, kTcpSyn | kTcpAck);
  EXPECT_EQ(answer.ack, irs + 1);
  EXPECT_EQ(answer.options.timestamps->echo, 99u);
  now = now + Duration::Milliseconds(3);
  const auto accepted =
      table.OnSegment(Tuple(7), AckOf(answer, irs + 1), now, reset);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_FALSE(reset);
  EXPECT_EQ(accepted->iss, answer.seq);
  EXPECT_EQ(accepted->handshake.irs, irs);
  EXPECT_EQ(accepted->handshake.agreed.window_shift, 7);
  EXPECT_TRUE(accepted->handshake.agreed.sack);
  EXPECT_EQ(accepted->handshake.round_trip, Duration::Milliseconds(3));
  EXPECT_EQ(table.size(), 0u);
}

//= RFC 9293 3.10.7.2
//= RFC 9293 3.10.7.4
TEST_F(HalfOpenTest, OtherAcknowledgementsAreAnsweredByARst) {
  const wire::TcpFields answer = OnSyn(7, SeqNum(1000));
  wire::TcpSegment ack = AckOf(answer, SeqNum(1001));
  ack.ack = ack.ack + 1;
  EXPECT_FALSE(table.OnSegment(Tuple(7), ack, now, reset).has_value());
  EXPECT_TRUE(reset);
  EXPECT_EQ(table.size(), 1u) << "it may have been forged";
  EXPECT_FALSE(
      table.OnSegment(Tuple(8), AckOf(answer, SeqNum(1001)), now, reset)
          .has_value());
  EXPECT_TRUE(reset);
}

//= RFC 9293 3.10.7.2
TEST_F(HalfOpenTest, WhatHasNeitherSynNorAckIsDropped) {
  wire::TcpSegment fin;
  fin.flags = wire::kTcpFin;
  reset = true;
  EXPECT_FALSE(table.OnSegment(Tuple(7), fin, now, reset).has_value());
  EXPECT_FALSE(reset);
}

//= RFC 9293 3.10.7.4
TEST_F(HalfOpenTest, ARstWithTheRightNumberEndsTheHandshake) {
  (void)OnSyn(7, SeqNum(1000));
  wire::TcpSegment rst;
  rst.flags = kTcpRst;
  rst.seq = SeqNum(1002);
  EXPECT_FALSE(table.OnSegment(Tuple(7), rst, now, reset).has_value());
  EXPECT_FALSE(reset);
  EXPECT_EQ(table.size(), 1u);
  rst.seq = SeqNum(1001);
  EXPECT_FALSE(table.OnSegment(Tuple(7), rst, now, reset).has_value());
  EXPECT_EQ(table.size(), 0u);
}

//= RFC 6298 2.1, 5.5
TEST_F(HalfOpenTest, ASynAckIsRepeatedEverLessOftenAndThenGivenUp) {
  const wire::TcpFields answer = OnSyn(7, SeqNum(1000));
  const Time start = now;
  std::vector<int64_t> seconds;
  while (!table.NextDeadline().IsInfinite()) {
    now = table.NextDeadline();
    while (const auto repeat = table.OnTimer(now)) {
      EXPECT_EQ(repeat->fields.seq, answer.seq);
      EXPECT_EQ(repeat->tuple, Tuple(7));
      seconds.push_back((now - start).ns() / 1'000'000'000);
    }
  }
  EXPECT_EQ(seconds, (std::vector<int64_t>{1, 3, 7, 15, 31}));
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.TakeGivenUp(), 1u);
}

TEST_F(HalfOpenTest, ARepeatedSynGetsTheSameAnswerAndDoesNotDelayTheEnd) {
  const wire::TcpFields first = OnSyn(7, SeqNum(1000));
  const Time deadline = table.NextDeadline();
  now = now + Duration::Milliseconds(900);
  const wire::TcpFields second = OnSyn(7, SeqNum(1000));
  EXPECT_EQ(first.seq, second.seq);
  EXPECT_EQ(table.NextDeadline(), deadline);
  EXPECT_EQ(table.size(), 1u);
  // Which of the two is acknowledged is unknown: no round trip.
  const auto accepted =
      table.OnSegment(Tuple(7), AckOf(second, SeqNum(1001)), now, reset);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->handshake.round_trip, Duration());
}

//= RFC 4987 3.6
TEST_F(HalfOpenTest, AFloodOfSynsGetsCookiesAndAnHonestPeerStillConnects) {
  for (uint16_t port = 1; port <= 1000; ++port) {
    (void)OnSyn(port, SeqNum(port * 7919u));
  }
  EXPECT_EQ(table.size(), 4u) << "half of the table";
  EXPECT_EQ(table.TakeCookiesSent(), 996u);
  const wire::TcpFields answer = OnSyn(5555, SeqNum(1000));
  const auto accepted =
      table.OnSegment(Tuple(5555), AckOf(answer, SeqNum(1001)), now, reset);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->iss, answer.seq);
  EXPECT_EQ(accepted->handshake.irs, SeqNum(1000));
  EXPECT_EQ(accepted->handshake.agreed.window_shift, 7);
}

TEST_F(HalfOpenTest, ASecondSynDoesNotPushTheFirstOut) {
  const wire::TcpFields first = OnSyn(7, SeqNum(1000));
  const wire::TcpFields second = OnSyn(7, SeqNum(500'000));
  EXPECT_NE(first.seq, second.seq);
  EXPECT_TRUE(
      table.OnSegment(Tuple(7), AckOf(second, SeqNum(500'001)), now, reset)
          .has_value())
      << "by its cookie";
  EXPECT_TRUE(table.OnSegment(Tuple(7), AckOf(first, SeqNum(1001)), now, reset)
                  .has_value());
}

//= RFC 9293 3.6.1
TEST_F(HalfOpenTest, AReusedConnectionBeginsBehindTheLastOne) {
  const SeqNum natural = table.numbers().Isn(Tuple(7), now);
  const SeqNum last = natural + 100'000;
  const wire::TcpFields answer =
      table.OnSyn(Tuple(7), Syn(SeqNum(1)), Offer(), kWindow, now, last);
  EXPECT_GT(answer.seq - last, 0);
}

}  // namespace
}  // namespace urnic::tcp
