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
  // What the segment completes. Sets `outcome`.
  std::optional<HalfOpenTable::Accepted> Give(uint16_t port,
                                              const wire::TcpSegment& segment) {
    outcome = table.OnSegment(Tuple(port), segment, now);
    return outcome.accepted;
  }
  bool answered_by_reset() const {
    return outcome.answer.has_value() && outcome.answer->Has(kTcpRst);
  }

  ChallengeBudget challenges{kTestKey, 1000};
  HalfOpenTable table{kTestKey, 8, &challenges};
  Time now = Time::FromNs(5'000'000'000'000);
  HalfOpenTable::Outcome outcome;
};

TEST_F(HalfOpenTest, TheAcknowledgementOfTheSynAckCompletesTheHandshake) {
  const SeqNum irs(1000);
  const wire::TcpFields answer = OnSyn(7, irs);
  EXPECT_EQ(answer.flags, kTcpSyn | kTcpAck);
  EXPECT_EQ(answer.ack, irs + 1);
  EXPECT_EQ(answer.options.timestamps->echo, 99u);
  now = now + Duration::Milliseconds(3);
  const auto accepted = Give(7, AckOf(answer, irs + 1));
  ASSERT_TRUE(accepted.has_value());
  EXPECT_FALSE(outcome.answer.has_value());
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
  EXPECT_FALSE(Give(7, ack).has_value());
  EXPECT_TRUE(answered_by_reset());
  EXPECT_EQ(table.size(), 1u) << "it may have been forged";
  EXPECT_FALSE(Give(8, AckOf(answer, SeqNum(1001))).has_value());
  EXPECT_TRUE(answered_by_reset());
}

//= RFC 9293 3.10.7.2
TEST_F(HalfOpenTest, WhatHasNeitherSynNorAckIsDropped) {
  wire::TcpSegment fin;
  fin.flags = wire::kTcpFin;
  EXPECT_FALSE(Give(7, fin).has_value());
  EXPECT_FALSE(outcome.answer.has_value());
}

//= RFC 9293 3.10.7.4
TEST_F(HalfOpenTest, ARstWithTheRightNumberEndsTheHandshake) {
  (void)OnSyn(7, SeqNum(1000));
  wire::TcpSegment rst;
  rst.flags = kTcpRst;
  rst.seq = SeqNum(1001);
  EXPECT_FALSE(Give(7, rst).has_value());
  EXPECT_EQ(table.size(), 0u);
}

//= RFC 5961 3.2
TEST_F(HalfOpenTest, ARstElsewhereInTheWindowIsChallenged) {
  const SeqNum irs(1000);
  const wire::TcpFields syn_ack = OnSyn(7, irs);
  wire::TcpSegment rst;
  rst.flags = kTcpRst;
  for (const uint32_t ahead : {1u, 65534u}) {
    rst.seq = irs + 1 + ahead;
    EXPECT_FALSE(Give(7, rst).has_value());
    EXPECT_EQ(outcome.verdict, RxVerdict::kTcpChallenged);
    ASSERT_TRUE(outcome.answer.has_value()) << ahead;
    const wire::TcpFields& answer = *outcome.answer;
    EXPECT_EQ(answer.flags, kTcpAck);
    EXPECT_EQ(answer.src_port, 80);
    EXPECT_EQ(answer.dst_port, 7);
    EXPECT_EQ(answer.seq, syn_ack.seq + 1);
    EXPECT_EQ(answer.ack, irs + 1);
    EXPECT_EQ(answer.window, 65535 >> *syn_ack.options.window_shift);
    EXPECT_EQ(answer.options.timestamps->echo, 99u);
    //= RFC 5961 7
    EXPECT_FALSE(Give(7, rst).has_value());
    EXPECT_FALSE(outcome.answer.has_value()) << "too soon";
    now = now + ChallengeLimit::kSpacing;
  }
  for (const uint32_t ahead : {65535u, UINT32_MAX}) {
    rst.seq = irs + 1 + ahead;
    EXPECT_FALSE(Give(7, rst).has_value());
    EXPECT_FALSE(outcome.answer.has_value()) << "outside of the window";
  }
  EXPECT_EQ(table.size(), 1u);
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
  const auto accepted = Give(7, AckOf(second, SeqNum(1001)));
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
  const auto accepted = Give(5555, AckOf(answer, SeqNum(1001)));
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->iss, answer.seq);
  EXPECT_EQ(accepted->handshake.irs, SeqNum(1000));
  EXPECT_EQ(accepted->handshake.agreed.window_shift, 7);
}

// What comes behind may come first. A RST would end the peer's connection.
TEST_F(HalfOpenTest, WhatOvertakesTheAcknowledgementOfACookieIsDropped) {
  for (uint16_t port = 1; port <= 8; ++port) (void)OnSyn(port, SeqNum(1));
  const wire::TcpFields answer = OnSyn(5555, SeqNum(1000));
  ASSERT_EQ(table.size(), 4u);
  EXPECT_FALSE(Give(5555, AckOf(answer, SeqNum(2001))).has_value());
  EXPECT_FALSE(outcome.answer.has_value());
  EXPECT_TRUE(Give(5555, AckOf(answer, SeqNum(1001))).has_value());
}

TEST_F(HalfOpenTest, ASecondSynDoesNotPushTheFirstOut) {
  const wire::TcpFields first = OnSyn(7, SeqNum(1000));
  const wire::TcpFields second = OnSyn(7, SeqNum(500'000));
  EXPECT_NE(first.seq, second.seq);
  EXPECT_TRUE(Give(7, AckOf(second, SeqNum(500'001))).has_value())
      << "by its cookie";
  EXPECT_TRUE(Give(7, AckOf(first, SeqNum(1001))).has_value());
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
