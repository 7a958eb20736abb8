#include "transport/rc/requester.h"

#include <gmock/gmock.h>

#include "tests/support/matchers.h"
#include "tests/support/rc_fixture.h"
#include "transport/work/timers.h"

namespace urnic::rc {
namespace {

using testing::Ack;
using testing::AsksForAck;
using ::testing::ElementsAre;
using testing::IsDone;
using ::testing::IsEmpty;
using testing::IsOpcode;
using ::testing::Not;
using testing::Packet;
using testing::ReadsFrom;
using testing::RnrNak;
using wire::Opcode;

class RequesterTest : public testing::RcFixture {
 protected:
  // How what is posted waits if the path is full.
  PathWait Waits() {
    // A requester only looks.
    auto& state = const_cast<SendState&>(end_.qp().send_state());
    state.path->Account(0, 1000);
    const Requester requester(state);
    const bool waits = requester.Wants() == Requester::Wish::kWait;
    const PathWait how = waits ? requester.Waits() : PathWait::kNo;
    state.path->Account(1000, 0);
    return how;
  }
};

TEST_F(RequesterTest, CutsMessagesAtTheMtu) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 513));
  EXPECT_THAT(Transmit(),
              ElementsAre(IsOpcode(Opcode::kRcWriteFirst, Psn(100)),
                          IsOpcode(Opcode::kRcWriteMiddle, Psn(101)),
                          IsOpcode(Opcode::kRcWriteLast, Psn(102))));
  ASSERT_TRUE(Post(URNIC_WR_SEND, 2, 256));
  EXPECT_THAT(Transmit(), ElementsAre(IsOpcode(Opcode::kRcSendOnly, Psn(103))));
}

TEST_F(RequesterTest, AReadOwnsThePsnsOfItsResponses) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 1, 600));
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 8));
  const auto sent = Transmit();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_THAT(sent[0], IsOpcode(Opcode::kRcReadRequest, Psn(100)));
  EXPECT_THAT(sent[0], ReadsFrom(kPeer, 600));
  EXPECT_THAT(sent[1], IsOpcode(Opcode::kRcWriteOnly, Psn(103)));
}

TEST_F(RequesterTest, StopsAtTheWindowAndAsksForAnAckThere) {
  config_.window_packets = 4;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 4096));
  const auto sent = Transmit();
  EXPECT_THAT(sent, ElementsAre(Not(AsksForAck()), AsksForAck(),
                                Not(AsksForAck()), AsksForAck()));
  EXPECT_FALSE(end_.qp().HasWork());
  EXPECT_EQ(Deliver(Ack(Psn(101))), RxVerdict::kAccept);
  EXPECT_TRUE(end_.qp().HasWork());
  EXPECT_EQ(Transmit().size(), 2u);
}

TEST_F(RequesterTest, AFullWindowIsReported) {
  config_.window_packets = 4;
  Connect();
  const SendState& s = end_.qp().send_state();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 256));
  EXPECT_EQ(Transmit().size(), 1u);
  EXPECT_EQ(s.path->cc.full_at, Time());
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 1024));
  EXPECT_EQ(Transmit().size(), 3u);
  EXPECT_EQ(s.path->cc.full_at, now_);
}

TEST_F(RequesterTest, OneRequestOfOnePacketIsAmongTheFirst) {
  Connect();
  EXPECT_EQ(Waits(), PathWait::kNo);
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 256));
  EXPECT_EQ(Waits(), PathWait::kFirst);
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 2, 256));
  EXPECT_EQ(Waits(), PathWait::kInTurn);
  (void)Transmit();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 3, 256));
  EXPECT_EQ(Waits(), PathWait::kInTurn) << "others are under way";
}

TEST_F(RequesterTest, ALongRequestWaitsInTurn) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 257));
  EXPECT_EQ(Waits(), PathWait::kInTurn);
}

// Otherwise nobody would ever use it, and all who wait would starve.
TEST_F(RequesterTest, AGrantForMoreThanIsLeftIsGivenBack) {
  Connect();
  const SendState& s = end_.qp().send_state();
  for (const uint32_t room : {5u, 6u, 7u}) {
    ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 6 * 256));
    end_.qp().Grant(13);
    uint32_t sent = 0;
    while (end_.qp().HasWork())
      sent += static_cast<uint32_t>(end_.Transmit(now_, room).size());
    EXPECT_EQ(sent, 6u);
    EXPECT_EQ(s.granted, 0u) << "with room for " << room;
    EXPECT_EQ(s.path->under_way, s.InFlight());
  }
}

TEST_F(RequesterTest, APacedFlowIsNotReadyBeforeItsTime) {
  //= IBTA 9.11
  config_.bits_per_second = 100'000'000;  // about 22 us per packet
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 1024));
  uint32_t sent = static_cast<uint32_t>(end_.Transmit(now_).size());
  EXPECT_EQ(sent, 1u);
  const Time begin = now_;
  uint64_t bytes = 12 + 16 + 256;
  while (sent < 4) {
    EXPECT_FALSE(end_.qp().HasWork());
    EXPECT_THAT(end_.Transmit(now_), IsEmpty());
    const Time due = end_.qp().NextDeadline();
    EXPECT_GT(due, now_);
    EXPECT_LT(due, now_ + config_.timeout);
    end_.AdvanceTo(due - Duration::Nanoseconds(1));
    EXPECT_FALSE(end_.qp().HasWork());
    now_ = due;
    end_.AdvanceTo(now_);
    EXPECT_TRUE(end_.qp().HasWork());
    EXPECT_EQ(end_.Transmit(now_).size(), 1u);
    if (++sent < 4) bytes += 12 + 256;
  }
  // The bytes before the last packet, except for the burst at the start.
  EXPECT_GE((now_ - begin + cc::Pacer::kCatchUp).ns(),
            static_cast<int64_t>(bytes * 80 - 10));
  // The time-out is unchanged.
  now_ = now_ + Duration::Milliseconds(1);
  end_.AdvanceTo(now_);
  EXPECT_EQ(end_.qp().NextDeadline(), begin + config_.timeout);
  EXPECT_EQ(Deliver(Ack(Psn(103))), RxVerdict::kAccept);
  EXPECT_THAT(end_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS)));
}

TEST_F(RequesterTest, AnErrorEndsPacing) {
  config_.bits_per_second = 1'000'000;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 1024));
  (void)end_.Transmit(now_);
  EXPECT_FALSE(end_.qp().NextDeadline().IsInfinite());
  end_.qp().Modify(QpState::kErr, config_);
  EXPECT_TRUE(end_.qp().NextDeadline().IsInfinite());
}

TEST_F(RequesterTest, AWindowOfOnePacketMakesProgress) {
  config_.window_packets = 1;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 600));
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_THAT(Transmit(), ElementsAre(AsksForAck()));
    EXPECT_EQ(Deliver(Ack(Psn(100 + i))), RxVerdict::kAccept);
  }
  EXPECT_THAT(end_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS)));
}

TEST_F(RequesterTest, HasWorkIsFalseForARequestThatMustWait) {
  config_.max_rd_atomic = 1;
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 1, 8));
  ASSERT_TRUE(Post(URNIC_WR_RDMA_READ, 2, 8));
  EXPECT_EQ(end_.Transmit(now_).size(), 1u);
  EXPECT_FALSE(end_.qp().HasWork());
}

TEST_F(RequesterTest, WaitsOutAnRnrNakWithoutTransmitting) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_SEND, 1, 8));
  EXPECT_EQ(Transmit().size(), 1u);
  EXPECT_EQ(Deliver(RnrNak(Psn(100), 12)), RxVerdict::kRnrReceived);
  EXPECT_FALSE(end_.qp().HasWork());
  EXPECT_EQ(end_.qp().NextDeadline(), now_ + RnrTimer(12));
  now_ = end_.qp().NextDeadline() - Duration::Nanoseconds(1);
  end_.AdvanceTo(now_);
  EXPECT_THAT(Transmit(), IsEmpty());
  now_ = now_ + Duration::Nanoseconds(1);
  end_.AdvanceTo(now_);
  EXPECT_THAT(Transmit(), ElementsAre(IsOpcode(Opcode::kRcSendOnly, Psn(100))));
}

TEST_F(RequesterTest, TransmitKeepsWhatDoesNotFitTheSlots) {
  Connect();
  ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, 1, 1024));
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(end_.Transmit(now_, 1).size(), 1u);
    EXPECT_EQ(end_.qp().send_state().tx_psn, Psn(101 + i));
  }
  EXPECT_EQ(end_.Transmit(now_, 0).size(), 0u);
}

TEST_F(RequesterTest, UsesTheWholeRingAndGivesCreditsBack) {
  Connect();
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 64; ++i) {
      ASSERT_TRUE(Post(URNIC_WR_RDMA_WRITE, i, 8, 0));
    }
    ASSERT_FALSE(Post(URNIC_WR_RDMA_WRITE, 99, 8));
    size_t sent = 0;
    while (sent < 64) {  // as much as the window allows
      const auto burst = Transmit();
      ASSERT_FALSE(burst.empty());
      sent += burst.size();
      (void)Deliver(Ack(testing::FieldsOfPacket(burst.back()).psn));
    }
    ASSERT_EQ(sent, 64u);
    EXPECT_TRUE(end_.completions().empty());  // all unsignaled
    EXPECT_EQ(end_.rings().sq().indices().consumer, 64 * (round + 1));
  }
}

TEST_F(RequesterTest, TwoGigabytesAtTheSmallestMtuFitThePsnCircle) {
  // 2^23 packets: the read is requested in parts, and the rest waits.
  Connect();
  // A region that claims 2 GB; nothing touches it before a response comes.
  const uint32_t big = host_.mrs().Register(1, At(0), At(0), uint64_t{1} << 31,
                                            mem::kLocalWrite);
  ASSERT_TRUE(end_.PostSend({.opcode = URNIC_WR_RDMA_READ,
                             .wr_id = 1,
                             .sges = {{At(0), 1u << 31, big}},
                             .remote_addr = kPeer,
                             .rkey = kPeerKey}));
  const auto sent = Transmit();
  ASSERT_EQ(sent.size(), 2u);  // of half the first window each
  EXPECT_THAT(sent[0], ReadsFrom(kPeer, 8 * 256));
  EXPECT_THAT(sent[1], ReadsFrom(kPeer + 8 * 256, 8 * 256));
  EXPECT_FALSE(end_.qp().HasWork());
}

}  // namespace
}  // namespace urnic::rc
