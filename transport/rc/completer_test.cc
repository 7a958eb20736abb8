#include "transport/rc/completer.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/matchers.h"
#include "tests/support/random.h"
#include "tests/support/rc_fixture.h"

namespace urnic::rc {
namespace {

using testing::Ack;
using testing::AtomicResponse;
using ::testing::ElementsAre;
using testing::IsDone;
using ::testing::IsEmpty;
using testing::IsOpcode;
using testing::Nak;
using testing::Packet;
using testing::PacketBuilder;
using testing::Random;
using testing::ReadResponse;
using testing::ReadsFrom;
using wire::Opcode;

class CompleterTest : public testing::RcFixture {
 protected:
  // A request is to be sent again, and its time-out is shorter than what
  // follows.
  void RewindBeforeTimeout() {
    config_.timeout = Duration::Milliseconds(1);
    Connect();
    ASSERT_TRUE(Post(URNIC_WR_SEND, 1, 8));
    (void)Transmit();
    (void)Deliver(Nak(Psn(100), wire::kAethRnrNak | 1));
  }
};

TEST_F(CompleterTest, OneAckCompletesAllBeforeIt) {
  Connect();
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, i, 8));
  }
  (void)Transmit();
  EXPECT_EQ(Deliver(Ack(Psn(101))), RxVerdict::kAccept);
  EXPECT_THAT(end_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS),
                                              IsDone(2u, URNIC_WC_SUCCESS)));
  EXPECT_EQ(Deliver(Ack(Psn(100))), RxVerdict::kStaleAck);
  EXPECT_EQ(Deliver(Ack(Psn(102))), RxVerdict::kAccept);
  EXPECT_EQ(end_.completions().size(), 3u);
  EXPECT_TRUE(end_.qp().NextDeadline().IsInfinite());
}

TEST_F(CompleterTest, AReadResponseAcknowledgesTheWritesBeforeIt) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 2, 8));
  (void)Transmit();
  EXPECT_EQ(
      Deliver(ReadResponse(Opcode::kRcReadResponseOnly, Psn(101)).Data(8, 3)),
      RxVerdict::kAccept);
  EXPECT_THAT(end_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS),
                                              IsDone(2u, URNIC_WC_SUCCESS)));
  EXPECT_EQ(host_.bytes(0, 1)[0], 3);
}

TEST_F(CompleterTest, AnAtomicsResultIsStoredInHostOrder) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_ATOMIC_FETCH_AND_ADD, 1, 8));
  (void)Transmit();
  EXPECT_EQ(Deliver(AtomicResponse(Psn(100), 0x0102030405060708)),
            RxVerdict::kAccept);
  uint64_t value;
  std::memcpy(&value, host_.bytes(0, 8).data(), 8);
  EXPECT_EQ(value, 0x0102030405060708u);
}

TEST_F(CompleterTest, ATimeoutResendsFromTheOldestUnacknowledged) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 1, 600));
  (void)Transmit();
  EXPECT_EQ(
      Deliver(ReadResponse(Opcode::kRcReadResponseFirst, Psn(100)).Data(256)),
      RxVerdict::kAccept);
  now_ = end_.qp().NextDeadline();
  end_.AdvanceTo(now_);
  const auto sent = Transmit();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_THAT(sent[0], IsOpcode(Opcode::kRcReadRequest, Psn(101)));
  EXPECT_THAT(sent[0], ReadsFrom(kPeer + 256, 344));
}

TEST_F(CompleterTest, ALocalOperationStaysBehindTheRequestThatIsResent) {
  constexpr uint32_t kInvalidatable = kAll | mem::kRemoteInvalidate;
  const uint32_t key = host_.Register(1, 0, 64, kInvalidatable);
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_SEND, 1, 8));
  ASSERT_TRUE(end_.PostSend(
      {.opcode = URNIC_WR_LOCAL_INV, .wr_id = 2, .imm_or_key = key}));
  (void)Transmit();
  now_ = end_.qp().NextDeadline();
  end_.AdvanceTo(now_);
  // The send is resent, and there is no slot to go on.
  ASSERT_EQ(end_.Transmit(now_, 1).size(), 1u);
  EXPECT_EQ(Deliver(Ack(Psn(100))), RxVerdict::kAccept);
  end_.qp().CheckInvariants();
  EXPECT_THAT(end_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS),
                                              IsDone(2u, URNIC_WC_SUCCESS)));
}

TEST_F(CompleterTest, TheTimerIsExactAndRestartsWithProgress) {
  Connect();
  EXPECT_TRUE(end_.qp().NextDeadline().IsInfinite());
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 8));
  (void)Transmit();
  EXPECT_EQ(end_.qp().NextDeadline(), now_ + config_.timeout);
  // More packets do not postpone it; an acknowledgement does.
  now_ = now_ + Duration::Milliseconds(10);
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 3, 8));
  (void)Transmit();
  EXPECT_EQ(end_.qp().NextDeadline(),
            now_ + config_.timeout - Duration::Milliseconds(10));
  EXPECT_EQ(Deliver(Ack(Psn(100))), RxVerdict::kAccept);
  EXPECT_EQ(end_.qp().NextDeadline(), now_ + config_.timeout);
}

TEST_F(CompleterTest, ABusyConnectionMeasuresItsRoundTripToo) {
  constexpr Duration kSlow = Duration::Milliseconds(5);
  constexpr Duration kFast = Duration::Microseconds(30);
  const SendState& s = end_.qp().send_state();
  Connect();
  // One request, to a peer that has to wake up.
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
  (void)Transmit();
  now_ = now_ + kSlow;
  EXPECT_EQ(Deliver(Ack(Psn(100))), RxVerdict::kAccept);
  EXPECT_EQ(s.path->cc.Shortest(), kSlow);
  EXPECT_EQ(s.path->cc.round_trip, kSlow);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 8));
  (void)end_.Transmit(now_, 2);
  (void)end_.Transmit(now_, 2);
  now_ = now_ + kFast;
  EXPECT_EQ(Deliver(Ack(Psn(102))), RxVerdict::kAccept);
  EXPECT_EQ(s.path->cc.Shortest(), kFast);
  EXPECT_EQ(s.path->cc.round_trip, kFast);
  // A NAK that comes sooner than the first round trip is now trusted.
  EXPECT_EQ(Deliver(Nak(Psn(103), wire::kNakPsnSequenceError)),
            RxVerdict::kNakReceived);
  EXPECT_THAT(Transmit(),
              ElementsAre(IsOpcode(Opcode::kRcWriteOnly, Psn(103)),
                          IsOpcode(Opcode::kRcWriteOnly, Psn(104))));
}

TEST_F(CompleterTest, AResentPacketMeasuresNoRoundTrip) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
  (void)Transmit();
  now_ = end_.qp().NextDeadline();
  end_.AdvanceTo(now_);
  (void)Transmit();
  now_ = now_ + Duration::Microseconds(1);
  EXPECT_EQ(Deliver(Ack(Psn(100))), RxVerdict::kAccept);
  EXPECT_EQ(end_.qp().send_state().path->cc.round_trip, Duration());
  EXPECT_EQ(end_.qp().send_state().path->cc.Shortest(), Duration());
}

TEST_F(CompleterTest, RealLossesMakeSequenceNaksCredibleAgain) {
  constexpr Duration kRoundTrip = Duration::Microseconds(20);
  const SendState& s = end_.qp().send_state();
  Connect();
  Psn psn(100);
  auto post_two = [&] {
    ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 8));
    ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 8));
    (void)Transmit();
  };
  auto acknowledge = [&] {
    now_ = now_ + kRoundTrip;
    EXPECT_EQ(Deliver(Ack(psn + 1)), RxVerdict::kAccept);
    psn = psn + 2;
  };
  post_two();
  acknowledge();
  // A needless rewind.
  post_two();
  now_ = now_ + kRoundTrip;
  (void)Deliver(Nak(psn, wire::kNakPsnSequenceError));
  EXPECT_EQ(Transmit().size(), 2u);
  acknowledge();
  (void)Deliver(Ack(psn + (-1)));
  EXPECT_EQ(s.nak_doubt, 4);
  for (int left = 4; left != 0; --left) {
    post_two();
    now_ = now_ + kRoundTrip;
    (void)Deliver(Nak(psn, wire::kNakPsnSequenceError));
    EXPECT_THAT(Transmit(), IsEmpty());
    end_.AdvanceTo(now_ = now_ + kRoundTrip);
    EXPECT_EQ(Transmit().size(), 2u);
    acknowledge();
    for (int i = 0; i < 16; ++i) {  // few losses
      post_two();
      acknowledge();
    }
    EXPECT_EQ(s.nak_doubt, left - 1);
  }
  post_two();
  now_ = now_ + kRoundTrip;
  (void)Deliver(Nak(psn, wire::kNakPsnSequenceError));
  EXPECT_EQ(Transmit().size(), 2u);
  EXPECT_EQ(s.counters.timeouts, 0u);
}

// The peer is not silent: nothing is under way that it could answer. (./dev sim
// --seed 7229 ended a queue pair.)
TEST_F(CompleterTest, WhoWaitsForThePathSpendsNoRetry) {
  ASSERT_NO_FATAL_FAILURE(RewindBeforeTimeout());
  const SendState& s = end_.qp().send_state();
  s.path->Account(0, 1000);
  s.path->waiting = 1;
  for (int i = 0; i < 20; ++i) {
    end_.AdvanceTo(now_ = now_ + Duration::Milliseconds(2));
    EXPECT_THAT(Transmit(), IsEmpty());
  }
  EXPECT_EQ(s.counters.timeouts, 0u);
  s.path->Account(1000, 0);
  s.path->waiting = 0;
  EXPECT_EQ(Transmit().size(), 1u);
}

TEST_F(CompleterTest, WhoWaitsForThePacerSpendsNoRetry) {
  ASSERT_NO_FATAL_FAILURE(RewindBeforeTimeout());
  const SendState& s = end_.qp().send_state();
  cc::Pacer& pacer = s.path->cc.pacer;
  pacer.SetRate(1, Duration::Seconds(1));
  for (int i = 0; i < 20; ++i) {
    // Another queue pair of the path takes each turn.
    pacer.next_send = now_ + Duration::Milliseconds(4);
    end_.AdvanceTo(now_ = now_ + Duration::Milliseconds(2));
    EXPECT_THAT(Transmit(), IsEmpty());
  }
  EXPECT_EQ(s.counters.timeouts, 0u);
  pacer = cc::Pacer();
  end_.AdvanceTo(now_ = now_ + Duration::Milliseconds(4));
  EXPECT_EQ(Transmit().size(), 1u);
}

TEST_F(CompleterTest, BytesAreCountedAsTheyAreAcknowledged) {
  const uint64_t& bytes = end_.qp().send_state().counters.bytes_acked;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 600));
  ASSERT_TRUE(Post(URNIC_WR_SEND, 2, 10));
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 3, 300));
  (void)Transmit();
  EXPECT_EQ(Deliver(Ack(Psn(100))), RxVerdict::kAccept);
  EXPECT_EQ(bytes, 256u);
  EXPECT_EQ(Deliver(Ack(Psn(102))), RxVerdict::kAccept);
  EXPECT_EQ(bytes, 600u);
  EXPECT_EQ(
      Deliver(ReadResponse(Opcode::kRcReadResponseFirst, Psn(104)).Data(256)),
      RxVerdict::kAccept);
  EXPECT_EQ(bytes, 600u + 10 + 256);
  EXPECT_EQ(
      Deliver(ReadResponse(Opcode::kRcReadResponseLast, Psn(105)).Data(44)),
      RxVerdict::kAccept);
  EXPECT_EQ(bytes, 600u + 10 + 300);
}

TEST_F(CompleterTest, AFatalNakEndsTheRequestItNames) {
  Connect();
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, i, 8));
  }
  (void)Transmit();
  EXPECT_EQ(Deliver(Nak(Psn(101), wire::kNakRemoteAccessError)),
            RxVerdict::kNakReceived);
  EXPECT_THAT(end_.completions(),
              ElementsAre(IsDone(1u, URNIC_WC_SUCCESS),
                          IsDone(2u, URNIC_WC_REM_ACCESS_ERR),
                          IsDone(3u, URNIC_WC_WR_FLUSH_ERR)));
  EXPECT_EQ(end_.qp().state(), QpState::kErr);
  EXPECT_THAT(Transmit(), IsEmpty());
}

TEST_F(CompleterTest, AnyResponseInAnySituationYieldsAVerdict) {
  // Random responses around what is outstanding, with random work posted. Every
  // request completes once and in order.
  Random random(7);
  for (int round = 0; round < 1000; ++round) {
    end_.qp().Modify(QpState::kReset, config_);
    Connect();
    (void)end_.TakeCompletions();
    static constexpr uint8_t kOps[] = {URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_READ,
                                       URNIC_WR_SEND,
                                       URNIC_WR_ATOMIC_FETCH_AND_ADD};
    for (uint64_t id = 1; id <= 6; ++id) {
      const uint8_t op = kOps[random.Below(4)];
      const auto length = static_cast<uint32_t>(random.Below(600));
      ASSERT_TRUE(
          Post(op, id, op == URNIC_WR_ATOMIC_FETCH_AND_ADD ? 8 : length));
    }
    for (int i = 0; i < 20; ++i) {
      (void)end_.Transmit(now_, static_cast<uint32_t>(1 + random.Below(4)));
      const auto opcode = static_cast<Opcode>(
          static_cast<uint64_t>(Opcode::kRcReadResponseFirst) +
          random.Below(6));
      PacketBuilder packet(opcode,
                           end_.qp().send_state().una_psn +
                               (static_cast<int32_t>(random.Below(5)) - 1));
      packet.Syndrome(random.OneIn(2) ? 0x1f : random.Byte());
      if (wire::InfoOf(static_cast<uint8_t>(opcode)).has_payload) {
        packet.Data(random.OneIn(2) ? 256
                                    : static_cast<uint32_t>(random.Below(256)));
      }
      (void)Deliver(packet);
      end_.AdvanceTo(now_ = now_ + Duration::Milliseconds(9));
      end_.qp().CheckInvariants();
    }
    end_.qp().Modify(QpState::kErr, config_);
    end_.Poll();
    uint64_t expected = 0;
    for (const testing::Completion& c : end_.completions()) {
      EXPECT_EQ(c.wr_id, ++expected);
    }
    EXPECT_EQ(expected, 6u);
  }
}

}  // namespace
}  // namespace urnic::rc
