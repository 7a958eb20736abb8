#include "transport/uc/qp.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/unreliable_end.h"

namespace urnic::uc {
namespace {

using testing::Bytes;
using testing::SendWr;

class UcTest : public ::testing::Test {
 protected:
  using End = testing::UnreliableEnd<Qp>;

  static QpConfig Config(uint32_t peer) {
    QpConfig config;
    config.dest_qpn = peer;
    config.mtu = 256;
    config.rq_psn = config.sq_psn = Psn(0xfffffe);
    config.access = mem::kRemoteWrite;
    return config;
  }
  SendWr Send(uint64_t wr_id, uint32_t bytes) {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.sges = {a_.Sge(0, bytes)};
    return wr;
  }
  SendWr Write(uint64_t wr_id, uint32_t bytes, uint64_t to) {
    SendWr wr = Send(wr_id, bytes);
    wr.opcode = URNIC_WR_RDMA_WRITE;
    wr.remote_addr = b_.host().address(to);
    wr.rkey = b_.key();
    return wr;
  }

  End a_{0x11, Config(0x22)};
  End b_{0x22, Config(0x11)};
};

TEST_F(UcTest, ARefusedWriteIsKeptForPeople) {
  EXPECT_FALSE(b_.qp().TakeFirstRefused());
  SendWr wr = Write(1, 700, 4096);
  wr.rkey ^= 1;
  ASSERT_TRUE(a_.rings().PostSend(wr));
  b_.Receive(a_.Transmit());
  EXPECT_EQ(b_.qp().writes_refused(), 1u) << "not its other packets";
  EXPECT_EQ(b_.qp().refused().range.address, wr.remote_addr);
  EXPECT_EQ(b_.qp().refused().range.length, 700u);
  EXPECT_EQ(b_.qp().refused().range.key.value, wr.rkey);
  EXPECT_EQ(b_.qp().refused().fault, mem::MemFault::kKey);
  EXPECT_TRUE(b_.qp().TakeFirstRefused());
  wr.remote_addr += 4;
  ASSERT_TRUE(a_.rings().PostSend(wr));
  b_.Receive(a_.Transmit());
  EXPECT_EQ(b_.qp().writes_refused(), 2u);
  EXPECT_EQ(b_.qp().refused().range.address, wr.remote_addr);
  EXPECT_FALSE(b_.qp().TakeFirstRefused()) << "not the first one";
  EXPECT_EQ(b_.qp().state(), QpState::kRts);
  b_.qp().Modify(QpState::kReset, {});
  EXPECT_EQ(b_.qp().writes_refused(), 0u);
}

TEST_F(UcTest, LongMessagesArriveWhilePsnsWrapAround) {
  a_.Fill(0, 1000, 1);
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 7, .sges = {b_.Sge(0, 2000)}}));
  ASSERT_TRUE(a_.rings().PostSend(Send(1, 1000)));
  ASSERT_TRUE(a_.rings().PostSend(Write(2, 700, 4096)));
  const std::vector<Bytes> packets = a_.Transmit();
  ASSERT_EQ(packets.size(), 7u);
  b_.Receive(packets);
  ASSERT_EQ(b_.received.size(), 1u);
  EXPECT_EQ(b_.received[0].byte_len, 1000u);
  EXPECT_EQ(b_.host().bytes(0, 1000)[999], a_.host().bytes(0, 1000)[999]);
  EXPECT_EQ(b_.host().bytes(4096, 700)[699], a_.host().bytes(0, 700)[699]);
  EXPECT_EQ(a_.completed.size(), 2u);
  EXPECT_EQ(b_.TakeEvent(), QpEvent::kCommEstablished);
}

TEST_F(UcTest, AMessageWithAGapIsDropped) {
  //= IBTA 9.8.2.2.1
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 7, .sges = {b_.Sge(0, 2000)}}));
  ASSERT_TRUE(a_.rings().PostSend(Send(1, 1000)));
  ASSERT_TRUE(a_.rings().PostSend(Send(2, 600)));
  std::vector<Bytes> packets = a_.Transmit();
  ASSERT_EQ(packets.size(), 7u);
  packets.erase(packets.begin() + 1);
  b_.Receive(packets);
  ASSERT_EQ(b_.received.size(), 1u) << "the receive serves the next message";
  EXPECT_EQ(b_.received[0].byte_len, 600u);
  EXPECT_EQ(b_.verdicts[1], RxVerdict::kBrokenMessage);
  EXPECT_EQ(b_.verdicts[2], RxVerdict::kBrokenMessage);
  EXPECT_EQ(b_.verdicts[3], RxVerdict::kAccept);
}

TEST_F(UcTest, ThePeerIsNotifiedOfMarksAtALimitedRate) {
  Time now = Time::FromNs(1000000);
  b_.qp().OnMarked(now);
  EXPECT_TRUE(b_.qp().HasWork());
  struct {
    void Sent(const SendCompletion&) {}
    void Received(const RecvCompletion&) {}
    void Flushed(const RecvCompletion&) {}
  } nothing;
  EXPECT_TRUE(b_.qp().Settle({}, nothing).has_work);
  const std::vector<Bytes> packets = b_.Transmit();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(b_.counters().np_cnp_sent, 1u);
  wire::RocePacket packet;
  ASSERT_EQ(wire::ParseRoce(packets[0].data(),
                            static_cast<uint32_t>(packets[0].size()), packet),
            RxVerdict::kAccept);
  EXPECT_EQ(packet.info->kind, wire::PacketKind::kCnp);
  EXPECT_EQ(packet.bth->dest_qp().value, 0x11u);
  EXPECT_TRUE(packet.bth->becn());
  b_.qp().OnMarked(now);
  EXPECT_FALSE(b_.qp().HasWork());
  now = now + cc::NotificationPoint::kInterval;
  b_.qp().OnMarked(now);
  EXPECT_TRUE(b_.qp().HasWork());
}

TEST_F(UcTest, NoNotificationIsSentInErr) {
  b_.qp().OnMarked(Time::FromNs(1000000));
  b_.qp().Modify(QpState::kErr, Config(0x11));
  EXPECT_FALSE(b_.qp().HasWork());
  EXPECT_TRUE(b_.Transmit().empty());
}

TEST_F(UcTest, ARefusedWritePlacesNothingAndHarmsNoOther) {
  SendWr wrong = Write(1, 8, 0);
  wrong.rkey ^= 0x100;
  ASSERT_TRUE(a_.rings().PostSend(wrong));
  ASSERT_TRUE(a_.rings().PostSend(Write(2, 300, 16384 - 299)));
  ASSERT_TRUE(a_.rings().PostSend(Write(3, 8, 64)));
  a_.Fill(0, 8, 0x55);
  b_.Receive(a_.Transmit());
  EXPECT_EQ(b_.verdicts[0], RxVerdict::kRefusedWrite);
  EXPECT_EQ(b_.verdicts[1], RxVerdict::kRefusedWrite);
  EXPECT_EQ(b_.verdicts[2], RxVerdict::kBrokenMessage) << "the rest of it";
  EXPECT_EQ(b_.verdicts[3], RxVerdict::kAccept);
  EXPECT_EQ(b_.host().bytes(64, 1)[0], 0x55);
  EXPECT_EQ(b_.qp().state(), QpState::kRts);
}

TEST_F(UcTest, AWriteIntoMissingMemoryLosesOnlyItself) {
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 7, .sges = {b_.Sge(0, 8)}}));
  ASSERT_TRUE(a_.rings().PostSend(Send(1, 8)));
  ASSERT_TRUE(a_.rings().PostSend(Write(2, 8, 4096)));
  b_.host().Break(4096, 8, testing::FakeHost::Damage::kUnmapped);
  b_.Receive(a_.Transmit());
  ASSERT_EQ(b_.received.size(), 1u);
  EXPECT_EQ(b_.received[0].status, URNIC_WC_SUCCESS);
  EXPECT_EQ(b_.qp().state(), QpState::kRts);
}

TEST_F(UcTest, WithoutReceivesMessagesAreDropped) {
  ASSERT_TRUE(a_.rings().PostSend(Send(1, 300)));
  SendWr imm = Write(2, 8, 0);
  imm.opcode = URNIC_WR_RDMA_WRITE_WITH_IMM;
  ASSERT_TRUE(a_.rings().PostSend(imm));
  b_.Receive(a_.Transmit());
  EXPECT_EQ(b_.verdicts,
            (std::vector{RxVerdict::kNoReceive, RxVerdict::kBrokenMessage,
                         RxVerdict::kNoReceive}));
}

TEST_F(UcTest, ImmediateDataComesWithTheLastPacket) {
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 4}));
  SendWr imm = Write(2, 500, 0);
  imm.opcode = URNIC_WR_RDMA_WRITE_WITH_IMM;
  imm.imm_or_key = 0x77;
  ASSERT_TRUE(a_.rings().PostSend(imm));
  b_.Receive(a_.Transmit());
  ASSERT_EQ(b_.received.size(), 1u);
  EXPECT_EQ(b_.received[0].opcode, URNIC_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(b_.received[0].imm_or_key, 0x77u);
  EXPECT_EQ(b_.received[0].byte_len, 500u);
}

TEST_F(UcTest, AMessageWithAnotherMtuIsDropped) {
  ASSERT_TRUE(b_.rings().PostRecv({.sges = {b_.Sge(0, 2000)}}));
  QpConfig larger = Config(0x22);
  larger.mtu = 512;
  End c(0x11, larger);
  SendWr wr;
  wr.sges = {c.Sge(0, 1000)};
  ASSERT_TRUE(c.rings().PostSend(wr));
  b_.Receive(c.Transmit());
  EXPECT_TRUE(b_.received.empty());
}

TEST_F(UcTest, ReadsAndAtomicsAreRefused) {
  SendWr read = Write(1, 8, 0);
  read.opcode = URNIC_WR_RDMA_READ;
  ASSERT_TRUE(a_.rings().PostSend(read));
  EXPECT_TRUE(a_.Transmit().empty());
  ASSERT_EQ(a_.completed.size(), 1u);
  EXPECT_EQ(a_.completed[0].status, URNIC_WC_LOC_QP_OP_ERR);
  EXPECT_EQ(a_.qp().state(), QpState::kSqe);
}

TEST_F(UcTest, ErrFlushesBothQueues) {
  ASSERT_TRUE(a_.rings().PostRecv({.wr_id = 1}));
  a_.qp().Modify(QpState::kErr, Config(0x22));
  ASSERT_TRUE(a_.rings().PostSend(Send(2, 8)));
  a_.Poll();
  ASSERT_EQ(a_.completed.size(), 1u);
  EXPECT_EQ(a_.completed[0].status, URNIC_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a_.received.size(), 1u);
  EXPECT_EQ(a_.received[0].status, URNIC_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace urnic::uc
