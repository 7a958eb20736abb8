#include "transport/ud/qp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/unreliable_end.h"

namespace urnic::ud {
namespace {

using testing::Bytes;
using testing::SendWr;

class UdTest : public ::testing::Test {
 protected:
  using End = testing::UnreliableEnd<Qp>;

  static QpConfig Config() {
    QpConfig config;
    config.qkey = 0x1234;
    config.mtu = 1024;
    config.sq_psn = Psn(0xffffff);
    return config;
  }
  // To `b_` through address handle 77.
  SendWr To(uint64_t wr_id, uint32_t bytes, uint32_t qkey = 0x1234) {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.sges = {a_.Sge(0, bytes)};
    wr.remote_addr = uint64_t{0x22} << 32 | 77;
    wr.rkey = qkey;
    return wr;
  }
  // Sends everything that is posted on `a_` to `b_`.
  void Deliver() { b_.Receive(a_.Transmit(), ip_); }

  uint8_t ip_[20] = {0x45, 1, 2, 3};
  End a_{0x11, Config()};
  End b_{0x22, Config()};
};

TEST_F(UdTest, AMessageIsPlacedAfterItsHeader) {
  a_.Fill(0, 100, 5);
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 9, .sges = {b_.Sge(0, 200)}}));
  SendWr wr = To(1, 99);
  wr.opcode = URNIC_WR_SEND_WITH_IMM;
  wr.imm_or_key = 0xabcd;
  ASSERT_TRUE(a_.rings().PostSend(wr));
  Deliver();
  ASSERT_EQ(a_.completed.size(), 1u);
  EXPECT_EQ(a_.completed[0].wr_id, 1u);
  EXPECT_EQ(a_.address_handles(), std::vector<uint32_t>{77});
  ASSERT_EQ(b_.received.size(), 1u);
  const RecvCompletion& done = b_.received[0];
  EXPECT_EQ(done.wr_id, 9u);
  EXPECT_EQ(done.byte_len, 139u);
  EXPECT_EQ(done.src_qp, 0x11u);
  EXPECT_EQ(done.imm_or_key, 0xabcdu);
  EXPECT_EQ(done.wc_flags, URNIC_WC_GRH | URNIC_WC_WITH_IMM);
  EXPECT_EQ(done.sl, URNIC_FRAME_ROCE_V2_IPV4);
  //= IBTA A17.4.5.1, A17.4.5.2
  const auto memory = b_.host().bytes(0, 139);
  EXPECT_TRUE(std::equal(ip_, ip_ + 20, memory.begin() + 20));
  EXPECT_EQ(memory[40], 5);
  EXPECT_EQ(memory[138], 103);
}

//= IBTA A16.4.4, 11.4.1.2
TEST_F(UdTest, AllFortyBytesOfAGrhArePlaced) {
  uint8_t grh[40];
  for (uint8_t i = 0; i < sizeof(grh); ++i) grh[i] = 0x80 + i;
  a_.Fill(0, 8, 5);
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 9, .sges = {b_.Sge(0, 200)}}));
  ASSERT_TRUE(a_.rings().PostSend(To(1, 8)));
  b_.Receive(a_.Transmit(), grh, wire::Framing::kGrh);
  ASSERT_EQ(b_.received.size(), 1u);
  const auto memory = b_.host().bytes(0, 48);
  EXPECT_TRUE(std::equal(grh, grh + 40, memory.begin()));
  EXPECT_EQ(memory[40], 5);
}

//= IBTA 10.2.5
TEST_F(UdTest, ADatagramWithAnotherQkeyIsDropped) {
  ASSERT_TRUE(b_.rings().PostRecv({.sges = {b_.Sge(0, 200)}}));
  ASSERT_TRUE(a_.rings().PostSend(To(1, 8, 0x999)));
  Deliver();
  EXPECT_EQ(b_.verdicts, std::vector{RxVerdict::kBadQkey});
  EXPECT_TRUE(b_.received.empty());
  EXPECT_EQ(a_.completed.size(), 1u) << "nobody tells the sender";
}

TEST_F(UdTest, AControlledQkeyIsTheSendersOwn) {
  //= IBTA 10.2.5
  ASSERT_TRUE(b_.rings().PostRecv({.sges = {b_.Sge(0, 200)}}));
  ASSERT_TRUE(a_.rings().PostSend(To(1, 8, 0x80000000)));
  Deliver();
  EXPECT_EQ(b_.verdicts, std::vector{RxVerdict::kAccept});
}

//= IBTA 9.8.2.2.2
TEST_F(UdTest, AMessageThatDoesNotFitIsDroppedAndTheReceiveServesTheNext) {
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 3, .sges = {b_.Sge(0, 50)}}));
  ASSERT_TRUE(a_.rings().PostSend(To(1, 11)));
  ASSERT_TRUE(a_.rings().PostSend(To(2, 10)));
  ASSERT_TRUE(a_.rings().PostSend(To(3, 1)));
  Deliver();
  EXPECT_EQ(b_.verdicts, (std::vector{RxVerdict::kTooLong, RxVerdict::kAccept,
                                      RxVerdict::kNoReceive}));
  ASSERT_EQ(b_.received.size(), 1u);
  EXPECT_EQ(b_.received[0].byte_len, 50u);
}

TEST_F(UdTest, AMessageBeyondTheMtuIsNotSentAndIsNoError) {
  //= IBTA C10-93.1.1
  ASSERT_TRUE(a_.rings().PostSend(To(1, 1025)));
  ASSERT_TRUE(a_.rings().PostSend(To(2, 1024)));
  EXPECT_EQ(a_.Transmit().size(), 1u);
  ASSERT_EQ(a_.completed.size(), 2u);
  EXPECT_EQ(a_.completed[0].status, URNIC_WC_SUCCESS);
}

TEST_F(UdTest, AFailedSendStopsOnlyTheSendQueue) {
  //= IBTA 10.3.1.7
  SendWr bad = To(1, 8);
  bad.sges[0].lkey ^= 0x100;
  ASSERT_TRUE(a_.rings().PostSend(bad));
  ASSERT_TRUE(a_.rings().PostSend(To(2, 8)));
  EXPECT_TRUE(a_.Transmit().empty());
  ASSERT_EQ(a_.completed.size(), 2u);
  EXPECT_EQ(a_.completed[0].status, URNIC_WC_LOC_PROT_ERR);
  EXPECT_EQ(a_.completed[1].status, URNIC_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_.qp().state(), QpState::kSqe);
  // It still receives, and sends again once it is back in RTS.
  ASSERT_TRUE(a_.rings().PostRecv({.sges = {a_.Sge(0, 200)}}));
  SendWr back;
  back.sges = {b_.Sge(0, 4)};
  back.remote_addr = uint64_t{0x11} << 32 | 5;
  back.rkey = 0x1234;
  ASSERT_TRUE(b_.rings().PostSend(back));
  a_.Receive(b_.Transmit(), ip_);
  EXPECT_EQ(a_.received.size(), 1u);
  a_.qp().Modify(QpState::kRts, Config());
  ASSERT_TRUE(a_.rings().PostSend(To(3, 8)));
  EXPECT_EQ(a_.Transmit().size(), 1u);
}

//= IBTA 10.3.1.7
TEST_F(UdTest, RequestsPostedToAStoppedSendQueueAreFlushedAndNeverSent) {
  SendWr bad = To(1, 8);
  bad.sges[0].lkey ^= 0x100;
  ASSERT_TRUE(a_.rings().PostSend(bad));
  EXPECT_TRUE(a_.Transmit().empty());
  ASSERT_EQ(a_.completed.size(), 1u);
  ASSERT_EQ(a_.qp().state(), QpState::kSqe);
  ASSERT_TRUE(a_.rings().PostSend(To(2, 8)));
  a_.Poll();
  ASSERT_TRUE(a_.rings().PostSend(To(3, 8)));
  SendWr silent = To(4, 8);
  silent.flags = 0;
  ASSERT_TRUE(a_.rings().PostSend(silent));
  // These two have not been polled for.
  a_.qp().Modify(QpState::kRts, Config());
  ASSERT_TRUE(a_.rings().PostSend(To(5, 8)));
  EXPECT_EQ(a_.Transmit().size(), 1u);
  ASSERT_EQ(a_.completed.size(), 5u);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(a_.completed[i].wr_id, i + 1);
    EXPECT_EQ(a_.completed[i].status, URNIC_WC_WR_FLUSH_ERR);
  }
  EXPECT_EQ(a_.completed[4].wr_id, 5u);
  EXPECT_EQ(a_.completed[4].status, URNIC_WC_SUCCESS);
}

TEST_F(UdTest, AMissingAddressHandleFailsItsRequest) {
  ASSERT_TRUE(a_.rings().PostSend(To(1, 8)));
  uint8_t headers[kMaxHeaderBytes];
  TxSlot slot;
  slot.headers = headers;
  ASSERT_EQ(a_.qp().Transmit(Time(), {&slot, 1}), 1u);
  a_.qp().OnNoPath(slot);
  a_.Poll();
  ASSERT_EQ(a_.completed.size(), 1u);
  EXPECT_EQ(a_.completed[0].status, URNIC_WC_LOC_QP_OP_ERR);
}

TEST_F(UdTest, AReceiveInMissingMemoryFailsTheQueuePair) {
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 1, .sges = {b_.Sge(0, 200)}}));
  ASSERT_TRUE(b_.rings().PostRecv({.wr_id = 2, .sges = {b_.Sge(0, 200)}}));
  b_.host().Break(0, 4096, testing::FakeHost::Damage::kUnmapped);
  ASSERT_TRUE(a_.rings().PostSend(To(1, 8)));
  Deliver();
  EXPECT_EQ(b_.qp().state(), QpState::kErr);
  ASSERT_EQ(b_.received.size(), 2u);
  EXPECT_EQ(b_.received[0].status, URNIC_WC_LOC_PROT_ERR);
  EXPECT_EQ(b_.received[1].status, URNIC_WC_WR_FLUSH_ERR);
  EXPECT_EQ(b_.TakeEvent(), QpEvent::kFatal);
}

TEST_F(UdTest, DrainingSendsNothingPostedLater) {
  ASSERT_TRUE(a_.rings().PostSend(To(1, 8)));
  a_.Transmit();
  a_.qp().Modify(QpState::kSqd, Config());
  ASSERT_TRUE(a_.rings().PostSend(To(2, 8)));
  EXPECT_TRUE(a_.Transmit().empty());
  EXPECT_EQ(a_.TakeEvent(), QpEvent::kSqDrained);
  a_.qp().Modify(QpState::kRts, Config());
  EXPECT_EQ(a_.Transmit().size(), 1u);
}

}  // namespace
}  // namespace urnic::ud
