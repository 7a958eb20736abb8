// Whole operations between two queue pairs.

#include "transport/iwarp/rdmap/qp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MATCHER_P2(IsDone, wr_id, status, "") {
  return arg.wr_id == static_cast<uint64_t>(wr_id) && arg.status == status;
}

SendWr Wr(uint8_t opcode, uint64_t wr_id, std::vector<urnic_sge> sges,
          uint8_t flags = URNIC_SEND_SIGNALED) {
  return {.opcode = opcode, .flags = flags, .wr_id = wr_id, .sges = sges};
}
SendWr To(RdmapEnd& target, size_t offset, SendWr wr) {
  wr.remote_addr = target.at(offset);
  wr.rkey = target.key();
  return wr;
}

class QpTest : public ::testing::Test {
 protected:
  RdmapEnd a;
  RdmapEnd b{{.qpn = 0x22}};
};

//= RFC 5041 5.2
//= RFC 5041 4.3
TEST_F(QpTest, ALongSendArrivesInSegments) {
  a.Fill(0, 5000, 1);
  b.Recv(70, {b.Sge(100, 1000), b.Sge(8000, 4096)});
  a.Send(Wr(URNIC_WR_SEND, 7, {a.Sge(0, 3000), a.Sge(3000, 2000)}));
  const auto ulpdus = a.Transmit();
  ASSERT_THAT(ulpdus, SizeIs(4));
  for (const Bytes& ulpdu : ulpdus) EXPECT_LE(ulpdu.size(), 1442u);
  EXPECT_EQ(ulpdus[0][0], 0x01) << "untagged, not the last";
  EXPECT_EQ(ulpdus[3][0], 0x41) << "untagged, the last";
  b.Receive(ulpdus);
  ASSERT_THAT(b.received, ElementsAre(IsDone(70, URNIC_WC_SUCCESS)));
  EXPECT_EQ(b.received[0].byte_len, 5000u);
  EXPECT_EQ(b.received[0].opcode, URNIC_WC_RECV);
  EXPECT_EQ(b.Read(100, 1000), a.Read(0, 1000));
  EXPECT_EQ(b.Read(8000, 4000), a.Read(1000, 4000));
  a.Ack(3);
  EXPECT_THAT(a.sent, IsEmpty());
  a.Ack();
  EXPECT_THAT(a.sent, ElementsAre(IsDone(7, URNIC_WC_SUCCESS)));
}

TEST_F(QpTest, AnEmptySendTakesAReceive) {
  b.Recv(70, {});
  a.Send(Wr(URNIC_WR_SEND, 7, {}));
  Exchange(a, b);
  ASSERT_THAT(b.received, ElementsAre(IsDone(70, URNIC_WC_SUCCESS)));
  EXPECT_EQ(b.received[0].byte_len, 0u);
}

TEST_F(QpTest, ASmallRequestCompletesWhenItsFrameIsKept) {
  a.keep_small = false;
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 1, {a.Sge(0, 64)})));
  a.Transmit();
  EXPECT_THAT(a.sent, IsEmpty()) << "no frame was free";
  a.Ack();
  EXPECT_THAT(a.sent, SizeIs(1));
  a.keep_small = true;
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 2, {a.Sge(0, 64)})));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 3, {a.Sge(0, 65)})));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 4, {a.Sge(0, 8)})));
  a.Transmit();
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, 0), IsDone(2, 0)))
      << "3 is too long, and 4 is after 3";
  a.Ack();
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, 0), IsDone(2, 0), IsDone(3, 0),
                                  IsDone(4, 0)));
}

// A program that has seen a completion posts again at once, also while the RNIC
// is in the middle of the others. rsockets fills its queues exactly.
TEST_F(QpTest, AnEntryIsFreeBeforeItsCompletionIsTold) {
  for (uint64_t i = 0; i < 5; ++i) {
    a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, i, {a.Sge(0, 100)})));
  }
  a.Transmit();
  a.Ack();
  EXPECT_THAT(a.freed, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(QpTest, AnEntryIsFreeBeforeItIsFlushed) {
  for (uint64_t i = 0; i < 3; ++i) {
    a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, i, {a.Sge(0, 100)})));
    a.Recv(70 + i, {});
  }
  a.qp().Modify(QpState::kErr, kDefaultConfig);
  a.Settle({});
  EXPECT_THAT(a.order, ElementsAre(0, 1, 2, 70, 71, 72));
  EXPECT_THAT(a.freed, ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST_F(QpTest, AcknowledgementsOfCompletedRequestsAreIgnored) {
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(a.Send({.wr_id = i,
                        .inline_data = Bytes(8, 1),
                        .remote_addr = b.at(0),
                        .rkey = b.key()}));
    a.Transmit();
  }
  EXPECT_THAT(a.sent, SizeIs(100));
  a.Ack(99);
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 500, {a.Sge(0, 4000)})));
  a.Transmit();
  a.Ack(1);
  EXPECT_THAT(a.sent, SizeIs(100));
  a.Ack();
  EXPECT_THAT(a.sent, SizeIs(101));
}

TEST_F(QpTest, InlineDataIsSentFromTheRing) {
  Bytes data = {1, 2, 3, 4, 5};
  SendWr wr = {.opcode = URNIC_WR_RDMA_WRITE, .inline_data = data};
  a.Send(To(b, 64, wr));
  Exchange(a, b);
  EXPECT_EQ(b.Read(64, 5), data);
}

//= RFC 5041 4.2
TEST_F(QpTest, AWriteGoesWhereItSays) {
  a.Fill(0, 4000, 9);
  a.Send(To(b, 1000, Wr(URNIC_WR_RDMA_WRITE, 1, {a.Sge(0, 4000)})));
  const auto ulpdus = a.Transmit();
  ASSERT_THAT(ulpdus, SizeIs(3));
  // Each segment stands for itself.
  b.Receive(ulpdus[2]);
  EXPECT_EQ(b.Read(1000 + 2 * 1428, 4000 - 2 * 1428),
            a.Read(2 * 1428, 4000 - 2 * 1428));
  b.Receive(std::span(ulpdus).first(2));
  EXPECT_EQ(b.Read(1000, 4000), a.Read(0, 4000));
  EXPECT_THAT(b.received, IsEmpty());
  EXPECT_THAT(b.verdicts, Each(RxVerdict::kAccept));
}

//= RFC 5040 4.4
TEST_F(QpTest, AReadIsScatteredToItsList) {
  b.Fill(0, 6000, 3);
  a.Send(To(b, 500,
            Wr(URNIC_WR_RDMA_READ, 1, {a.Sge(0, 100), a.Sge(9000, 4900)})));
  const auto request = a.Transmit();
  ASSERT_THAT(request, SizeIs(1));
  EXPECT_EQ(request[0].size(), 18u + 28u);
  a.Ack();
  EXPECT_THAT(a.sent, IsEmpty());
  b.Receive(request);
  const auto answer = b.Transmit();
  ASSERT_THAT(answer, SizeIs(4));
  a.Receive(answer);
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS)));
  EXPECT_EQ(a.sent[0].byte_len, 5000u);
  EXPECT_EQ(a.Read(0, 100), b.Read(500, 100));
  EXPECT_EQ(a.Read(9000, 4900), b.Read(600, 4900));
}

//= RFC 5040 5.2
TEST_F(QpTest, AnEmptyReadNeedsNoKey) {
  a.Send(Wr(URNIC_WR_RDMA_READ, 1, {}));
  Exchange(a, b);
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS)));
  a.Send(Wr(URNIC_WR_RDMA_WRITE, 2, {}));
  Exchange(a, b);
  EXPECT_THAT(a.sent, SizeIs(2));
  EXPECT_THAT(b.verdicts, Each(RxVerdict::kAccept));
}

TEST_F(QpTest, AnAnswerWaitsForAFrameToBeKept) {
  b.can_keep = false;
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, 1, {a.Sge(0, 4000)})));
  b.Send(To(a, 0, Wr(URNIC_WR_RDMA_WRITE, 2, {b.Sge(0, 2000)})));
  b.Receive(a.Transmit());
  EXPECT_THAT(b.Transmit(), SizeIs(2)) << "the write only";
  b.can_keep = true;
  EXPECT_THAT(b.Transmit(1), SizeIs(1));
  b.can_keep = false;
  b.Send(To(a, 0, Wr(URNIC_WR_RDMA_WRITE, 3, {b.Sge(0, 20)})));
  EXPECT_THAT(b.Transmit(), IsEmpty()) << "messages are not mixed";
}

TEST_F(QpTest, AnswersAndRequestsTakeTurns) {
  for (int i = 0; i < 4; ++i) {
    a.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, 1, {a.Sge(0, 10)})));
    b.Send(To(a, 0, Wr(URNIC_WR_RDMA_WRITE, 2, {b.Sge(0, 10)})));
  }
  b.Receive(a.Transmit());
  std::vector<uint8_t> opcodes;
  for (const Bytes& ulpdu : b.Transmit()) opcodes.push_back(ulpdu[1] & 0x0f);
  EXPECT_THAT(opcodes, ElementsAre(2, 0, 2, 0, 2, 0, 2, 0));
}

TEST_F(QpTest, AnAnswerWaitsForTheEndOfAMessage) {
  b.Send(To(a, 0, Wr(URNIC_WR_RDMA_WRITE, 1, {b.Sge(0, 4000)})));
  EXPECT_THAT(b.Transmit(1), SizeIs(1));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, 2, {a.Sge(0, 10)})));
  b.Receive(a.Transmit());
  std::vector<uint8_t> opcodes;
  for (const Bytes& ulpdu : b.Transmit()) opcodes.push_back(ulpdu[1] & 0x0f);
  EXPECT_THAT(opcodes, ElementsAre(0, 0, 2));
}

//= RFC 5040 5.2
TEST_F(QpTest, OnlyOrdReadsAreUnderWay) {
  RdmapEnd c({.config = {.access = kAllRights, .ird = 8, .ord = 2}});
  for (uint64_t i = 0; i < 3; ++i) {
    c.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, i, {c.Sge(0, 10)})));
  }
  c.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 3, {c.Sge(0, 10)})));
  b.Receive(c.Transmit());
  EXPECT_THAT(b.verdicts, SizeIs(2));
  Exchange(c, b);
  EXPECT_THAT(c.sent, SizeIs(4));
}

//= RFC 5040 5.5
TEST_F(QpTest, AFencedRequestWaitsForReads) {
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, 1, {a.Sge(0, 10)})));
  a.Send(To(b, 0,
            Wr(URNIC_WR_RDMA_WRITE, 2, {a.Sge(0, 10)},
               URNIC_SEND_SIGNALED | URNIC_SEND_FENCE)));
  const auto read = a.Transmit();
  EXPECT_THAT(read, SizeIs(1));
  b.Receive(read);
  a.Ack();
  a.Receive(b.Transmit());
  EXPECT_THAT(a.Transmit(), SizeIs(1));
}

//= RFC 5040 5.5
TEST_F(QpTest, AReadSeesTheWriteBeforeIt) {
  a.Fill(0, 3000, 5);
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 1, {a.Sge(0, 3000)})));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, 2, {a.Sge(8000, 3000)})));
  Exchange(a, b);
  EXPECT_EQ(a.Read(8000, 3000), a.Read(0, 3000));
}

TEST_F(QpTest, SolicitedEventsAreReported) {
  b.Recv(70, {b.Sge(0, 10)});
  b.Recv(71, {b.Sge(0, 10)});
  a.Send(Wr(URNIC_WR_SEND, 1, {a.Sge(0, 10)}, URNIC_SEND_SOLICITED));
  a.Send(Wr(URNIC_WR_SEND, 2, {a.Sge(0, 10)}, 0));
  Exchange(a, b);
  ASSERT_THAT(b.received, SizeIs(2));
  EXPECT_TRUE(b.received[0].solicited);
  EXPECT_FALSE(b.received[1].solicited);
  EXPECT_THAT(a.sent, IsEmpty()) << "not signaled";
}

TEST_F(QpTest, ASendInvalidatesAnStag) {
  const uint32_t stag = b.host().mrs().Register(
      kPd, b.at(0), b.at(0), 100, kAllRights | mem::kRemoteInvalidate);
  b.Recv(70, {b.Sge(200, 10)});
  SendWr send = Wr(URNIC_WR_SEND_WITH_INV, 1, {a.Sge(0, 10)});
  send.imm_or_key = stag;
  a.Send(send);
  Exchange(a, b);
  ASSERT_THAT(b.received, SizeIs(1));
  EXPECT_EQ(b.received[0].wc_flags, URNIC_WC_WITH_INV);
  EXPECT_EQ(b.received[0].imm_or_key, stag);
  SendWr write = To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 2, {a.Sge(0, 10)}));
  write.rkey = stag;
  a.Send(write);
  Exchange(a, b);
  EXPECT_EQ(b.verdicts.back(), RxVerdict::kDdpRefused);
}

TEST_F(QpTest, AMemoryWindowIsBoundWrittenAndInvalidated) {
  const uint32_t window = b.host().mrs().AllocateWindow(kPd, true);
  SendWr bind = {.opcode = URNIC_WR_BIND_MW, .wr_id = 1};
  bind.imm_or_key = window ^ 1;
  bind.remote_addr = b.at(4096);
  bind.rkey = window;
  bind.xrc_srqn = b.key();
  bind.compare_add = 100;
  bind.swap = mem::kRemoteWrite;
  b.Send(bind);
  Exchange(a, b);
  ASSERT_THAT(b.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS)));
  a.Fill(0, 100, 1);
  SendWr write = To(b, 4096, Wr(URNIC_WR_RDMA_WRITE, 2, {a.Sge(0, 100)}));
  write.rkey = window ^ 1;
  a.Send(write);
  b.Recv(70, {b.Sge(0, 10)});
  SendWr send = Wr(URNIC_WR_SEND_WITH_INV, 3, {a.Sge(0, 1)});
  send.imm_or_key = window ^ 1;
  a.Send(send);
  Exchange(a, b);
  EXPECT_EQ(b.Read(4096, 100), a.Read(0, 100));
  EXPECT_THAT(b.received, ElementsAre(IsDone(70, URNIC_WC_SUCCESS)));
  a.Send(write);
  Exchange(a, b);
  EXPECT_EQ(b.verdicts.back(), RxVerdict::kDdpRefused);
}

TEST_F(QpTest, ALocalInvalidateCompletesWithTheAcknowledgementThatItNeeds) {
  SendWr invalidate = {.opcode = URNIC_WR_LOCAL_INV, .wr_id = 2};
  invalidate.imm_or_key =
      a.host().Register(kPd, 8192, 4096, kAllRights | mem::kRemoteInvalidate);
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 1, {a.Sge(0, 3000)})));
  a.Send(invalidate);
  (void)a.Transmit();
  EXPECT_THAT(a.sent, IsEmpty());
  a.Ack();
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS),
                                  IsDone(2, URNIC_WC_SUCCESS)));
}

TEST_F(QpTest, ALocalInvalidateWaitsForWhatMayBeSentAgain) {
  const uint32_t lkey = a.host().mrs().Register(
      kPd, a.at(0), a.at(0), 4096, mem::kLocalWrite | mem::kRemoteInvalidate);
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 1, {{a.at(0), 3000, lkey}})));
  SendWr invalidate = {.opcode = URNIC_WR_LOCAL_INV, .wr_id = 2};
  invalidate.imm_or_key = lkey;
  a.Send(invalidate);
  // The book of the host does not know this region: build without gathering.
  const ddp::Cut cut = a.qp().NextCut(4000, true);
  EXPECT_NE(cut.ulpdu_bytes, 0u);
  EXPECT_FALSE(a.qp().HasWork());
  EXPECT_EQ(a.host().mrs().Find(MrKey{lkey})->invalidated, 0u);
  a.qp().OnAcked(cut.source);
  EXPECT_EQ(a.qp().NextCut(4000, true).ulpdu_bytes, 0u);
  a.Settle({});
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, 0), IsDone(2, 0)));
  EXPECT_NE(a.host().mrs().Find(MrKey{lkey})->invalidated, 0u);
}

//= RFC 7306 5.2.1
//= RFC 7306 5.2.2
TEST_F(QpTest, AtomicsAreExecutedOnceInOrder) {
  b.SetWord(64, 10);
  SendWr add = To(b, 64, Wr(URNIC_WR_ATOMIC_FETCH_AND_ADD, 1, {a.Sge(0, 8)}));
  add.compare_add = 5;
  a.Send(add);
  SendWr swap = To(b, 64, Wr(URNIC_WR_ATOMIC_CMP_AND_SWP, 2, {a.Sge(8, 8)}));
  swap.compare_add = 15;
  swap.swap = 100;
  a.Send(swap);
  swap.wr_id = 3;
  swap.sges = {a.Sge(16, 8)};
  a.Send(swap);
  Exchange(a, b);
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, 0), IsDone(2, 0), IsDone(3, 0)));
  EXPECT_EQ(a.Word(0), 10u);
  EXPECT_EQ(a.Word(8), 15u);
  EXPECT_EQ(a.Word(16), 100u);
  EXPECT_EQ(b.Word(64), 100u);
}

//= RFC 7306 6.1
TEST_F(QpTest, ImmediateDataCompletesWithTheLengthOfItsMessage) {
  b.Recv(70, {});
  b.Recv(71, {b.Sge(0, 5000)});
  SendWr write = To(b, 8000,
                    Wr(URNIC_WR_RDMA_WRITE_WITH_IMM, 1, {a.Sge(0, 3000)},
                       URNIC_SEND_SIGNALED | URNIC_SEND_SOLICITED));
  write.imm_or_key = 0x11223344;
  a.Send(write);
  SendWr send = Wr(URNIC_WR_SEND_WITH_IMM, 2, {a.Sge(0, 4000)});
  send.imm_or_key = 0x55667788;
  a.Send(send);
  Exchange(a, b);
  ASSERT_THAT(b.received, ElementsAre(IsDone(70, 0), IsDone(71, 0)));
  EXPECT_EQ(b.received[0].opcode, URNIC_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(b.received[0].byte_len, 3000u);
  EXPECT_EQ(b.received[0].imm_or_key, 0x11223344u);
  EXPECT_TRUE(b.received[0].solicited);
  EXPECT_EQ(b.received[1].opcode, URNIC_WC_RECV);
  EXPECT_EQ(b.received[1].wc_flags, URNIC_WC_WITH_IMM);
  EXPECT_EQ(b.received[1].byte_len, 4000u);
  EXPECT_EQ(b.received[1].imm_or_key, 0x55667788u);
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, 0), IsDone(2, 0)));
}

TEST_F(QpTest, APeerWithoutImmediateDataGetsNone) {
  for (const auto& [immediate, opcode, allowed] :
       {std::tuple{ImmediateData::kNone, URNIC_WR_RDMA_WRITE_WITH_IMM, false},
        std::tuple{ImmediateData::kNone, URNIC_WR_SEND_WITH_IMM, false},
        std::tuple{ImmediateData::kRfc7306, URNIC_WR_RDMA_WRITE_WITH_IMM, true},
        std::tuple{ImmediateData::kRfc7306, URNIC_WR_SEND_WITH_IMM, false}}) {
    Config config = kDefaultConfig;
    config.immediate = immediate;
    RdmapEnd c({.config = config});
    RdmapEnd d({.config = config});
    d.Recv(70, {});
    c.Send(To(d, 0, Wr(static_cast<uint8_t>(opcode), 1, {c.Sge(0, 10)})));
    Exchange(c, d);
    EXPECT_THAT(c.sent,
                ElementsAre(IsDone(
                    1, allowed ? URNIC_WC_SUCCESS : URNIC_WC_LOC_QP_OP_ERR)));
  }
}

TEST_F(QpTest, ASharedQueueGivesTheReceives) {
  RdmapEnd ring_owner;
  RecvRing ring(ring_owner.rings().rq().view(), RdmapEnd::kMaxSge, kPd);
  RdmapEnd c({.shared = &ring});
  ring_owner.Recv(70, {c.Sge(0, 100)});
  a.Fill(0, 50, 1);
  a.Send(Wr(URNIC_WR_SEND, 1, {a.Sge(0, 50)}));
  Exchange(a, c);
  EXPECT_THAT(c.received, ElementsAre(IsDone(70, URNIC_WC_SUCCESS)));
  EXPECT_EQ(c.Read(0, 50), a.Read(0, 50));
}

TEST_F(QpTest, SegmentsAreBuiltAgainAsTheyWere) {
  Random random(3);
  a.SetMulpdu(
      [&random] { return static_cast<uint32_t>(128 + random.Below(1400)); });
  a.keep_small = false;
  a.Fill(0, 9000, 1);
  a.Send(Wr(URNIC_WR_SEND, 1, {a.Sge(0, 100), a.Sge(300, 5000)}));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE_WITH_IMM, 2, {a.Sge(50, 2500)})));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_READ, 3, {a.Sge(0, 100)})));
  a.Send(To(b, 0, Wr(URNIC_WR_ATOMIC_FETCH_AND_ADD, 4, {a.Sge(0, 8)})));
  while (!a.Transmit(1).empty()) ASSERT_TRUE(a.RebuildAll());
  EXPECT_GT(a.unacked(), 8u);
  a.Ack(3);
  EXPECT_TRUE(a.RebuildAll());
}

TEST_F(QpTest, ChangedEntriesAreNotSentAgain) {
  a.keep_small = false;
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 1, {a.Sge(0, 3000)})));
  a.Send(To(b, 0, Wr(URNIC_WR_RDMA_WRITE, 2, {a.Sge(0, 10)})));
  a.Transmit();
  a.rings().WriteSend(0, Wr(URNIC_WR_RDMA_WRITE, 1, {a.Sge(0, 2)}));
  EXPECT_FALSE(a.RebuildAll());
  // The ring has only eight bytes.
  a.rings().WriteSend(0,
                      {.opcode = URNIC_WR_RDMA_WRITE, .inline_data = Bytes(8)});
  EXPECT_FALSE(a.RebuildAll());
}

//= RFC 6581 9
TEST_F(QpTest, TheFirstMessageMayBeAnEmptyOne) {
  for (const Rtr rtr : {Rtr::kWrite, Rtr::kRead}) {
    RdmapEnd c;
    RdmapEnd d;
    c.Send(To(d, 0, Wr(URNIC_WR_RDMA_READ, 1, {c.Sge(0, 100)})));
    c.qp().SendRtr(rtr);
    const auto first = c.Transmit(1);
    ASSERT_THAT(first, SizeIs(1));
    EXPECT_EQ(first[0].size(), rtr == Rtr::kWrite ? 14u : 46u);
    EXPECT_TRUE(c.RebuildAll());
    d.Receive(first);
    Exchange(c, d);
    EXPECT_THAT(c.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS)));
    EXPECT_THAT(c.verdicts, Each(RxVerdict::kAccept));
    EXPECT_THAT(d.verdicts, Each(RxVerdict::kAccept));
  }
}

TEST_F(QpTest, SendsThatWereDoneBeforeAPacketCompleteBeforeItsReceive) {
  a.Recv(70, {a.Sge(0, 10)});
  b.Recv(71, {b.Sge(0, 2000)});
  a.Send(Wr(URNIC_WR_SEND, 1, {a.Sge(0, 2000)}));
  b.Receive(a.Transmit());
  b.Send(Wr(URNIC_WR_SEND, 2, {b.Sge(0, 10)}));
  const auto reply = b.Transmit();
  a.qp().OnAcked(
      ddp::Source{.index = 0, .offset = 1424, .payload_bytes = 576}.Pack());
  a.Receive(reply);
  EXPECT_THAT(a.order, ElementsAre(1, 70));
}

TEST_F(QpTest, AResetQueuePairStartsAgain) {
  b.Recv(70, {b.Sge(0, 10)});
  a.Send(Wr(URNIC_WR_SEND, 1, {a.Sge(0, 5000)}));
  b.Receive(a.Transmit(2));
  for (RdmapEnd* end : {&a, &b}) {
    end->qp().Modify(QpState::kReset, {});
    end->qp().Modify(QpState::kInit, {});
    end->qp().Modify(QpState::kRts, kDefaultConfig);
    end->received.clear();
  }
  b.Recv(71, {b.Sge(0, 10)});
  a.Send(Wr(URNIC_WR_SEND, 2, {a.Sge(0, 10)}));
  Exchange(a, b);
  EXPECT_THAT(a.sent, ElementsAre(IsDone(2, URNIC_WC_SUCCESS)));
  EXPECT_THAT(b.received, ElementsAre(IsDone(71, URNIC_WC_SUCCESS)));
}

}  // namespace
}  // namespace urnic::rdmap::testing
