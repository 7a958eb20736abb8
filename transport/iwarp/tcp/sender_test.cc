// What is sent when nothing is lost; windows, FIN, bad acknowledgements.

#include "transport/iwarp/tcp/sender.h"

#include <gtest/gtest.h>

#include <array>

#include "transport/iwarp/tcp/sender_fixture.h"

namespace urnic::tcp {
namespace {

TEST_F(SenderTest, AChunkIsASegment) {
  upper_.queue = {1000, 1, 999};
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1].bytes, 1u);
  EXPECT_EQ(sent[1].source, 1u);
  EXPECT_EQ(At(sent[2]), 1001u);
  EXPECT_EQ(sent[2].offset, 0u);
  EXPECT_EQ(Ack(2000), AckResult::kNew);
  EXPECT_EQ(upper_.acked, 3u);
  EXPECT_TRUE(sender_.idle());
}

//= RFC 9293 3.9.1.2
TEST_F(SenderTest, TheLastSegmentThatCanBeSentIsPushed) {
  upper_.Add(5, kMss);
  auto sent = Send(2);
  EXPECT_FALSE(sent[1].push) << "more follows";
  sent = Send();
  EXPECT_FALSE(sent[1].push);
  EXPECT_TRUE(sent[2].push);
}

TEST_F(SenderTest, TheCongestionWindowLimitsWhatIsUnderWay) {
  sender_.cc.packets = 4;
  EXPECT_EQ(SendChunks(10).size(), 4u);
  EXPECT_EQ(Send().size(), 0u);
  Ack(1000);
  EXPECT_EQ(Send().size(), 1u);
}

TEST_F(SenderTest, ThePeersWindowLimitsWhatIsSent) {
  window_ = 2500;
  Start({.mss = kMss}, 2500);
  EXPECT_EQ(SendChunks(10).size(), 2u) << "the third chunk stays whole";
  Ack(1000);
  EXPECT_EQ(Send().size(), 1u);
}

TEST_F(SenderTest, PacingSpacesSegments) {
  sender_.cc.pacer.SetRate(uint64_t{8} * 1000 * 10000);  // 1000 bytes: 100 us
  sender_.cc.pacer.next_send = now_;
  EXPECT_EQ(SendChunks(3).size(), 1u);
  EXPECT_EQ(sender_.deadline(), now_ + Us(100));
  FireNext();
  EXPECT_EQ(Send().size(), 1u);
}

TEST_F(SenderTest, PacingMakesUpForAThreadThatWasAway) {
  sender_.cc.packets = 40;
  sender_.cc.pacer.SetRate(uint64_t{8} * 1000 * 10000);  // 1000 bytes: 100 us
  sender_.cc.pacer.next_send = now_;
  EXPECT_EQ(SendChunks(30).size(), 1u);
  Pass(Us(550));
  EXPECT_EQ(Send().size(), 5u) << "those of 100, 200 .. 500 us";
  EXPECT_EQ(sender_.deadline(), now_ + Us(50));
  Pass(Ms(5));
  EXPECT_EQ(Send().size(), 11u) << "of the last millisecond, not of all five";
  EXPECT_EQ(sender_.deadline(), now_ + Us(100));
  Ack(17000);
  Pass(Ms(5));
  EXPECT_EQ(Send().size(), 1u) << "an idle time is not made up for";
}

//= RFC 6298 5.1
TEST_F(SenderTest, AnIdleConnectionHasNoRecordsAndNoTimer) {
  const uint32_t blocks = slab_.free_blocks();
  SendChunks(10);
  EXPECT_LT(slab_.free_blocks(), blocks);
  EXPECT_FALSE(sender_.deadline().IsInfinite());
  Ack(10000);
  EXPECT_EQ(slab_.free_blocks(), blocks);
  EXPECT_TRUE(sender_.deadline().IsInfinite());
}

TEST_F(SenderTest, WithoutMemoryForRecordsItWaits) {
  std::vector<uint32_t> blocks;
  while (true) {
    const uint32_t block = slab_.Take(0);
    if (block == SegmentSlab::kNone) break;
    blocks.push_back(block);
  }
  EXPECT_EQ(SendChunks(1).size(), 0u);
  EXPECT_EQ(sender_.counters().no_records, 1u);
  EXPECT_FALSE(sender_.deadline().IsInfinite()) << "it tries again";
  slab_.Release(blocks[0], 0);
  FireNext();
  EXPECT_EQ(Send().size(), 1u);
  Ack(1000);
  for (size_t i = 1; i < blocks.size(); ++i) slab_.Release(blocks[i], 0);
}

TEST_F(SenderTest, TheFinFollowsTheLastChunkAndIsResentUntilAcknowledged) {
  sender_.Finish();
  auto sent = SendChunks(1);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_TRUE(sent[1].fin);
  EXPECT_EQ(sent[1].bytes, 0u);
  EXPECT_EQ(At(sent[1]), 1000u);
  Ack(1000);
  EXPECT_EQ(upper_.acked, 1u);
  EXPECT_FALSE(sender_.fin_acked());
  for (int i = 0; i < 3; ++i) {
    FireNext();
    sent = Send();
    if (!sent.empty()) break;
  }
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].fin);
  EXPECT_TRUE(sent[0].is_retransmission);
  Ack(1001);
  EXPECT_TRUE(sender_.fin_acked());
  EXPECT_EQ(Send().size(), 0u) << "one FIN";
}

//= RFC 9293 3.10.7.4
TEST_F(SenderTest, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  SendChunks(2);
  EXPECT_EQ(Ack(2001), AckResult::kUnsent);
  EXPECT_EQ(sender_.counters().unsent_acks, 1u);
  EXPECT_EQ(upper_.acked, 0u);
  EXPECT_EQ(sender_.cc.acked_bytes, 0u);
}

//= RFC 5961 5.2
TEST_F(SenderTest, AnOldAcknowledgementIsIgnoredAndATooOldOneChallenged) {
  Start({.mss = kMss}, 5000);
  SendChunks(4);
  Ack(4000);
  EXPECT_EQ(Ack(3000), AckResult::kOld);
  EXPECT_EQ(Ack(static_cast<uint32_t>(-1000)), AckResult::kOld);
  EXPECT_EQ(Ack(static_cast<uint32_t>(-1001)), AckResult::kTooOld);
}

//= RFC 3465 2.1
TEST_F(SenderTest, ManySmallAcknowledgementsCountAsTheirBytes) {
  SendChunks(4);
  for (uint32_t i = 1; i <= 100; ++i) Ack(i * 10);
  EXPECT_EQ(sender_.cc.acked_bytes, 1000u);
  EXPECT_EQ(upper_.acked, 1u);
}

TEST_F(SenderTest, ForgedSackBlocksAreCountedAndIgnored) {
  SendChunks(4);
  Ack(0, {{1000, 2000}, {3000, 4001}, {3000, 3000}, {3000, 2000}});
  EXPECT_EQ(sender_.counters().bad_sacks, 3u);
  EXPECT_EQ(sender_.scoreboard().sacked_bytes(), 1000u);
  // They must not become valid by wrapping around.
  Ack(0, {{1000, 2000}, {0x70000000, 0xf0000000}});
  EXPECT_EQ(sender_.counters().bad_sacks, 4u);
  EXPECT_EQ(sender_.scoreboard().sacked_bytes(), 1000u);
}

TEST_F(SenderTest, SackBlocksThatWereNotNegotiatedMeanNothing) {
  Start({.mss = kMss, .sack = false});
  SendChunks(4);
  Ack(0, {{1000, 2000}});
  EXPECT_EQ(sender_.scoreboard().sacked_bytes(), 0u);
}

//= RFC 2018 5
TEST_F(SenderTest, ABlockSacksOnlyWholeSegments) {
  SendChunks(4);
  Ack(0, {{1500, 3500}});
  EXPECT_EQ(sender_.scoreboard().sacked_bytes(), 1000u);
  EXPECT_EQ(sender_.pipe(), 3000u);
}

//= RFC 9293 3.8.6.1
TEST_F(SenderTest, AClosedWindowIsProbedEverLessOftenUntilItOpens) {
  SendChunks(1);
  window_ = 0;
  Ack(1000);
  EXPECT_EQ(SendChunks(2).size(), 0u);
  Duration before;
  for (int i = 0; i < 5; ++i) {
    const Time since = now_;
    FireNext();
    EXPECT_GE(now_ - since, before * 2);
    before = now_ - since;
    const auto sent = Send();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(At(sent[0]), 999u);
    EXPECT_EQ(sent[0].bytes, 0u);
    EXPECT_EQ(Ack(1000), AckResult::kDuplicate);
    //= RFC 9293 3.8.3
    EXPECT_EQ(sender_.timeouts(), 0u) << "the peer lives";
  }
  EXPECT_EQ(sender_.counters().window_probes, 5u);
  window_ = 10000;
  Ack(1000);
  EXPECT_EQ(Send().size(), 2u);
  EXPECT_LE(sender_.deadline() - now_, Duration::Seconds(1))
      << "the back-off was that of the probes";
}

//= RFC 9293 3.8.6.1
TEST_F(SenderTest, AClosedWindowIsProbedIfOnlyAFinWaits) {
  SendChunks(1);
  window_ = 0;
  Ack(1000);
  sender_.Finish();
  ASSERT_TRUE(sender_.HasWork());
  EXPECT_EQ(Send().size(), 0u);
  EXPECT_FALSE(sender_.HasWork()) << "the timer runs";
  FireNext();
  const auto probe = Send();
  ASSERT_EQ(probe.size(), 1u);
  EXPECT_EQ(At(probe[0]), 999u);
  EXPECT_FALSE(probe[0].fin);
  EXPECT_EQ(sender_.timeouts(), 1u) << "not answered yet";
  window_ = 1000;
  Ack(1000);
  const auto fin = Send();
  ASSERT_EQ(fin.size(), 1u);
  EXPECT_TRUE(fin[0].fin);
}

TEST_F(SenderTest, ProbesThatAreNotAnsweredAreReportedToTheConnection) {
  SendChunks(1);
  window_ = 0;
  Ack(1000);
  SendChunks(1);
  for (uint32_t i = 1; i < 4; ++i) {
    FireNext();
    Send();
    EXPECT_EQ(sender_.timeouts(), i);
  }
}

//= RFC 9293 3.8.6.2.1
TEST_F(SenderTest, AChunkIsDividedForASmallWindowOnlyAfterAWhile) {
  SendChunks(1);
  window_ = 600;
  Ack(1000);
  EXPECT_EQ(SendChunks(1).size(), 0u);
  FireNext();
  auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, 599u) << "the rest does not begin at 600";
  Ack(1599);
  sent = Send();
  ASSERT_EQ(sent.size(), 1u) << "the rest fits";
  EXPECT_EQ(sent[0].bytes, 401u);
  EXPECT_EQ(sent[0].offset, 599u);
  EXPECT_EQ(sent[0].source, 1u);
  EXPECT_EQ(upper_.acked, 1u);
  Ack(2000);
  EXPECT_EQ(upper_.acked, 2u);
}

//= RFC 9293 3.8.6.2.1
TEST_F(SenderTest, APeerWhoseLargestWindowIsSmallGetsPartsAtOnce) {
  window_ = 600;
  Start({.mss = kMss}, 600);
  const auto sent = SendChunks(1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, 599u);
}

TEST_F(SenderTest, AWindowOfOneByteIsProbedLikeAClosedOne) {
  SendChunks(1);
  Ack(1000);
  upper_.Add(1, kMss);
  for (const uint32_t window : {0u, 1u}) {
    window_ = window;
    Ack(1000);
    EXPECT_TRUE(Send().empty());
    FireNext();
    const auto probe = Send();
    ASSERT_EQ(probe.size(), 1u) << window;
    EXPECT_EQ(probe[0].bytes, 0u);
  }
  window_ = 2;
  Ack(1000);
  EXPECT_TRUE(Send().empty());
  FireNext();
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes, 2u);
}

//= RFC 9293 3.8.6
TEST_F(SenderTest, NothingIsSentBehindAWindowThatHasShrunk) {
  Measured(Ms(10));
  SendChunks(8);
  window_ = 2000;
  Ack(0);
  Pass(Ms(10));
  Ack(0, {{3000, 8000}});
  auto sent = Send();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(At(sent[1]), 1000u) << "the third is lost too, but behind the edge";
  Pass(Ms(10));
  Ack(2000, {{3000, 8000}});
  sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 2000u);
}

//= RFC 9293 3.8.6
TEST_F(SenderTest, TheTimerResendsTheFirstSegmentIntoAClosedWindow) {
  SendChunks(2);
  window_ = 0;
  Ack(1000);
  for (uint32_t i = 0; i < 4; ++i) {
    FireNext();
    (void)Send();
    Ack(1000);
    EXPECT_EQ(sender_.timeouts(), 0u) << "the peer answers";
  }
  EXPECT_GE(sender_.counters().retransmissions, 3u);
}

TEST_F(SenderTest, ASmallerMssDividesWhatIsResentButNotItsChunk) {
  Measured(Ms(10));
  upper_.Add(3, kMss);
  EXPECT_EQ(Send(2).size(), 2u);
  sender_.OnMss(400);
  EXPECT_EQ(sender_.cc.losses, 0u) << "no congestion";
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 9u);
  for (uint32_t i = 0; i < 6; ++i) {
    // No part begins at a multiple of four.
    const uint32_t offset = std::array{0u, 399u, 799u}[i % 3];
    EXPECT_EQ(At(sent[i]), i / 3 * 1000 + offset);
    EXPECT_EQ(sent[i].bytes, (std::array{399u, 400u, 201u}[i % 3]));
    EXPECT_EQ(sent[i].source, i / 3);
    EXPECT_EQ(sent[i].offset, offset);
    EXPECT_TRUE(sent[i].is_retransmission);
  }
  EXPECT_EQ(sent[6].bytes, 400u) << "new chunks obey the new MSS";
  // An acknowledgement in the middle of a chunk.
  Ack(1400);
  EXPECT_EQ(upper_.acked, 1u);
  EXPECT_EQ(sender_.pipe(), 1600u);
}

// A peer, or something on the path, that divides segments.
TEST_F(SenderTest, AfterAnAcknowledgementWithinAChunkNoSegmentLooksLikeOne) {
  for (const uint32_t acked : {400u, 401u}) {
    Start({.mss = kMss});
    SendChunks(1);
    Ack(acked);
    FireNext();  // the tail probe
    auto sent = Send();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(At(sent[0]), acked == 400 ? 399u : 401u);
    EXPECT_EQ(sent[0].offset, At(sent[0]));
    EXPECT_EQ(At(sent[0]) + sent[0].bytes, 1000u);
    FireNext();  // the time-out
    sent = Send();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(At(sent[0]), acked == 400 ? 399u : 401u);
    EXPECT_EQ(sent[0].offset, At(sent[0]));
    EXPECT_EQ(At(sent[0]) + sent[0].bytes, 1000u);
  }
}

TEST_F(SenderTest, TheProbeOfADividedChunkDoesNotLookLikeOne) {
  Measured(Ms(10));
  SendChunks(1);
  sender_.OnMss(400);
  EXPECT_EQ(Send().size(), 3u);
  FireNext();
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(At(sent[0]), 601u);
  EXPECT_EQ(sent[0].bytes, 399u);
}

TEST_F(SenderTest, AChunkThatWaitsIsDividedWhenTheMssShrinks) {
  sender_.cc.packets = 1;
  window_ = 1500;
  Start({.mss = kMss}, 1500);
  EXPECT_EQ(SendChunks(2).size(), 1u);
  Ack(1000);
  sender_.cc.packets = 10;
  window_ = 1200;
  sender_.OnMss(700);
  const auto sent = Send();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].bytes + sent[1].bytes, 1000u);
}

//= RFC 3168 6.1.2
TEST_F(SenderTest, EceReducesOncePerWindowAndIsAnsweredByCwr) {
  Start({.mss = kMss, .ecn = true});
  SendChunks(4);
  wire::TcpSegment ece = Segment(1000);
  ece.flags |= wire::kTcpEce;
  OnAck(ece);
  EXPECT_EQ(sender_.cc.marks, 1u);
  auto sent = SendChunks(2);
  EXPECT_TRUE(sent[0].cwr);
  EXPECT_FALSE(sent[1].cwr);
  ece.ack = kFirst + 3000;
  OnAck(ece);
  EXPECT_EQ(sender_.cc.marks, 1u) << "of the same window";
  //= RFC 8257 3.3
  EXPECT_EQ(sender_.cc.sample.marked_bytes, 2000u);
  ece.ack = kFirst + 4000;
  OnAck(ece);
  EXPECT_EQ(sender_.cc.marks, 2u);
}

TEST_F(SenderTest, WithoutEcnEceMeansNothing) {
  SendChunks(4);
  wire::TcpSegment ece = Segment(1000);
  ece.flags |= wire::kTcpEce;
  OnAck(ece);
  EXPECT_EQ(sender_.cc.marks, 0u);
  EXPECT_FALSE(SendChunks(1)[0].cwr);
}

TEST_F(SenderTest, TheAlgorithmLearnsThatTheWindowWasNotUsed) {
  SendChunks(1);
  Ack(1000);
  SendChunks(1);
  Ack(2000);
  EXPECT_TRUE(sender_.cc.sample.app_limited);
  sender_.cc.packets = 2;
  SendChunks(6);
  Ack(4000);
  EXPECT_FALSE(sender_.cc.sample.app_limited);
  EXPECT_EQ(sender_.cc.restarts, 3u);
}

// Otherwise the first acknowledgement would be all that the path has carried in
// a round trip.
//= RFC 7661 4.2
TEST_F(SenderTest, ARoundAfterNothingWasUnderWayLastsForTheWholeFlight) {
  for (uint32_t begin = 0; begin < 8000; begin += 4000) {
    SendChunks(4);
    Ack(begin, {{begin + 1000, begin + 2000}});
    EXPECT_FALSE(sender_.cc.sample.ends_round);
    Ack(begin + 2000);
    EXPECT_FALSE(sender_.cc.sample.ends_round);
    Ack(begin + 4000);
    EXPECT_TRUE(sender_.cc.sample.ends_round);
  }
}

}  // namespace
}  // namespace urnic::tcp
