#include "transport/iwarp/tcp/receiver.h"

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/receiver_fixture.h"

namespace urnic::tcp {
namespace {

using V = RxVerdict;
using wire::kTcpAck;
using wire::kTcpFin;
using wire::kTcpRst;
using wire::kTcpSyn;
using Blocks = std::vector<std::pair<int32_t, int32_t>>;

constexpr uint8_t kFinAck = kTcpFin | kTcpAck;
constexpr uint32_t kWindow = ReceiverEnd<>::kWindow;
constexpr uint32_t kMss = ReceiverEnd<>::kMss;

std::string Text(size_t bytes) { return std::string(bytes, 'x'); }

class ReceiverTest : public ::testing::Test {
 protected:
  // Sends what is due.
  void Quiet() {
    (void)end_.Ack();
    EXPECT_FALSE(end_.receiver.ack_now());
  }
  ReceiverEnd<> end_;
};

TEST_F(ReceiverTest, BytesInOrderGoUpFromTheirFrame) {
  EXPECT_EQ(end_.Give(0, "abc"), V::kAccept);
  EXPECT_EQ(end_.Give(3, "def"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdef");
  EXPECT_EQ(end_.frames.kept(), 0u);
}

TEST_F(ReceiverTest, BytesFromCustodyNameTheirFrame) {
  EXPECT_EQ(end_.Give(3, "def"), V::kTcpKept);
  EXPECT_EQ(end_.Give(0, "abc"), V::kAccept);
  EXPECT_EQ(end_.upper.buffers.size(), 2u);
  EXPECT_FALSE(end_.upper.buffers.contains(nullptr));
}

TEST_F(ReceiverTest, WhatIsNotTakenIsNotAcknowledgedAndComesAgain) {
  end_.upper.room = 2;
  EXPECT_EQ(end_.Give(0, "abc"), V::kTcpNoRoom);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.next(), 2);
  end_.upper.room = SIZE_MAX;
  EXPECT_EQ(end_.Give(0, "abc"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abc");
  EXPECT_EQ(end_.next(), 3);
}

TEST_F(ReceiverTest, WhatIsNotTakenFromCustodyStaysThere) {
  EXPECT_EQ(end_.Give(3, "def"), V::kTcpKept);
  end_.upper.room = 4;
  EXPECT_EQ(end_.Give(0, "abc"), V::kTcpNoRoom);
  EXPECT_EQ(end_.next(), 4);
  EXPECT_EQ(end_.frames.kept(), 1u);
  EXPECT_TRUE(end_.Sacks().empty()) << "the peer sends the rest again";
  end_.upper.room = SIZE_MAX;
  EXPECT_EQ(end_.Give(4, "efg"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdefg");
  EXPECT_EQ(end_.frames.kept(), 0u);
}

TEST_F(ReceiverTest, WhatIsBehindAHoleGoesUpWhenTheHoleCloses) {
  EXPECT_EQ(end_.Give(6, "ghi"), V::kTcpKept);
  EXPECT_EQ(end_.Give(3, "def"), V::kTcpKept);
  EXPECT_EQ(end_.upper.stream, "");
  EXPECT_EQ(end_.frames.kept(), 2u);
  EXPECT_EQ(end_.Give(0, "abc"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdefghi");
  EXPECT_EQ(end_.frames.kept(), 0u);
  EXPECT_EQ(end_.receiver.range_count(), 0u);
}

TEST_F(ReceiverTest, DeliveredFramesStayUntilTheBurstIsExecuted) {
  EXPECT_EQ(end_.Give(3, "def"), V::kTcpKept);
  const testing::FrameBytes data = {'a', 'b', 'c'};
  auto segment = end_.At(0);
  EXPECT_EQ(end_.frames.Give(data,
                             [&](const ReceivedFrame& frame) {
                               segment.payload = frame.bytes;
                               return end_.receiver.OnData(
                                   segment, frame, end_.now, end_.upper);
                             }),
            V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdef");
  EXPECT_EQ(end_.frames.kept(), 1u);
  end_.receiver.ReleaseDelivered();
  EXPECT_EQ(end_.frames.kept(), 0u);
}

TEST_F(ReceiverTest, OfBytesThatArriveTwiceTheFirstAreUsed) {
  EXPECT_EQ(end_.Give(2, "CD"), V::kTcpKept);
  EXPECT_EQ(end_.Give(6, "GH"), V::kTcpKept);
  // In three parts around and between the two, from one frame.
  EXPECT_EQ(end_.Give(1, "bcdefghi"), V::kTcpKept);
  EXPECT_EQ(end_.receiver.range_count(), 5u);
  EXPECT_EQ(end_.frames.kept(), 3u);
  EXPECT_EQ(end_.Give(0, "a234567890"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abCDefGHi0");
  EXPECT_EQ(end_.frames.kept(), 0u);
}

TEST_F(ReceiverTest, AFullCustodyRefusesAndNeverSacks) {
  end_.frames.limit = 1;
  EXPECT_EQ(end_.Give(4, "ef"), V::kTcpKept);
  EXPECT_EQ(end_.Give(8, "ij"), V::kTcpNoRoom);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Sacks(), (Blocks{{4, 6}}));
  EXPECT_EQ(end_.Give(0, "abcd"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcdef");
}

TEST(ReceiverLimitsTest, RangesOfAConnectionAndOfAllAreLimited) {
  ReceiverEnd<> end(999, 4, 3);
  for (int32_t i = 0; i < 3; ++i)
    EXPECT_EQ(end.Give(2 + 2 * i, "x"), V::kTcpKept);
  EXPECT_EQ(end.Give(8, "x"), V::kTcpNoRoom) << "the pool is empty";
  ReceiverEnd<> alone(999, 2, 512);
  EXPECT_EQ(alone.Give(2, "x"), V::kTcpKept);
  // Two parts are needed, one is left.
  EXPECT_EQ(alone.Give(1, "abc"), V::kTcpNoRoom);
  EXPECT_EQ(alone.Give(4, "x"), V::kTcpKept);
  EXPECT_EQ(alone.Give(6, "x"), V::kTcpNoRoom);
  ReceiverEnd<> poor(999, 256, 512, 1);
  EXPECT_EQ(poor.Give(2, "x"), V::kTcpKept);
  EXPECT_EQ(poor.Give(4, "x"), V::kTcpNoRoom) << "its frames are used up";
  alone.receiver.Stop();
  EXPECT_EQ(alone.frames.kept(), 0u);
  EXPECT_EQ(alone.pool.free_count(), 512u);
}

//= RFC 9293 3.10.7.4
TEST_F(ReceiverTest, TheFinIsReceivedAfterAllBytesBeforeIt) {
  EXPECT_EQ(end_.Give(3, "def", kFinAck), V::kTcpKept);
  EXPECT_FALSE(end_.receiver.fin_delivered());
  EXPECT_EQ(end_.Give(0, "abc"), V::kAccept);
  EXPECT_TRUE(end_.receiver.fin_delivered());
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.next(), 7);
  // Again: it is old, and acknowledged.
  Quiet();
  EXPECT_EQ(end_.Give(6, "", kFinAck), V::kTcpDuplicate);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.next(), 7);
}

//= RFC 9293 3.10.7.4
TEST_F(ReceiverTest, NothingComesBehindTheFin) {
  EXPECT_EQ(end_.Give(3, "d", kFinAck), V::kTcpKept);
  EXPECT_EQ(end_.Give(4, "e"), V::kTcpAfterFin);
  EXPECT_EQ(end_.Give(6, "e"), V::kTcpAfterFin);
  EXPECT_EQ(end_.Give(2, "cDE"), V::kTcpKept) << "without its last byte";
  EXPECT_EQ(end_.Give(2, "", kFinAck), V::kTcpAfterFin) << "another FIN";
  EXPECT_EQ(end_.Give(0, "ab"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcd");
  EXPECT_TRUE(end_.receiver.fin_delivered());
  EXPECT_EQ(end_.Give(5, "f"), V::kTcpAfterFin);
}

//= RFC 9293 3.10.7.4
TEST_F(ReceiverTest, AFinIsAcknowledgedAtOnce) {
  EXPECT_EQ(end_.Give(0, "abc", kFinAck), V::kAccept);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Ack().ack, end_.config.irs + 5);
}

TEST_F(ReceiverTest, AFinBeforeBytesThatHaveArrivedIsRefused) {
  EXPECT_EQ(end_.Give(4, "e"), V::kTcpKept);
  EXPECT_EQ(end_.Give(1, "b", kFinAck), V::kTcpAfterFin);
  EXPECT_EQ(end_.Give(0, "a", kFinAck), V::kTcpAfterFin);
  EXPECT_EQ(end_.Give(2, "cd"), V::kAccept);
  EXPECT_EQ(end_.upper.stream, "abcde");
  EXPECT_FALSE(end_.receiver.fin_delivered());
}

//= RFC 5961 7, Linux tcp_oow_rate_limited()
TEST_F(ReceiverTest, EmptySegmentsElsewhereAreAnsweredTwiceInASecond) {
  const auto answered = [&](std::string_view bytes, uint8_t flags = kTcpAck) {
    Quiet();
    EXPECT_NE(end_.Give(-100, bytes, flags), V::kAccept);
    return end_.receiver.ack_now();
  };
  EXPECT_TRUE(answered(""));
  EXPECT_FALSE(answered(""));
  EXPECT_FALSE(answered("", kTcpSyn)) << "of an old connection";
  EXPECT_TRUE(answered("x")) << "data are always answered";
  EXPECT_TRUE(answered("", kFinAck)) << "a FIN, too";
  end_.now = end_.now + Receiver::kAnswerSpacing;
  EXPECT_TRUE(answered(""));
  EXPECT_FALSE(answered(""));
}

//= RFC 9293 3.4
TEST_F(ReceiverTest, ASegmentMustTouchTheWindow) {
  EXPECT_EQ(end_.Give(0, "abcd"), V::kAccept);
  (void)end_.Ack();
  const auto edge = static_cast<int32_t>(kWindow);
  EXPECT_EQ(end_.Give(edge - 1, "x"), V::kTcpKept);
  EXPECT_EQ(end_.Give(edge, "x"), V::kTcpOutOfWindow);
  EXPECT_EQ(end_.Give(edge, ""), V::kAccept) << "a peer with a full window";
  EXPECT_EQ(end_.Give(edge + 1, ""), V::kTcpOutOfWindow);
  EXPECT_EQ(end_.Give(3, ""), V::kTcpOutOfWindow);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Give(4, ""), V::kAccept);
  EXPECT_EQ(end_.Give(3, "de"), V::kAccept) << "its end is inside";
  EXPECT_EQ(end_.upper.stream, "abcde");
  Quiet();
  EXPECT_EQ(end_.Give(-9000, "", kTcpRst), V::kTcpOutOfWindow);
  EXPECT_FALSE(end_.receiver.ack_now()) << "a RST is not answered";
}

//= RFC 9293 3.10.7.4
TEST_F(ReceiverTest, WhatIsBeyondTheWindowIsCutOff) {
  const auto edge = static_cast<int32_t>(kWindow);
  EXPECT_EQ(end_.Give(edge - 2, "yzAB", kFinAck), V::kTcpKept);
  EXPECT_EQ(end_.Sacks(), (Blocks{{edge - 2, edge}}));
  EXPECT_EQ(end_.Give(0, Text(kWindow - 2)), V::kAccept);
  EXPECT_EQ(end_.upper.stream, Text(kWindow - 2) + "yz");
  EXPECT_FALSE(end_.receiver.fin_delivered());
}

//= RFC 9293 3.10.7.4
TEST_F(ReceiverTest, AZeroWindowStillTakesAcknowledgements) {
  end_.receiver.SetWindow(0);
  EXPECT_EQ(end_.Give(0, Text(kWindow)), V::kAccept);
  EXPECT_EQ(end_.Ack().window, 0);
  const testing::FrameBytes byte = {'p'};
  auto probe = end_.At(kWindow);
  probe.payload = byte;
  EXPECT_EQ(end_.receiver.Check(probe, end_.now), V::kAccept);
  EXPECT_EQ(end_.Give(kWindow, "p"), V::kTcpOutOfWindow) << "only its data";
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Give(kWindow, "", kFinAck), V::kTcpOutOfWindow);
  EXPECT_EQ(end_.next(), static_cast<int32_t>(kWindow));
  EXPECT_EQ(end_.Give(kWindow + 1, "p"), V::kTcpOutOfWindow);
}

//= RFC 2018 4
TEST_F(ReceiverTest, TheBlockThatArrivedLastIsReportedFirst) {
  (void)end_.Give(10, "ab");
  (void)end_.Give(20, "ab");
  (void)end_.Give(30, "ab");
  EXPECT_EQ(end_.Sacks(), (Blocks{{30, 32}, {20, 22}, {10, 12}}));
  (void)end_.Give(12, "cd");
  EXPECT_EQ(end_.Sacks(), (Blocks{{10, 14}, {30, 32}, {20, 22}}));
  (void)end_.Give(14, "efghij");
  EXPECT_EQ(end_.Sacks(), (Blocks{{10, 22}, {30, 32}}));
  (void)end_.Give(0, Text(10));
  EXPECT_EQ(end_.Sacks(), (Blocks{{30, 32}}));
  EXPECT_EQ(end_.next(), 22);
}

//= RFC 2018 4
TEST_F(ReceiverTest, AsManyBlocksAreReportedAsFit) {
  for (int32_t i = 1; i <= 6; ++i) (void)end_.Give(10 * i, "a");
  EXPECT_EQ(end_.Sacks().size(), 4u);
  EXPECT_EQ(end_.Sacks(40 - 12).size(), 3u) << "beside timestamps";
  EXPECT_EQ(end_.Sacks(12), (Blocks{{60, 61}}));
  EXPECT_EQ(end_.Sacks(11), Blocks());
  (void)end_.Give(70, "a");
  (void)end_.Ack(0);
  EXPECT_TRUE(end_.receiver.ack_now()) << "its blocks were not sent";
}

TEST_F(ReceiverTest, WithoutAgreementNoBlocksAreSent) {
  end_.config.sack = false;
  end_.Start();
  (void)end_.Give(10, "a");
  EXPECT_EQ(end_.Sacks(), Blocks());
  EXPECT_FALSE(end_.receiver.ack_now());
}

//= RFC 2883 4
TEST_F(ReceiverTest, ADuplicateIsReportedOnceAndFirst) {
  (void)end_.Give(0, "abcdef");
  (void)end_.Give(8, "ij");
  EXPECT_EQ(end_.Give(2, "cd"), V::kTcpDuplicate);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Sacks(), (Blocks{{2, 4}, {8, 10}}));
  EXPECT_EQ(end_.Sacks(), (Blocks{{8, 10}}));
  // A part of a segment was there before.
  EXPECT_EQ(end_.Give(4, "efgh"), V::kAccept);
  EXPECT_EQ(end_.Sacks(), (Blocks{{4, 6}}));
}

//= RFC 2883 4
TEST_F(ReceiverTest, ADuplicateBehindAHoleIsFollowedByItsBlock) {
  (void)end_.Give(10, "abcdef");
  (void)end_.Give(20, "abcdef");
  EXPECT_EQ(end_.Give(12, "cd"), V::kTcpDuplicate);
  EXPECT_EQ(end_.Sacks(), (Blocks{{12, 14}, {10, 16}, {20, 26}}));
  // Two parts are duplicates: the first is reported.
  EXPECT_EQ(end_.Give(14, Text(10)), V::kTcpKept);
  EXPECT_EQ(end_.Sacks(), (Blocks{{14, 16}, {10, 26}}));
  // And in a segment that closes the hole.
  EXPECT_EQ(end_.Give(0, Text(12)), V::kAccept);
  EXPECT_EQ(end_.Sacks(), (Blocks{{10, 12}}));
  // What was delivered comes before what was held.
  EXPECT_EQ(end_.Give(28, "a"), V::kTcpKept);
  EXPECT_EQ(end_.Give(24, Text(5)), V::kAccept);
  EXPECT_EQ(end_.Sacks(), (Blocks{{24, 26}}));
}

//= RFC 9293 3.8.6.3, RFC 5681 4.2
TEST_F(ReceiverTest, EverySecondFullSegmentIsAcknowledgedAtOnce) {
  EXPECT_EQ(end_.Give(0, Text(kMss)), V::kAccept);
  EXPECT_FALSE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Give(kMss, Text(kMss)), V::kAccept);
  EXPECT_TRUE(end_.receiver.ack_now());
  EXPECT_EQ(end_.Ack().ack, end_.config.irs + 1 + 2 * kMss);
}

//= RFC 5681 4.2
TEST_F(ReceiverTest, AFullSegmentIsWhatThePeerMakesOfIt) {
  // The path is smaller than our MSS.
  EXPECT_EQ(end_.Give(0, Text(700)), V::kAccept);
  EXPECT_EQ(end_.Give(700, Text(700)), V::kAccept);
  EXPECT_TRUE(end_.receiver.ack_now());
  end_.Start();
  for (int32_t i = 0; i < 100; ++i) EXPECT_EQ(end_.Give(i, "x"), V::kAccept);
  EXPECT_FALSE(end_.receiver.ack_now()) << "these are small ones";
}

//= RFC 9293 3.8.6.3
TEST_F(ReceiverTest, ALoneSegmentIsAcknowledgedAfterTheDelay) {
  EXPECT_TRUE(end_.receiver.deadline().IsInfinite());
  EXPECT_EQ(end_.Give(0, "x"), V::kAccept);
  const Time due = end_.now + end_.config.ack_delay;
  EXPECT_EQ(end_.receiver.deadline(), due);
  end_.now = end_.now + Duration::Microseconds(500);
  EXPECT_EQ(end_.Give(1, "x"), V::kAccept);
  EXPECT_EQ(end_.receiver.deadline(), due) << "the second does not extend it";
  end_.receiver.OnTimer(due - Duration::Nanoseconds(1));
  EXPECT_FALSE(end_.receiver.ack_now());
  end_.receiver.OnTimer(due);
  EXPECT_TRUE(end_.receiver.ack_now());
  (void)end_.Ack();
  EXPECT_FALSE(end_.receiver.ack_now());
  EXPECT_TRUE(end_.receiver.deadline().IsInfinite());
}

TEST_F(ReceiverTest, TheLayerAboveMayAskForAnAcknowledgement) {
  EXPECT_EQ(end_.Give(0, "x"), V::kAccept);
  end_.receiver.AckNow();
  EXPECT_TRUE(end_.receiver.ack_now());
}

//= RFC 5681 4.2
TEST_F(ReceiverTest, GapsTheirClosingAndDuplicatesAreAcknowledgedAtOnce) {
  (void)end_.Give(4, "e");
  EXPECT_TRUE(end_.receiver.ack_now()) << "behind a gap";
  Quiet();
  (void)end_.Give(0, "ab");
  EXPECT_TRUE(end_.receiver.ack_now()) << "a part of the gap";
  Quiet();
  (void)end_.Give(2, "cd");
  EXPECT_TRUE(end_.receiver.ack_now()) << "the rest";
  Quiet();
  (void)end_.Give(0, "a");
  EXPECT_TRUE(end_.receiver.ack_now()) << "a duplicate";
}

TEST_F(ReceiverTest, ADataSegmentCarriesTheAcknowledgement) {
  (void)end_.Give(0, "ab");
  (void)end_.Ack(0);
  EXPECT_TRUE(end_.receiver.deadline().IsInfinite());
}

}  // namespace
}  // namespace urnic::tcp
