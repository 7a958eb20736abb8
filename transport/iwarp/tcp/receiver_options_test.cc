// Timestamps, ECN, the window and early placement of a receiver.

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/receiver.h"
#include "transport/iwarp/tcp/receiver_fixture.h"

namespace urnic::tcp {
namespace {

using V = RxVerdict;
using wire::kTcpAck;
using Blocks = std::vector<std::pair<int32_t, int32_t>>;

constexpr uint32_t kWindow = ReceiverEnd<>::kWindow;
constexpr uint32_t kMss = ReceiverEnd<>::kMss;

std::string Text(size_t bytes) { return std::string(bytes, 'x'); }

class TimestampTest : public ::testing::Test {
 protected:
  TimestampTest() {
    end_.config.timestamps = true;
    end_.config.ts_recent = 0xfffffff0;
    end_.Start();
  }
  V Give(int32_t offset, std::string_view bytes, uint32_t stamp,
         uint8_t flags = kTcpAck) {
    auto segment = end_.At(offset, flags);
    segment.options.timestamps = {stamp, 0};
    return end_.Give(segment, bytes);
  }
  uint32_t Echo() { return end_.Ack().options.timestamps->echo; }
  ReceiverEnd<> end_;
};

//= RFC 7323 5.3
TEST_F(TimestampTest, AnOlderTimestampIsRefusedAndAcknowledged) {
  EXPECT_EQ(Give(0, "a", 0xffffffef), V::kTcpOldTimestamp);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(Give(0, "a", 0xfffffff0), V::kAccept);
  EXPECT_EQ(Give(1, "b", 5), V::kAccept) << "later, on the circle";
  EXPECT_EQ(end_.upper.stream, "ab");
}

//= RFC 7323 5.2
TEST_F(TimestampTest, ARstIsAcceptedWithAnyTimestampOrNone) {
  EXPECT_EQ(Give(0, "", 1u << 31, wire::kTcpRst), V::kAccept);
  EXPECT_EQ(end_.Give(0, "", wire::kTcpRst), V::kAccept);
}

TEST_F(TimestampTest, TheTimestampOfARstIsNotKept) {
  EXPECT_EQ(Give(0, "", 0x7fffff00, wire::kTcpRst), V::kAccept);
  EXPECT_EQ(Echo(), 0xfffffff0u);
}

//= RFC 7323 3.2
TEST_F(TimestampTest, ASegmentWithoutTheAgreedTimestampIsDroppedSilently) {
  EXPECT_EQ(end_.Give(0, "a"), V::kTcpNoTimestamp);
  EXPECT_FALSE(end_.receiver.ack_now());
  EXPECT_EQ(end_.upper.stream, "");
}

//= RFC 7323 4.3
TEST_F(TimestampTest, TheEarliestUnacknowledgedTimestampIsEchoed) {
  EXPECT_EQ(Give(0, "a", 10), V::kAccept);
  EXPECT_EQ(Give(1, "b", 20), V::kAccept);
  EXPECT_EQ(Echo(), 10u) << "the acknowledgement was delayed";
  EXPECT_EQ(Give(4, "e", 30), V::kTcpKept);
  EXPECT_EQ(Echo(), 10u) << "the segment before is missing";
  EXPECT_EQ(Give(2, "cd", 40), V::kAccept);
  EXPECT_EQ(Echo(), 40u);
  EXPECT_EQ(Give(kWindow + 100, "x", 50), V::kTcpOutOfWindow);
  EXPECT_EQ(Echo(), 40u) << "not that of a refused segment";
}

//= RFC 7323 5.5
TEST_F(TimestampTest, AfterTwentyFourDaysATimestampIsNotCompared) {
  EXPECT_EQ(Give(0, "a", 10), V::kAccept);
  (void)Echo();
  end_.now = end_.now + Receiver::kTimestampLifetime;
  EXPECT_EQ(Give(1, "b", 9), V::kTcpOldTimestamp);
  end_.now = end_.now + Duration::Seconds(1);
  EXPECT_EQ(Give(1, "b", 9), V::kAccept);
  EXPECT_EQ(Echo(), 9u);
}

//= RFC 7323 4.2
TEST_F(TimestampTest, TheSenderKeepsItsOwnTimestamp) {
  wire::TcpFields fields;
  fields.options.timestamps = {77, 0};
  end_.receiver.WriteAck(fields, 28);
  EXPECT_EQ(*fields.options.timestamps, (wire::TcpTimestamps{77, 0xfffffff0}));
}

class EcnTest : public ::testing::Test {
 protected:
  void Start(EcnMode mode) {
    end_.config.ecn = mode;
    end_.Start();
  }
  V Give(std::string_view bytes, bool marked, uint8_t flags = kTcpAck) {
    auto segment = end_.At(end_.next(), flags);
    segment.congestion_experienced = marked;
    return end_.Give(segment, bytes);
  }
  bool Echoes() { return end_.Ack().Has(wire::kTcpEce); }
  ReceiverEnd<> end_;
};

//= RFC 3168 6.1.3
TEST_F(EcnTest, AMarkIsEchoedUntilThePeerHasReducedItsWindow) {
  Start(EcnMode::kClassic);
  EXPECT_EQ(Give("a", true), V::kAccept);
  EXPECT_TRUE(Echoes());
  EXPECT_EQ(Give("b", false), V::kAccept);
  EXPECT_TRUE(Echoes());
  EXPECT_EQ(Give("c", false, kTcpAck | wire::kTcpCwr), V::kAccept);
  EXPECT_FALSE(Echoes());
  EXPECT_EQ(Give("d", true, kTcpAck | wire::kTcpCwr), V::kAccept);
  EXPECT_TRUE(Echoes()) << "the segment with CWR is marked itself";
}

//= RFC 3168 6.1.3
TEST_F(EcnTest, MarksOfRefusedSegmentsAndOfAcknowledgementsDoNotCount) {
  Start(EcnMode::kClassic);
  EXPECT_EQ(Give("", true), V::kAccept);
  auto segment = end_.At(kWindow + 1);
  segment.congestion_experienced = true;
  EXPECT_EQ(end_.Give(segment, "x"), V::kTcpOutOfWindow);
  EXPECT_FALSE(Echoes());
  Start(EcnMode::kOff);
  EXPECT_EQ(Give("a", true), V::kAccept);
  EXPECT_FALSE(Echoes()) << "not agreed";
}

//= RFC 8257 3.2
TEST_F(EcnTest, DctcpEchoesEachMarkAndAcknowledgesEachChange) {
  Start(EcnMode::kDctcp);
  EXPECT_EQ(Give("a", false), V::kAccept);
  EXPECT_FALSE(end_.receiver.ack_now());
  EXPECT_EQ(Give("b", true), V::kAccept);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_TRUE(Echoes());
  EXPECT_EQ(Give("c", true), V::kAccept);
  EXPECT_FALSE(end_.receiver.ack_now());
  EXPECT_TRUE(Echoes());
  EXPECT_EQ(Give("d", false), V::kAccept);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_FALSE(Echoes());
}

class WindowTest : public ::testing::Test {
 protected:
  ReceiverEnd<> end_;
};

//= RFC 7323 2.2
TEST_F(WindowTest, TheWindowOfASynIsNotScaledAndLaterOnesAre) {
  end_.config.window_bytes = 1 << 20;
  end_.config.window_shift = 7;
  end_.receiver.Start(end_.config, end_.now);
  EXPECT_EQ(end_.receiver.SynWindow(), 65535);
  EXPECT_EQ(end_.receiver.window_bytes(), 65535u);
  EXPECT_EQ(end_.Ack().window, (1 << 20) >> 7);
  EXPECT_EQ(end_.receiver.window_bytes(), 1u << 20);
}

//= RFC 7323 2.3
TEST_F(WindowTest, AWindowIsNoMoreThanItsFieldCanSay) {
  end_.config.window_bytes = 1u << 31;
  end_.Start();
  EXPECT_EQ(end_.receiver.window_bytes(), 65535u);
  end_.config.window_shift = 14;
  end_.Start();
  EXPECT_EQ(end_.receiver.window_bytes(), 65535u << 14);
}

//= RFC 9293 3.8.6
TEST_F(WindowTest, TheRightEdgeNeverMovesBack) {
  const SeqNum edge = end_.receiver.right_edge();
  end_.receiver.SetWindow(1000);
  EXPECT_EQ(end_.Give(0, Text(500)), V::kAccept);
  EXPECT_EQ(end_.Ack().window, kWindow - 500);
  EXPECT_EQ(end_.receiver.right_edge(), edge);
  EXPECT_EQ(end_.Give(kWindow - 1, "z"), V::kTcpKept) << "it was offered";
}

//= RFC 9293 3.8.6, RFC 7323 2.3
TEST_F(WindowTest, TheShiftDoesNotTakeBackAnOffer) {
  end_.config.window_bytes = 1 << 16;
  end_.config.window_shift = 10;
  end_.Start();
  const SeqNum edge = end_.receiver.right_edge();
  EXPECT_EQ(end_.Give(0, "x"), V::kAccept);
  const wire::TcpFields ack = end_.Ack();
  EXPECT_GE(ack.ack + (uint32_t{ack.window} << 10) - edge, 0);
}

//= RFC 9293 3.8.6.2.2
TEST_F(WindowTest, TheWindowOpensByASegmentOrNotAtAll) {
  end_.receiver.SetWindow(0);
  EXPECT_EQ(end_.Give(0, Text(kWindow)), V::kAccept);
  EXPECT_EQ(end_.Ack().window, 0);
  end_.receiver.SetWindow(10 * kMss);
  EXPECT_TRUE(end_.receiver.ack_now()) << "the peer waits";
  EXPECT_EQ(end_.Ack().window, 10 * kMss);
  EXPECT_EQ(end_.Give(kWindow, Text(kMss - 1)), V::kAccept);
  EXPECT_EQ(end_.Ack().window, 9 * kMss + 1) << "less than a segment";
  EXPECT_EQ(end_.Give(kWindow + kMss - 1, "x"), V::kAccept);
  EXPECT_EQ(end_.Ack().window, 10 * kMss);
  // Half of a buffer that is smaller than two segments.
  end_.receiver.SetWindow(0);
  EXPECT_EQ(end_.Give(kWindow + kMss, Text(10 * kMss)), V::kAccept);
  EXPECT_EQ(end_.Ack().window, 0);
  end_.receiver.SetWindow(600);
  EXPECT_EQ(end_.Ack().window, 600);
  EXPECT_EQ(end_.Give(kWindow + 11 * kMss, Text(300)), V::kAccept);
  EXPECT_EQ(end_.Ack().window, 600);
}

TEST_F(WindowTest, APeerThatMaySendIsNotTold) {
  end_.receiver.SetWindow(65535);
  EXPECT_FALSE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Ack().window, 65535);
}

class EarlyTest : public ::testing::Test {
 protected:
  ReceiverEnd<EarlyUpper> end_;
};

TEST_F(EarlyTest, APlacedSegmentKeepsNoFrameAndIsDeliveredInOrder) {
  EXPECT_EQ(end_.Give(4, "ef"), V::kTcpEarly);
  EXPECT_EQ(end_.Give(6, "gh"), V::kTcpEarly);
  EXPECT_EQ(end_.Give(2, "cd"), V::kTcpEarly);
  EXPECT_EQ(end_.frames.kept(), 0u);
  EXPECT_EQ(end_.receiver.range_count(), 1u) << "adjacent ones are one";
  EXPECT_EQ(end_.upper.placed.substr(2), "cdefgh");
  EXPECT_EQ(end_.Sacks(), (Blocks{{2, 8}}));
  EXPECT_EQ(end_.Give(0, "ab"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdefgh");
  EXPECT_EQ(end_.upper.early_calls, 1);
}

TEST_F(EarlyTest, TwoRunsBecomeOneWhenTheGapBetweenThemCloses) {
  EXPECT_EQ(end_.Give(2, "cd"), V::kTcpEarly);
  EXPECT_EQ(end_.Give(6, "gh"), V::kTcpEarly);
  EXPECT_EQ(end_.Give(12, "mn"), V::kTcpEarly);
  EXPECT_EQ(end_.Give(4, "ef"), V::kTcpEarly);
  EXPECT_EQ(end_.receiver.range_count(), 2u);
  EXPECT_EQ(end_.Sacks(), (Blocks{{2, 8}, {12, 14}}));
  EXPECT_EQ(end_.Give(10, "kl"), V::kTcpEarly);
  EXPECT_EQ(end_.Sacks(), (Blocks{{10, 14}, {2, 8}}));
  EXPECT_EQ(end_.Give(12, "m"), V::kTcpDuplicate);
  EXPECT_EQ(end_.Sacks(), (Blocks{{12, 13}, {10, 14}, {2, 8}}));
}

TEST_F(EarlyTest, OnlyWholeNewSegmentsAreOffered) {
  EXPECT_EQ(end_.Give(4, "ef"), V::kTcpEarly);
  EXPECT_EQ(end_.Give(3, "dEFg"), V::kTcpKept) << "it overlaps";
  EXPECT_EQ(end_.frames.kept(), 1u);
  end_.upper.take = false;
  EXPECT_EQ(end_.Give(8, "ij"), V::kTcpKept) << "refused above";
  EXPECT_EQ(end_.frames.kept(), 2u);
  end_.upper.take = true;
  EXPECT_EQ(end_.Give(kWindow - 1, "xy"), V::kTcpKept) << "cut by the window";
  EXPECT_EQ(end_.frames.kept(), 3u);
  EXPECT_EQ(end_.Give(0, "abc"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdefg");
}

}  // namespace
}  // namespace urnic::tcp
