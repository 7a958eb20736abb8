#include "transport/iwarp/tcp/connection.h"

#include <gtest/gtest.h>

#include "transport/iwarp/tcp/connection_fixture.h"

namespace urnic::tcp {
namespace {

using wire::kTcpAck;
using wire::kTcpFin;
using wire::kTcpRst;
using wire::kTcpSyn;

//= RFC 9293 3.10.7.3
TEST(ConnectionTest, AHandshakeAgreesOnTheOptionsOfBoth) {
  Pair pair;
  ConnectionConfig config = TestConfig(2, 1);
  config.offer.mss = 1000;
  config.offer.ecn = true;
  ASSERT_NO_FATAL_FAILURE(pair.Establish(TestConfig(1, 2), config));
  EXPECT_TRUE(pair.a.connection.peer_is_urnic());
  EXPECT_TRUE(pair.b.connection.peer_is_urnic());
  // Timestamps take 12 bytes.
  EXPECT_EQ(pair.a.connection.mss(), 1000u - 12);
  EXPECT_EQ(pair.b.connection.mss(), 1000u - 12);
}

//= RFC 3168 6.1, 6.1.1, 6.1.1.1
TEST(ConnectionTest, EcnIsAskedForOnceAndAgreed) {
  Pair pair;
  ConnectionConfig config = TestConfig(1, 2);
  config.offer.ecn = true;
  pair.a.connection.Connect(config, pair.now);
  const wire::TcpFields first = pair.a.Transmit(pair.now)[0].fields;
  EXPECT_EQ(first.flags, kTcpSyn | wire::kTcpEce | wire::kTcpCwr);
  pair.now = pair.a.connection.deadline();
  pair.a.connection.OnTimer(pair.now);
  EXPECT_EQ(pair.a.Transmit(pair.now)[0].fields.flags, kTcpSyn)
      << "the first may have been dropped for asking";
  wire::TcpSegment syn;
  static_cast<wire::TcpFields&>(syn) = first;
  EXPECT_TRUE(config.offer.With(syn).ecn);
  syn.flags = kTcpSyn | wire::kTcpEce;
  EXPECT_FALSE(config.offer.With(syn).ecn);
  syn.flags = kTcpSyn | kTcpAck | wire::kTcpEce;
  EXPECT_TRUE(config.offer.With(syn).ecn);
  syn.flags = kTcpSyn | kTcpAck | wire::kTcpEce | wire::kTcpCwr;
  EXPECT_FALSE(config.offer.With(syn).ecn) << "an echo of all flags";
  Agreed agreed;
  EXPECT_EQ(SynAck(config, agreed, SeqNum(), 0, 0).flags, kTcpSyn | kTcpAck);
  agreed.ecn = true;
  EXPECT_EQ(SynAck(config, agreed, SeqNum(), 0, 0).flags,
            kTcpSyn | kTcpAck | wire::kTcpEce);
}

TEST(ConnectionTest, BytesArriveInOrderInBothDirections) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.a.to_send = 300'000;
  pair.b.to_send = 200'000;
  pair.Run();
  EXPECT_EQ(pair.b.received, 300'000u);
  EXPECT_EQ(pair.a.received, 200'000u);
  EXPECT_EQ(pair.a.acked, 300'000u);
  EXPECT_EQ(pair.b.acked, 200'000u);
  EXPECT_EQ(pair.a.connection.sender().counters().retransmissions, 0u);
}

//= RFC 9293 3.3.2
//= RFC 9293 3.10.7.4
TEST(ConnectionTest, OneEndClosesAndTheOtherFollows) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.a.to_send = 5000;
  pair.a.connection.Close();
  pair.Run(Duration::Seconds(1));
  EXPECT_EQ(pair.a.connection.state(), State::kFinWait2);
  EXPECT_EQ(pair.b.connection.state(), State::kCloseWait);
  EXPECT_TRUE(pair.b.connection.peer_closed());
  EXPECT_EQ(pair.b.received, 5000u) << "the FIN follows the data";
  // The other direction is still open.
  pair.b.to_send = 3000;
  pair.Run(Duration::Seconds(1));
  EXPECT_EQ(pair.a.received, 3000u);
  pair.b.connection.Close();
  pair.Run(Duration::Seconds(1));
  EXPECT_EQ(pair.a.connection.state(), State::kTimeWait);
  EXPECT_EQ(pair.b.connection.ended(), End::kClosed);
}

//= RFC 9293 3.10.7.4
TEST(ConnectionTest, BothEndsCloseTogether) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.a.connection.Close();
  pair.b.connection.Close();
  pair.Run(Duration::Seconds(1));
  EXPECT_EQ(pair.a.connection.state(), State::kTimeWait);
  EXPECT_EQ(pair.b.connection.state(), State::kTimeWait);
}

//= RFC 9293 3.5
TEST(ConnectionTest, BothEndsOpenTogether) {
  Pair pair;
  pair.a.connection.Connect(TestConfig(1, 2), pair.now);
  pair.b.connection.Connect(TestConfig(2, 1), pair.now);
  pair.a.to_send = 10'000;
  pair.b.to_send = 20'000;
  pair.Run(Duration::Seconds(5));
  EXPECT_EQ(pair.a.connection.state(), State::kEstablished);
  EXPECT_EQ(pair.b.connection.state(), State::kEstablished);
  EXPECT_EQ(pair.a.received, 20'000u);
  EXPECT_EQ(pair.b.received, 10'000u);
}

//= RFC 9293 3.10.7.4
TEST(ConnectionTest, ARstAfterBothSynsRefusesTheConnection) {
  Pair pair;
  pair.a.connection.Connect(TestConfig(1, 2), pair.now);
  pair.b.connection.Connect(TestConfig(2, 1), pair.now);
  (void)pair.a.Transmit(pair.now);
  ASSERT_EQ(pair.a.Deliver(pair.b.Transmit(pair.now)[0], pair.now),
            RxVerdict::kAccept);
  ASSERT_EQ(pair.a.connection.state(), State::kSynReceived);
  Packet reset;
  reset.fields.flags = kTcpRst;
  reset.fields.seq = pair.a.connection.receiver().next();
  EXPECT_EQ(pair.a.Deliver(reset, pair.now), RxVerdict::kAccept);
  EXPECT_EQ(pair.a.connection.ended(), End::kRefused);
}

//= RFC 9293 3.8.3
//= RFC 6298 2.1, 5.5
TEST(ConnectionTest, ASynIsRepeatedEverLessOftenUntilTheTimeIsOver) {
  Pair pair;
  pair.a.connection.Connect(TestConfig(1, 2), pair.now);
  const Time start = pair.now;
  std::vector<int64_t> seconds;
  while (pair.a.connection.ended() == End::kNone) {
    for (const Packet& packet : pair.a.Transmit(pair.now)) {
      EXPECT_TRUE(packet.fields.Has(kTcpSyn));
      seconds.push_back((pair.now - start).ns() / 1'000'000'000);
    }
    pair.now = pair.a.connection.deadline();
    pair.a.connection.OnTimer(pair.now);
  }
  EXPECT_EQ(seconds, (std::vector<int64_t>{0, 1, 3, 7, 15, 31, 63, 127}));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
  EXPECT_EQ((pair.now - start).ns() / 1'000'000'000, 180);
}

Packet Segment(SeqNum seq, SeqNum ack, uint8_t flags) {
  Packet packet;
  packet.fields.seq = seq;
  packet.fields.ack = ack;
  packet.fields.flags = flags;
  packet.fields.window = 1000;
  return packet;
}

//= RFC 5961 3.2
//= RFC 9293 3.10.7.3
TEST(ConnectionTest, ARstForOurSynRefusesTheConnection) {
  Pair pair;
  const ConnectionConfig config = TestConfig(1, 2);
  pair.a.connection.Connect(config, pair.now);
  (void)pair.a.Transmit(pair.now);
  // A forged one does not know our number.
  (void)pair.a.Deliver(Segment(SeqNum(5), SeqNum(), kTcpRst), pair.now);
  EXPECT_EQ(pair.a.Deliver(Segment(SeqNum(), config.iss, kTcpRst | kTcpAck),
                           pair.now),
            RxVerdict::kTcp);
  EXPECT_EQ(pair.a.connection.ended(), End::kNone);
  EXPECT_EQ(pair.a.Deliver(Segment(SeqNum(), config.iss + 1, kTcpRst | kTcpAck),
                           pair.now),
            RxVerdict::kAccept);
  EXPECT_EQ(pair.a.connection.ended(), End::kRefused);
}

// An established pair without timestamps, so that segments are easily forged.
class ForgedSegmentTest : public ::testing::Test {
 protected:
  ForgedSegmentTest() {
    ConnectionConfig config = TestConfig(1, 2);
    config.offer.timestamps = false;
    pair.Establish(config, TestConfig(2, 1));
    (void)pair.b.Transmit(pair.now);
  }
  SeqNum next() { return pair.b.connection.receiver().next(); }
  // What b answers to a forged segment.
  std::vector<Packet> Answer(SeqNum seq, SeqNum ack, uint8_t flags) {
    verdict = pair.b.Deliver(Segment(seq, ack, flags), pair.now);
    pair.now = pair.now + Duration::Seconds(1);
    return pair.b.Transmit(pair.now);
  }
  SeqNum una() { return pair.b.connection.sender().una(); }

  Pair pair;
  RxVerdict verdict = RxVerdict::kAccept;
};

//= RFC 5961 3.2
TEST_F(ForgedSegmentTest, ARstElsewhereInTheWindowIsChallenged) {
  const auto answers = Answer(next() + 100, una(), kTcpRst);
  EXPECT_EQ(verdict, RxVerdict::kTcpChallenged);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].fields.flags, kTcpAck);
  EXPECT_EQ(answers[0].fields.ack, next());
  EXPECT_EQ(pair.b.connection.ended(), End::kNone);
  EXPECT_TRUE(Answer(next() + uint32_t(-1), una(), kTcpRst).empty());
  EXPECT_EQ(pair.b.connection.ended(), End::kNone);
  Answer(next(), una(), kTcpRst);
  EXPECT_EQ(pair.b.connection.ended(), End::kReset);
}

//= RFC 5961 4.2
TEST_F(ForgedSegmentTest, ASynIsChallengedAndNothingElse) {
  for (const uint32_t offset : {0u, 1u, 1000u}) {
    const auto answers = Answer(next() + offset, una(), kTcpSyn);
    EXPECT_EQ(verdict, RxVerdict::kTcpChallenged);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].fields.flags, kTcpAck);
  }
  EXPECT_EQ(pair.b.connection.state(), State::kEstablished);
}

//= RFC 5961 5.2
TEST_F(ForgedSegmentTest, DataWithAnImpossibleAcknowledgementAreNotTaken) {
  for (const uint32_t offset : {1u, 0x40000000u, 0x80000001u}) {
    Packet packet = Segment(next(), una() + offset, kTcpAck);
    packet.payload.assign(10, 'x');
    EXPECT_EQ(pair.b.Deliver(packet, pair.now), RxVerdict::kTcpChallenged)
        << offset;
    EXPECT_EQ(pair.b.received, 0u);
    pair.now = pair.now + Duration::Seconds(1);
  }
}

//= RFC 9293 3.10.7.4
TEST_F(ForgedSegmentTest, ASegmentWithoutAckIsDropped) {
  Packet packet = Segment(next(), SeqNum(), 0);
  packet.payload.assign(10, 'x');
  EXPECT_EQ(pair.b.Deliver(packet, pair.now), RxVerdict::kTcpOutOfWindow);
  EXPECT_EQ(pair.b.received, 0u);
}

// The placements of a burst are executed after its last segment.
TEST(ConnectionTest, AResetKeepsWhatItsBurstHasDelivered) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.a.to_send = 3000;
  const auto packets = pair.a.Transmit(pair.now);
  ASSERT_GE(packets.size(), 2u);
  (void)pair.b.Deliver(packets[1], pair.now);
  const Receiver& receiver = pair.b.connection.receiver();
  ASSERT_EQ(receiver.frames_kept(), 1u);
  pair.b.executes = false;
  (void)pair.b.Deliver(packets[0], pair.now);
  const auto ack = pair.b.Transmit(pair.now);
  Packet rst = Segment(receiver.next(), SeqNum(), kTcpRst);
  rst.fields.options.timestamps = packets[0].fields.options.timestamps;
  (void)pair.b.Deliver(rst, pair.now);
  EXPECT_EQ(pair.b.connection.ended(), End::kReset);
  EXPECT_EQ(receiver.frames_kept(), 1u);
  pair.b.connection.ReleaseDelivered();
  EXPECT_EQ(receiver.frames_kept(), 0u);
}

//= RFC 9293 3.10.5
TEST(ConnectionTest, AnAbortResetsThePeer) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.a.to_send = 100'000;
  pair.Run(Duration::Microseconds(10));
  pair.a.connection.Abort();
  EXPECT_EQ(pair.a.connection.ended(), End::kAborted);
  EXPECT_TRUE(pair.a.connection.has_work());
  pair.Run(Duration::Seconds(1));
  EXPECT_EQ(pair.b.connection.ended(), End::kReset);
  EXPECT_FALSE(pair.a.connection.has_work());
}

//= RFC 9293 3.8.3
TEST(ConnectionTest, APeerThatHasGoneEndsTheConnectionAfterTheUserTimeout) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  // A long silence without anything to send does not count.
  pair.Run(Duration::Seconds(1));
  pair.now = pair.now + Duration::Seconds(1000);
  pair.faults.loss_percent = 100;
  pair.a.to_send = 1000;
  const Time start = pair.now;
  pair.Run(Duration::Seconds(99));
  EXPECT_EQ(pair.a.connection.ended(), End::kNone);
  pair.Run(Duration::Seconds(10));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
  EXPECT_EQ((pair.now - start).ns() / 1'000'000'000, 100);
}

TEST(ConnectionTest, AnOutageDoesNotCountForTheUserTimeout) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.faults.loss_percent = 100;
  pair.a.to_send = 1000;
  pair.Run(Duration::Seconds(99));
  pair.a.connection.OnOutage(pair.now);
  pair.Run(Duration::Seconds(99));
  EXPECT_EQ(pair.a.connection.ended(), End::kNone);
  pair.Run(Duration::Seconds(10));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
}

//= RFC 9293 3.8.3
TEST(ConnectionTest, AFinThatWaitsForAWindowIsGivenUp) {
  Pair pair;
  pair.a.connection.Connect(TestConfig(1, 2), pair.now);
  const Packet syn = pair.a.Transmit(pair.now)[0];
  Packet answer = Segment(SeqNum(9), syn.fields.seq + 1, kTcpSyn | kTcpAck);
  answer.fields.window = 0;
  ASSERT_EQ(pair.a.Deliver(answer, pair.now), RxVerdict::kAccept);
  pair.faults.loss_percent = 100;
  pair.a.connection.Close();
  pair.Run(Duration::Seconds(99));
  EXPECT_EQ(pair.a.connection.state(), State::kFinWait1);
  pair.Run(Duration::Seconds(10));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
}

//= RFC 9293 3.8.4
TEST(ConnectionTest, KeepalivesFindThatThePeerHasGone) {
  Pair pair;
  ConnectionConfig config = TestConfig(1, 2);
  config.keepalive_idle = Duration::Seconds(10);
  config.keepalive_interval = Duration::Seconds(2);
  config.keepalive_probes = 3;
  ASSERT_NO_FATAL_FAILURE(pair.Establish(config));
  pair.Run(Duration::Seconds(300));
  EXPECT_EQ(pair.a.connection.ended(), End::kNone) << "the peer answers";
  pair.faults.loss_percent = 100;
  const Time start = pair.now;
  pair.Run(Duration::Seconds(300));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
  EXPECT_LE((pair.now - start).ns(), 16'000'000'000);
}

TEST(ConnectionTest, APeerThatNeverClosesIsGivenUp) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.a.connection.Close();
  pair.Run(Duration::Seconds(59));
  EXPECT_EQ(pair.a.connection.state(), State::kFinWait2);
  pair.Run(Duration::Seconds(2));
  EXPECT_EQ(pair.a.connection.ended(), End::kTimedOut);
}

//= RFC 7323 2.2
TEST(ConnectionTest, WindowsAreScaledOnlyIfBothSynsSaySo) {
  for (const bool scaled : {true, false}) {
    Pair pair;
    pair.a.connection.Connect(TestConfig(1, 2), pair.now);
    const Packet syn = pair.a.Transmit(pair.now)[0];
    EXPECT_EQ(syn.fields.options.window_shift, 5) << "for 1 MB";
    Packet answer = Segment(SeqNum(9), syn.fields.seq + 1, kTcpSyn | kTcpAck);
    answer.fields.window = 0xffff;
    if (scaled) answer.fields.options.window_shift = 3;
    ASSERT_EQ(pair.a.Deliver(answer, pair.now), RxVerdict::kAccept);
    EXPECT_EQ(pair.a.connection.sender().peer_window(), 0xffffu);
    Packet ack = Segment(SeqNum(10), syn.fields.seq + 1, kTcpAck);
    ack.fields.window = 0x8000;
    ASSERT_EQ(pair.a.Deliver(ack, pair.now), RxVerdict::kAccept);
    EXPECT_EQ(pair.a.connection.sender().peer_window(),
              scaled ? 0x40000u : 0x8000u);
    const auto acks = pair.a.Transmit(pair.now);
    ASSERT_EQ(acks.size(), 1u);
    EXPECT_EQ(acks[0].fields.window, scaled ? (1 << 20) >> 5 : 0xffff);
  }
}

// Custody limits the window that we offer, and with it the scale.
TEST(ConnectionTest, BothEndsReadAWindowInTheSameScale) {
  ConnectionConfig config_a = TestConfig(1, 2);
  ConnectionConfig config_b = TestConfig(2, 1);
  config_a.offer.mss = config_b.offer.mss = 100;
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish(config_a, config_b));
  pair.a.to_send = pair.b.to_send = 1000;
  pair.Run();
  EXPECT_EQ(pair.a.connection.sender().peer_window(),
            pair.b.connection.receiver().window_bytes());
  EXPECT_EQ(pair.b.connection.sender().peer_window(),
            pair.a.connection.receiver().window_bytes());
}

TEST(ConnectionTest, TheWaitForThePeersFinBeginsWithTheAcknowledgementOfOurs) {
  Pair pair;
  ASSERT_NO_FATAL_FAILURE(pair.Establish());
  pair.faults.loss_percent = 100;
  pair.a.connection.Close();
  pair.Run(Duration::Seconds(40));
  pair.faults.loss_percent = 0;
  pair.Run(Duration::Seconds(60));
  ASSERT_EQ(pair.a.connection.state(), State::kFinWait2);
  EXPECT_EQ(pair.a.connection.ended(), End::kNone);
}

class RandomConnectionTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomConnectionTest, EveryByteArrivesOnceAndBothEndsClose) {
  const auto seed = static_cast<uint64_t>(GetParam());
  Random random(seed);
  Pair pair(seed);
  ConnectionConfig config_a = TestConfig(1, 2);
  ConnectionConfig config_b = TestConfig(2, 1);
  for (ConnectionConfig* config : {&config_a, &config_b}) {
    config->offer.mss = static_cast<uint16_t>(100 + random.Below(3000));
    config->offer.sack = !random.OneIn(4);
    config->offer.timestamps = !random.OneIn(4);
    config->offer.ecn = random.OneIn(2);
    config->window_bytes = static_cast<uint32_t>(1 + random.Below(1 << 17));
  }
  ASSERT_NO_FATAL_FAILURE(pair.Establish(config_a, config_b));
  pair.faults.loss_percent = static_cast<uint32_t>(random.Below(6));
  pair.faults.duplicate_percent = static_cast<uint32_t>(random.Below(6));
  pair.faults.reorder_percent = static_cast<uint32_t>(random.Below(20));
  pair.a.to_send = random.Below(100'000);
  pair.b.to_send = random.Below(100'000);
  pair.a.chunk_bytes = static_cast<uint32_t>(1 + random.Below(2000));
  pair.a.connection.Close();
  pair.b.connection.Close();
  pair.Run(Duration::Seconds(3600));
  EXPECT_EQ(pair.b.received, pair.a.to_send);
  EXPECT_EQ(pair.a.received, pair.b.to_send);
  EXPECT_EQ(pair.a.acked, pair.a.to_send);
  EXPECT_EQ(pair.b.acked, pair.b.to_send);
  for (const TestEnd* side : {&pair.a, &pair.b}) {
    EXPECT_TRUE(side->connection.state() == State::kTimeWait ||
                side->connection.ended() == End::kClosed)
        << static_cast<int>(side->connection.state()) << " "
        << static_cast<int>(side->connection.ended());
    EXPECT_EQ(side->connection.receiver().frames_kept(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomConnectionTest, ::testing::Range(1, 41));

}  // namespace
}  // namespace urnic::tcp
