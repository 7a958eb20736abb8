#include "transport/iwarp/tcp/time_wait.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "tests/support/alloc_guard.h"
#include "tests/support/random.h"

namespace urnic::tcp {
namespace {

using Reply = TimeWaitTable::Reply;
using wire::kTcpAck;
using wire::kTcpFin;
using wire::kTcpRst;
using wire::kTcpSyn;

FourTuple TupleOf(uint16_t port) {
  return {wire::Gid::FromIpv4(0x0a000001), wire::Gid::FromIpv4(0x0a000002),
          4000, port};
}

// Whether there is a record. A RST changes nothing.
bool Has(TimeWaitTable& table, const FourTuple& tuple, Time now) {
  wire::TcpSegment reset;
  reset.flags = kTcpRst;
  return table.OnSegment(tuple, reset, now).reply != Reply::kNotFound;
}

class TimeWaitTest : public ::testing::Test {
 protected:
  static constexpr SeqNum kRcvNxt{5};
  void Add(uint16_t port, bool timestamps = true) {
    table_.Add(TupleOf(port),
               {.snd_nxt = SeqNum(777),
                .rcv_nxt = kRcvNxt,
                .ts_recent = 0xffffffff,
                .timestamps = timestamps,
                .window = 99},
               now_);
  }
  // `seq`: relative to the next one that would be expected.
  Reply Give(int32_t seq, uint8_t flags,
             std::optional<uint32_t> stamp = std::nullopt) {
    wire::TcpSegment segment;
    segment.seq = kRcvNxt + static_cast<uint32_t>(seq);
    segment.flags = flags;
    if (stamp.has_value()) segment.options.timestamps = {*stamp, 0};
    answer_ = table_.OnSegment(TupleOf(1), segment, now_);
    return answer_.reply;
  }

  bool Has(const FourTuple& tuple) { return tcp::Has(table_, tuple, now_); }

  Time now_ = Time::FromNs(1000000000);
  TimeWaitTable table_{{{5, 6}}, 4};
  TimeWaitTable::Answer answer_;
};

//= RFC 9293 3.10.7.4
TEST_F(TimeWaitTest, AFinThatComesAgainIsAcknowledgedAndBeginsTheTimeAgain) {
  Add(1);
  now_ = now_ + Duration::Seconds(50);
  EXPECT_EQ(Give(-1, kTcpFin | kTcpAck, 0xffffffff), Reply::kAck);
  EXPECT_EQ(answer_.ended.snd_nxt, SeqNum(777));
  EXPECT_EQ(answer_.ended.rcv_nxt, kRcvNxt);
  EXPECT_EQ(answer_.ended.ts_recent, 0xffffffffu);
  EXPECT_EQ(answer_.ended.window, 99);
  EXPECT_EQ(table_.NextDeadline(), now_ + TimeWaitTable::kLifetime);
  now_ = now_ + Duration::Seconds(59);
  table_.OnTimer(now_);
  EXPECT_EQ(table_.size(), 1u);
  now_ = now_ + Duration::Seconds(1);
  table_.OnTimer(now_);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_TRUE(table_.NextDeadline().IsInfinite());
  EXPECT_EQ(Give(-1, kTcpFin | kTcpAck), Reply::kNotFound);
}

//= RFC 9293 3.10.7.4
TEST_F(TimeWaitTest, InTheWindowASegmentWithoutAckIsDropped) {
  Add(1);
  const Time due = table_.NextDeadline();
  now_ = now_ + Duration::Seconds(1);
  EXPECT_EQ(Give(0, kTcpFin), Reply::kDrop);
  EXPECT_EQ(Give(98, kTcpFin), Reply::kDrop);
  EXPECT_EQ(table_.NextDeadline(), due);
  EXPECT_EQ(Give(99, kTcpFin), Reply::kAck) << "not acceptable";
  EXPECT_EQ(Give(-100, kTcpFin), Reply::kAck);
}

//= RFC 9293 3.10.7.4
TEST_F(TimeWaitTest, LateSegmentsAreAcknowledgedAndEmptyOnesAreNot) {
  Add(1);
  const Time due = table_.NextDeadline();
  now_ = now_ + Duration::Seconds(1);
  EXPECT_EQ(Give(-100, kTcpAck), Reply::kAck) << "an old one";
  EXPECT_EQ(Give(0, kTcpFin | kTcpAck), Reply::kAck) << "another FIN";
  EXPECT_EQ(Give(-500, kTcpFin | kTcpAck), Reply::kAck) << "an old FIN";
  EXPECT_EQ(Give(3, kTcpSyn | kTcpAck), Reply::kAck);
  EXPECT_EQ(Give(0, kTcpAck), Reply::kDrop) << "two ends would go on forever";
  EXPECT_EQ(table_.NextDeadline(), due);
}

// They may be the answers of another TIME-WAIT that has other numbers.
//= RFC 5961 7, Linux tcp_oow_rate_limited()
TEST_F(TimeWaitTest, OfEmptySegmentsElsewhereOneIsAcknowledged) {
  Add(1);
  EXPECT_EQ(Give(500, kTcpAck), Reply::kAck);
  EXPECT_EQ(Give(-100, kTcpAck), Reply::kDrop);
  EXPECT_EQ(Give(-1, kTcpFin | kTcpAck), Reply::kAck) << "always";
  Add(1);
  EXPECT_EQ(Give(-100, kTcpAck), Reply::kAck) << "a new one";
}

//= RFC 1337 3
TEST_F(TimeWaitTest, ARstDoesNotEndIt) {
  Add(1);
  EXPECT_EQ(Give(0, kTcpRst), Reply::kDrop);
  EXPECT_EQ(Give(-1, kTcpRst | kTcpAck), Reply::kDrop);
  EXPECT_TRUE(Has(TupleOf(1)));
}

//= RFC 6191 2
TEST_F(TimeWaitTest, ASynWithALaterTimestampBeginsANewConnection) {
  Add(1);
  EXPECT_EQ(Give(1000, kTcpSyn, 0xfffffffe), Reply::kDrop);
  EXPECT_EQ(Give(-1000, kTcpSyn, 0xffffffff), Reply::kDrop) << "equal";
  EXPECT_TRUE(Has(TupleOf(1)));
  EXPECT_EQ(Give(-1000, kTcpSyn, 3), Reply::kNewConnection);
  EXPECT_EQ(answer_.ended.snd_nxt, SeqNum(777));
  EXPECT_FALSE(Has(TupleOf(1)));
  EXPECT_EQ(table_.size(), 0u);
  Add(1);
  EXPECT_EQ(Give(0, kTcpSyn, 0xffffffff), Reply::kNewConnection)
      << "equal, but the ISN is greater";
}

//= RFC 6191 2
TEST_F(TimeWaitTest, WithoutTimestampsTheIsnMustBeGreater) {
  Add(1);
  EXPECT_EQ(Give(-1, kTcpSyn), Reply::kDrop);
  EXPECT_EQ(Give(0, kTcpSyn), Reply::kNewConnection);
  Add(1, false);
  EXPECT_EQ(Give(-1, kTcpSyn), Reply::kDrop);
  EXPECT_EQ(Give(-1, kTcpSyn, 7), Reply::kNewConnection)
      << "the new connection has timestamps, the old one had none";
}

TEST_F(TimeWaitTest, TheOldestMakesRoomAndIsCounted) {
  for (uint16_t port = 1; port <= 6; ++port) {
    Add(port);
    now_ = now_ + Duration::Seconds(1);
  }
  EXPECT_EQ(table_.size(), 4u);
  EXPECT_EQ(table_.TakeEvicted(), 2u);
  EXPECT_EQ(table_.TakeEvicted(), 0u);
  EXPECT_FALSE(Has(TupleOf(2)));
  EXPECT_TRUE(Has(TupleOf(3)));
}

TEST_F(TimeWaitTest, AnEndedConnectionHasOneRecord) {
  Add(1);
  now_ = now_ + Duration::Seconds(1);
  Add(1);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_EQ(table_.NextDeadline(), now_ + TimeWaitTable::kLifetime);
}

TEST_F(TimeWaitTest, EachPartOfTheNameCounts) {
  Add(1);
  FourTuple other = TupleOf(1);
  other.local_port ^= 1;
  EXPECT_FALSE(Has(other));
  other = TupleOf(1);
  other.local.bytes[15] ^= 1;
  EXPECT_FALSE(Has(other));
  other = TupleOf(1);
  std::swap(other.local, other.remote);
  EXPECT_FALSE(Has(other));
}

// Beside a list of what must be there. Nothing is allocated.
//= RFC 7323 5.4
TEST_F(TimeWaitTest, WithTimestampsWeConnectAgainAfterASecond) {
  std::optional<SeqNum> after;
  EXPECT_TRUE(table_.TakeForNewConnection(TupleOf(1), now_, after));
  EXPECT_FALSE(after.has_value()) << "there is no record";
  Add(1);
  Add(2, false);
  now_ = now_ + TimeWaitTable::kBeforeReuse - Duration::Nanoseconds(1);
  EXPECT_FALSE(table_.TakeForNewConnection(TupleOf(1), now_, after));
  EXPECT_TRUE(Has(TupleOf(1)));
  now_ = now_ + Duration::Nanoseconds(1);
  EXPECT_FALSE(table_.TakeForNewConnection(TupleOf(2), now_, after));
  EXPECT_TRUE(table_.TakeForNewConnection(TupleOf(1), now_, after));
  EXPECT_EQ(after, SeqNum(777));
  EXPECT_FALSE(Has(TupleOf(1)));
  EXPECT_TRUE(Has(TupleOf(2))) << "it has no timestamps";
}

TEST(TimeWaitRandomTest, AgreesWithAList) {
  struct Entry {
    uint16_t port;
    Time expires;
  };
  constexpr size_t kCapacity = 50;
  TimeWaitTable table({{5, 6}}, kCapacity);
  std::deque<Entry> list;  // oldest first
  testing::Random random(3);
  Time now = Time::FromNs(0);
  for (int i = 0; i < 20000; ++i) {
    now =
        now + Duration::Milliseconds(static_cast<int64_t>(random.Below(2500)));
    const auto port = static_cast<uint16_t>(random.Below(120));
    const auto same = std::ranges::find(list, port, &Entry::port);
    const uint64_t operation = random.Below(3);
    const testing::AllocGuard guard;
    table.OnTimer(now);
    bool restarted = false;
    if (operation == 0) {
      table.Add(TupleOf(port), {SeqNum(1), SeqNum(9)}, now);
    } else if (operation == 1) {
      wire::TcpSegment fin;
      fin.flags = kTcpFin | kTcpAck;
      fin.seq = SeqNum(8);
      restarted = table.OnSegment(TupleOf(port), fin, now).reply == Reply::kAck;
    }
    EXPECT_EQ(guard.count(), 0u);
    const bool expired = same != list.end() && same->expires <= now;
    if (operation == 1) {
      EXPECT_EQ(restarted, same != list.end() && !expired);
    }
    if (operation == 0 || restarted) {
      if (same != list.end()) list.erase(same);
      list.push_back({port, now + TimeWaitTable::kLifetime});
    }
    while (!list.empty() && list.front().expires <= now) list.pop_front();
    if (list.size() > kCapacity) list.pop_front();
    ASSERT_EQ(table.size(), list.size());
    for (const Entry& entry : list) {
      ASSERT_TRUE(Has(table, TupleOf(entry.port), now));
    }
    EXPECT_EQ(table.NextDeadline(),
              list.empty() ? Time::Infinite() : list.front().expires);
  }
}

}  // namespace
}  // namespace urnic::tcp
