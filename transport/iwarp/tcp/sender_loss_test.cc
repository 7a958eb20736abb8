// How losses are found and repaired.

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/sender_fixture.h"

namespace urnic::tcp {
namespace {

class SenderLossTest : public SenderTest {
 protected:
  SenderLossTest() { Measured(Ms(10)); }
  // The connection starts again without SACK.
  void WithoutSack() {
    Start({.mss = kMss, .sack = false});
    Measured(Ms(10));
  }
};

//= RFC 8985 6.2
TEST_F(SenderLossTest, ThreeSackedSegmentsShowThatTheOneBeforeIsLost) {
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{1000, 2000}});
  Ack(0, {{1000, 3000}});
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 0u);
  EXPECT_EQ(sender_.cc.losses, 0u);
  Ack(0, {{1000, 4000}});
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 1u);
  EXPECT_EQ(sender_.cc.losses, 1u);
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 0u);
  EXPECT_EQ(sent[0].source, 0u);
  EXPECT_TRUE(sent[0].is_retransmission);
}

//= RFC 8985 8
//= RFC 8985 6.2
TEST_F(SenderLossTest, FewerSackedSegmentsWaitForAQuarterOfTheRoundTrip) {
  SendChunks(3);
  Pass(Ms(10));
  Ack(0, {{1000, 2000}});
  EXPECT_EQ(sender_.deadline(), now_ + Us(2500));
  EXPECT_EQ(Send().size(), 0u);
  FireNext();
  EXPECT_TRUE(sender_.recovering());
  EXPECT_EQ(Send().size(), 1u);
}

//= RFC 8985 6.2
TEST_F(SenderLossTest, AReorderedSegmentIsNotResent) {
  SendChunks(3);
  Pass(Ms(10));
  Ack(0, {{1000, 2000}});
  Pass(Ms(2));
  Ack(2000);
  EXPECT_EQ(Send().size(), 0u);
  EXPECT_TRUE(sender_.scoreboard().rack.reordering_seen);
  EXPECT_EQ(sender_.cc.losses, 0u);
}

//= RFC 8985 6.2
TEST_F(SenderLossTest, TheOrderOfTheBlocksIsNoReordering) {
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{5000, 6000}, {2000, 3000}});
  EXPECT_EQ(sender_.scoreboard().sacked_bytes(), 2000u);
  EXPECT_FALSE(sender_.scoreboard().rack.reordering_seen);
}

//= RFC 8985 6.2
TEST_F(SenderLossTest, SegmentsSentLaterThanTheDeliveredOneAreNotLost) {
  upper_.Add(4, kMss);
  Send(4);
  Pass(Ms(5));
  SendChunks(4);
  Pass(Ms(5));
  Ack(0, {{1000, 4000}});
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 1u);
}

//= RFC 8985 6.2
TEST_F(SenderLossTest, ALostRetransmissionIsFoundAndResent) {
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{1000, 8000}});
  EXPECT_EQ(At(Send().at(0)), 0u);
  Pass(Us(100));
  SendChunks(2);  // sent after the retransmission
  Pass(Ms(10));
  Ack(0, {{1000, 9000}});
  Pass(Ms(10));
  Fire();
  auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 0u);
  EXPECT_EQ(sender_.cc.losses, 1u) << "of the same window";
}

//= RFC 8985 6.2
TEST_F(SenderLossTest, AnAckThatIsTooEarlyForTheRetransmissionProvesNothing) {
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{2000, 5000}});
  EXPECT_EQ(Send().size(), 2u);
  Pass(Ms(1));
  const Time sent = sender_.scoreboard().rack.sent;
  Ack(1000, {{2000, 5000}});
  EXPECT_EQ(sender_.scoreboard().rack.sent, sent)
      << "1 ms is less than a round trip: the original has arrived";
}

//= RFC 6675 5
TEST_F(SenderLossTest, ALossReducesOnceInAWindow) {
  SendChunks(10);
  Pass(Ms(10));
  Ack(0, {{1000, 4000}});
  Send();
  Ack(0, {{5000, 8000}, {1000, 4000}});
  Send();
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 0u);
  EXPECT_EQ(sender_.counters().retransmissions, 2u);
  EXPECT_EQ(sender_.cc.losses, 1u);
  EXPECT_EQ(sender_.cc.recovered, 0u);
  Pass(Ms(10));
  Ack(10000);
  EXPECT_EQ(sender_.cc.recovered, 1u);
  EXPECT_EQ(sender_.cc.resent, 2u);
  EXPECT_EQ(sender_.cc.window(), 5u);
  EXPECT_FALSE(sender_.recovering());
}

//= RFC 9937 6.2
TEST_F(SenderLossTest, InRecoveryHalfOfWhatIsDeliveredIsSent) {
  sender_.cc.packets = 20;
  upper_.Add(100, kMss);
  EXPECT_EQ(Send().size(), 20u);
  Pass(Ms(10));
  Ack(0, {{1000, 4000}});
  size_t sent = Send().size();
  for (uint32_t end = 5000; end <= 20000; end += 1000) {
    Ack(0, {{1000, end}});
    sent += Send().size();
  }
  EXPECT_GE(sent, 9u);
  EXPECT_LE(sent, 10u);
  EXPECT_LE(sender_.pipe(), 10u * kMss);
}

//= RFC 9937 6.2
TEST_F(SenderLossTest, BelowTheNewWindowOneMoreIsSentWhileNothingMoreIsLost) {
  sender_.cc.packets = 20;
  upper_.Add(100, kMss);
  EXPECT_EQ(Send().size(), 20u);
  Pass(Ms(10));
  Ack(0, {{12000, 13000}, {14000, 15000}, {16000, 17000}});
  EXPECT_EQ(Send().size(), 3u);
  Pass(Ms(5));
  Ack(1000, {{12000, 13000}, {14000, 15000}, {16000, 17000}});
  EXPECT_EQ(Send().size(), 2u) << "one for the delivered one, one more";
  Ack(2000, {{19000, 20000}, {12000, 13000}, {14000, 15000}});
  EXPECT_EQ(Send().size(), 2u) << "two are delivered, but more are lost";
}

//= RFC 8985 6.2
TEST_F(SenderLossTest, RackCountsRecoveries) {
  SendChunks(8);
  Pass(Ms(10));
  Ack(0, {{1000, 8000}});
  Send();
  EXPECT_EQ(sender_.scoreboard().rack.persist, 16);
  Pass(Ms(10));
  Ack(8000);
  EXPECT_EQ(sender_.scoreboard().rack.persist, 15);
}

//= RFC 8985 7.2
//= RFC 8985 7.3
TEST_F(SenderLossTest, ATailIsProbedAfterTwoRoundTrips) {
  SendChunks(4);
  EXPECT_EQ(sender_.deadline(), now_ + Ms(20));
  FireNext();
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 3000u) << "the last one";
  EXPECT_TRUE(sent[0].is_retransmission);
  EXPECT_EQ(sender_.counters().tail_probes, 1u);
  EXPECT_EQ(sender_.cc.timeouts, 0u);
  EXPECT_EQ(sender_.deadline(), now_ + sender_.smoothed_round_trip() + Ms(200))
      << "one probe, then the time-out";
}

//= RFC 8985 7.2
TEST_F(SenderLossTest, ALoneSegmentWaitsForADelayedAcknowledgement) {
  Start({.mss = kMss, .max_ack_delay = Ms(50)});
  Measured(Ms(10));
  SendChunks(1);
  EXPECT_EQ(sender_.deadline(), now_ + Ms(20 + 50));
}

//= RFC 8985 7.2
//= RFC 8985 7.3
TEST_F(SenderLossTest, AProbeThatIsAsLateAsTheTimeoutReplacesIt) {
  SendChunks(1);
  EXPECT_EQ(sender_.deadline(), now_ + Ms(210));
  FireNext();
  EXPECT_GE(sender_.deadline(), now_ + Ms(200));
  EXPECT_EQ(sender_.cc.timeouts, 0u);
  EXPECT_EQ(Send().size(), 1u);
}

//= RFC 8985 7.3
TEST_F(SenderLossTest, AProbeSendsNewDataIfThereAreAny) {
  sender_.cc.packets = 4;
  SendChunks(6);
  FireNext();
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 4000u);
  EXPECT_FALSE(sent[0].is_retransmission);
}

//= RFC 8985 7.3
TEST_F(SenderLossTest, ThereIsNoSecondProbeBeforeARoundTripIsMeasured) {
  SendChunks(2);
  FireNext();
  Send();
  Pass(Ms(10));
  Ack(2000, {{1000, 2000}});  // the probe was a duplicate
  SendChunks(1);
  EXPECT_LT(sender_.deadline() - now_, Ms(211 + 20)) << "a probe again";
  Start({.mss = kMss});
  Measured(Ms(10));
  SendChunks(1);
  FireNext();
  Send();
  // Acknowledged, but what it measures is unknown.
  Pass(Ms(10));
  Ack(1000, {{0, 1000}});
  SendChunks(2);
  EXPECT_GT(sender_.deadline() - now_, Ms(200)) << "the time-out";
}

//= RFC 8985 7.3
TEST_F(SenderLossTest, ThereIsNoSecondProbeWhileOneIsUnderWay) {
  SendChunks(4);
  FireNext();
  Send();
  Pass(Ms(1));
  Ack(1000);
  EXPECT_GT(sender_.deadline() - now_, Ms(200)) << "the time-out";
}

//= RFC 8985 7.4.2
TEST_F(SenderLossTest, ALossThatTheProbeRepairedReducesTheWindow) {
  SendChunks(4);
  Pass(Ms(10));
  Ack(3000);
  FireNext();
  SendChunks(1);
  ASSERT_EQ(sender_.counters().tail_probes, 1u);
  Start({.mss = kMss});
  Measured(Ms(10));
  SendChunks(4);
  FireNext();
  Send();  // the fourth, again
  SendChunks(1);
  Pass(Ms(10));
  Ack(5000);
  EXPECT_EQ(sender_.cc.losses, 1u);
}

//= RFC 8985 7.4.2
TEST_F(SenderLossTest, AProbeThatWasNotNecessaryReducesNothing) {
  SendChunks(4);
  FireNext();
  Send();
  SendChunks(1);
  Pass(Ms(10));
  Ack(4000, {{3000, 4000}});  // D-SACK
  Ack(5000);
  EXPECT_EQ(sender_.cc.losses, 0u);
}

//= RFC 8985 7.4.2
TEST_F(SenderLossTest, ADuplicateAfterTheProbeMeansThatBothCopiesArrived) {
  SendChunks(4);
  FireNext();
  Send();
  Pass(Ms(10));
  Ack(4000);
  SendChunks(1);
  Ack(4000);  // for the probe
  Ack(5000);
  EXPECT_EQ(sender_.cc.losses, 0u);
}

//= RFC 8985 6.3
//= RFC 6298 5.5
TEST_F(SenderLossTest, ATimeoutResendsTheFirstSegmentAndDoubles) {
  SendChunks(3);
  FireNext();
  Send();  // the probe
  const Time since = now_;
  FireNext();
  const Duration first = now_ - since;
  EXPECT_EQ(sender_.cc.timeouts, 1u);
  EXPECT_EQ(sender_.timeouts(), 1u);
  auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 0u);
  EXPECT_EQ(sender_.deadline(), now_ + first * 2);
  FireNext();
  //= RFC 5681 3.1
  EXPECT_EQ(sender_.cc.timeouts, 1u) << "the same segment";
  EXPECT_EQ(sender_.timeouts(), 2u);
  EXPECT_EQ(Send().size(), 1u);
}

//= RFC 6298 5.2
//= RFC 6298 5.3
TEST_F(SenderLossTest, ProgressStartsTheTimerAgain) {
  WithoutSack();
  SendChunks(2);
  const Time first = sender_.deadline();
  EXPECT_EQ(first, now_ + Ms(210)) << "no probe without SACK";
  Pass(Ms(10));
  Ack(1000);
  EXPECT_GE(sender_.deadline(), first + Ms(9));
  Ack(2000);
  EXPECT_TRUE(sender_.deadline().IsInfinite());
}

//= RFC 8985 6.3
TEST_F(SenderLossTest, ATimeoutLeavesWhatWasSentJustNow) {
  SendChunks(4);
  Pass(Ms(10));
  Ack(1000);  // RACK knows the round trip
  FireNext();
  Send();  // the probe
  now_ = sender_.deadline() - Ms(5);
  SendChunks(2);
  FireNext();
  EXPECT_EQ(sender_.cc.timeouts, 1u);
  EXPECT_EQ(sender_.pipe(), 2000u);
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 3u);
}

//= RFC 2018 8
TEST_F(SenderLossTest, AfterProofOfRenegingTheSacksAreForgotten) {
  SendChunks(4);
  Pass(Ms(10));
  Ack(0, {{1000, 4000}});
  Send();
  Pass(Ms(10));
  Ack(1000);  // and not 4000
  EXPECT_EQ(sender_.scoreboard().sacked_segments(), 3u);
  FireNext();
  EXPECT_EQ(sender_.counters().reneged, 1u);
  EXPECT_EQ(sender_.scoreboard().sacked_segments(), 0u);
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 1000u);
}

//= RFC 5681 3.2
//= RFC 6582 3.2
TEST_F(SenderLossTest, WithoutSackThreeDuplicatesAndPartialAcksShowLosses) {
  WithoutSack();
  SendChunks(10);
  Pass(Ms(10));
  Ack(0);
  Ack(0);
  EXPECT_EQ(sender_.cc.losses, 0u);
  Ack(0);
  EXPECT_EQ(sender_.cc.losses, 1u);
  EXPECT_EQ(At(Send().at(0)), 0u);
  Pass(Ms(10));
  Ack(5000);
  EXPECT_EQ(At(Send().at(0)), 5000u);
  EXPECT_EQ(sender_.cc.losses, 1u);
  Pass(Ms(10));
  Ack(10000);
  EXPECT_EQ(sender_.cc.recovered, 1u);
  // Duplicates that the repair has caused do not start another one.
  SendChunks(4);
  for (int i = 0; i < 4; ++i) Ack(10000);
  EXPECT_EQ(sender_.cc.losses, 1u);
}

//= RFC 5681 2
TEST_F(SenderLossTest, WindowUpdatesAndDataAreNotDuplicates) {
  WithoutSack();
  SendChunks(10);
  for (int i = 0; i < 4; ++i) {
    ++window_;
    Ack(0);
  }
  const std::vector<uint8_t> payload(8);
  for (int i = 0; i < 4; ++i) {
    auto segment = Segment(0);
    segment.payload = payload;
    OnAck(segment);
  }
  EXPECT_EQ(sender_.cc.losses, 0u);
}

//= RFC 6298 3
TEST_F(SenderLossTest, AResentSegmentMeasuresNothing) {
  WithoutSack();
  SendChunks(1);
  FireNext();
  Send();
  const Duration before = sender_.smoothed_round_trip();
  Pass(Ms(1));
  Ack(1000);
  EXPECT_EQ(sender_.smoothed_round_trip(), before);
}

//= RFC 7323 4.2
TEST_F(SenderLossTest, AnEchoedTimeMeasuresAResentSegment) {
  WithoutSack();
  SendChunks(1);
  FireNext();
  Send();
  const Time sent = now_;
  const Duration before = sender_.smoothed_round_trip();
  Pass(Ms(100));
  AckWithEcho(1000, sent);
  EXPECT_GT(sender_.smoothed_round_trip(), before);
}

//= RFC 4821 7.4
TEST_F(SenderLossTest, ASegmentLargerThanTheMssProbesThePath) {
  sender_.ProbeMtu(1500);
  upper_.queue = {600, 1500, 1500};
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0].bytes, 600u) << "too small to probe";
  EXPECT_EQ(sent[1].bytes, 1500u);
  EXPECT_EQ(sent[2].bytes, 1000u) << "one probe";
  EXPECT_TRUE(sender_.mtu_probe_under_way());
  EXPECT_EQ(sender_.first_unacknowledged_bytes(), 600u);
  Pass(Ms(10));
  Ack(600);
  EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kNone);
  Ack(2100);
  EXPECT_EQ(sender_.largest_delivered(), 1000u) << "the MSS, so far";
  EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kArrived);
  EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kNone);
}

//= RFC 4821 7.6.2
TEST_F(SenderLossTest, ALostProbeOfThePathIsResentInPartsAndReducesNothing) {
  sender_.ProbeMtu(1500);
  upper_.queue = {1500, 1000, 1000, 1000};
  ASSERT_EQ(Send().size(), 4u);
  Pass(Ms(10));
  Ack(0, {{1500, 4500}});
  EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kLost);
  EXPECT_EQ(sender_.cc.losses, 0u);
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].bytes, 999u) << "the rest does not begin at 1000";
  EXPECT_EQ(sent[1].bytes, 501u);
  Pass(Ms(10));
  Ack(4500);
  EXPECT_TRUE(sender_.idle());
}

//= RFC 4821 7.4
//= RFC 4821 7.6.2
TEST_F(SenderLossTest, WithoutSackThreeDuplicatesShowTheLossOfAProbe) {
  WithoutSack();
  sender_.ProbeMtu(1500);
  upper_.queue = {1500, 1000, 1000, 1000};
  ASSERT_EQ(Send().size(), 4u);
  Pass(Ms(10));
  Ack(0);
  Ack(0);
  EXPECT_TRUE(sender_.mtu_probe_under_way());
  Ack(0);
  EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kLost);
  EXPECT_EQ(sender_.cc.losses, 0u);
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].bytes, 999u);
  EXPECT_EQ(sent[1].bytes, 501u);
  Pass(Ms(10));
  Ack(4500);
  EXPECT_TRUE(sender_.idle());
}

// Its loss must be shown by the segments behind it.
//= RFC 4821 7.4
TEST_F(SenderLossTest, WithoutSackAProbeNeedsRoomForThreeMore) {
  WithoutSack();
  window_ = 4499;
  Ack(0);
  sender_.ProbeMtu(1500);
  upper_.queue = {1500};
  (void)Send();
  EXPECT_FALSE(sender_.mtu_probe_under_way());
}

TEST_F(SenderLossTest, WithoutSackAProbeWithLittleBehindItCostsNoReduction) {
  for (const uint32_t behind : {0u, 2u}) {
    WithoutSack();
    sender_.ProbeMtu(1500);
    upper_.queue = {1500};
    for (uint32_t i = 0; i < behind; ++i) upper_.queue.push_back(1000);
    ASSERT_EQ(Send().size(), 1u + behind);
    Pass(Ms(10));
    for (uint32_t i = 0; i < behind; ++i) Ack(0);
    FireNext();
    EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kLost) << behind;
    EXPECT_EQ(sender_.counters().timeouts, 0u);
    const auto sent = Send();
    ASSERT_EQ(sent.size(), 2u) << behind;
    EXPECT_EQ(At(sent[0]), 0u);
    Ack(1500 + behind * 1000);
    EXPECT_TRUE(sender_.idle());
  }
}

//= RFC 4821 7.6.2
TEST_F(SenderLossTest, AProbeOfThePathThatIsLostWithOthersSaysNothing) {
  sender_.ProbeMtu(1500);
  upper_.queue = {1500, 1000, 1000, 1000, 1000};
  ASSERT_EQ(Send().size(), 5u);
  Pass(Ms(10));
  Ack(0, {{2500, 5500}});
  EXPECT_EQ(sender_.TakeMtuProbeFate(), MtuProbeFate::kUnclear);
  EXPECT_EQ(sender_.cc.losses, 1u);
}

TEST_F(SenderLossTest, SmallNewChunksDoNotOvertakeLostSegments) {
  upper_.queue = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 500};
  EXPECT_EQ(Send().size(), 8u);
  upper_.Add(5, 10);
  Pass(Ms(10));
  Ack(0, {{3000, 4000}, {5000, 6000}, {7000, 7500}});
  EXPECT_EQ(sender_.scoreboard().lost_segments(), 5u);
  EXPECT_EQ(Send().size(), 2u) << "2500 bytes: two of the lost ones";
}

TEST_F(SenderLossTest, LostSegmentsAreResentBeforeNewData) {
  SendChunks(10);
  upper_.Add(10, kMss);
  Pass(Ms(10));
  Ack(0, {{3000, 10000}});
  const auto sent = Send();
  ASSERT_GE(sent.size(), 4u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(At(sent[i]), i * 1000);
  EXPECT_FALSE(sent[3].is_retransmission);
}

//= RFC 3168 6.1.2
//= RFC 3168 6.1.5
TEST_F(SenderLossTest, AfterALossNewDataCarryCwrAndRetransmissionsNoEct) {
  Start({.mss = kMss, .ecn = true});
  Measured(Ms(10));
  SendChunks(10);
  upper_.Add(10, kMss);
  Pass(Ms(10));
  Ack(0, {{1000, 10000}});
  const auto sent = Send();
  ASSERT_GE(sent.size(), 2u);
  EXPECT_FALSE(sent[0].cwr);
  EXPECT_FALSE(sent[0].may_be_ect());
  EXPECT_TRUE(sent[1].cwr);
  EXPECT_TRUE(sent[1].may_be_ect());
}

}  // namespace
}  // namespace urnic::tcp
