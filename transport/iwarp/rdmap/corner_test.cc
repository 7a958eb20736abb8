// Messages that only an unusual peer sends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/iwarp/rdmap/raw_ulpdu.h"
#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::RdmapOpcode;

// The bytes of an error in the Terminate that `end` sends now.
ddp::StreamError Terminated(RdmapEnd& end) {
  const std::vector<Bytes> sent = end.Transmit();
  if (sent.size() != 1 || sent[0].size() < 22) return ddp::kNoError;
  const Bytes& ulpdu = sent[0];
  return {static_cast<uint8_t>(ulpdu[18] >> 4),
          static_cast<uint8_t>(ulpdu[18] & 0x0f), ulpdu[19]};
}

EndOptions With(ImmediateData immediate) {
  EndOptions options;
  options.config.immediate = immediate;
  options.config.ird = 2;
  return options;
}

Bytes Immediate(uint32_t msn, size_t bytes = 8, bool last = true) {
  return Raw(RawUntagged{.opcode = RdmapOpcode::kImmediateSolicited,
                         .last = last,
                         .msn = msn,
                         .payload = bytes});
}

class CornerTest : public ::testing::Test {
 protected:
  RdmapEnd end{With(ImmediateData::kMerged)};
};

//= RFC 7306 6.1
TEST_F(CornerTest, ImmediateDataHasEightBytes) {
  for (const Bytes& wrong :
       {Immediate(1, 7), Immediate(1, 9), Immediate(1, 8, false)}) {
    RdmapEnd fresh;
    fresh.Recv(70, {});
    fresh.Receive(wrong);
    EXPECT_EQ(Terminated(fresh), ddp::kStreamCatastrophic);
  }
}

TEST_F(CornerTest, ImmediateDataTakesAReceive) {
  end.Receive(Immediate(1));
  EXPECT_EQ(Terminated(end), ddp::kNoBuffer);
}

TEST_F(CornerTest, ImmediateDataOfAPlainPeerAfterASendIsAReceiveOfItsOwn) {
  RdmapEnd plain(With(ImmediateData::kRfc7306));
  plain.Recv(70, {plain.Sge(0, 10)});
  plain.Recv(71, {plain.Sge(0, 10)});
  plain.Receive(Raw(
      RawTagged{.stag = plain.key(), .offset = plain.at(100), .payload = 50}));
  // The mark means nothing here.
  plain.Receive(Raw(RawUntagged{.stag = kImmediateFollows, .payload = 10}));
  plain.Receive(Immediate(2));
  ASSERT_THAT(plain.received, SizeIs(2));
  EXPECT_EQ(plain.received[0].byte_len, 10u);
  EXPECT_EQ(plain.received[0].wc_flags, 0);
  EXPECT_EQ(plain.received[1].byte_len, 0u) << "it does not follow the write";
  EXPECT_EQ(plain.received[1].opcode, URNIC_WC_RECV);
  EXPECT_EQ(plain.received[1].wc_flags, URNIC_WC_WITH_IMM);
  EXPECT_EQ(plain.received[1].imm_or_key, 0xababababu);
  EXPECT_TRUE(plain.received[1].solicited);
}

TEST_F(CornerTest, AfterTheMarkOnlyImmediateDataMayFollow) {
  end.Recv(70, {});
  end.Recv(71, {});
  end.Receive(Raw(RawUntagged{.stag = kImmediateFollows}));
  EXPECT_THAT(end.received, IsEmpty());
  end.Receive(Raw(RawUntagged{.msn = 2}));
  EXPECT_EQ(Terminated(end), ddp::kUnexpectedOpcode);
}

//= RFC 7306 5.2.1
TEST_F(CornerTest, AtomicsCountAgainstIrd) {
  for (uint32_t msn = 1; msn <= 3; ++msn) {
    end.Receive(
        Raw(RawAtomic{.msn = msn, .stag = end.key(), .address = end.at(0)}));
  }
  EXPECT_EQ(end.verdicts.back(), RxVerdict::kDdpNoBuffer);
  EXPECT_EQ(Terminated(end), ddp::kNoBuffer);
}

TEST_F(CornerTest, AQueuePairWithoutRightsAnswersOnlyEmptyReads) {
  RdmapEnd fresh({.config = {.access = mem::kRemoteWrite, .ird = 2}});
  fresh.Receive(Raw(RawRead{}));
  EXPECT_THAT(fresh.verdicts, Each(RxVerdict::kAccept));
  fresh.Receive(
      Raw(RawAtomic{.msn = 2, .stag = fresh.key(), .address = fresh.at(0)}));
  EXPECT_EQ(fresh.verdicts.back(), RxVerdict::kDdpRefused);
  EXPECT_EQ(Terminated(fresh), ddp::kAccessRights);
}

TEST_F(CornerTest, AtomicsOfTheWrongLength) {
  const Bytes whole = Raw(RawAtomic{.stag = end.key(), .address = end.at(0)});
  Bytes longer = whole;
  longer.push_back(0);
  end.Receive(longer);
  EXPECT_EQ(Terminated(end), ddp::kTooLong);
  RdmapEnd fresh;
  fresh.Receive(Bytes(whole.begin(), whole.end() - 1));
  EXPECT_EQ(Terminated(fresh), ddp::kStreamCatastrophic);
}

TEST_F(CornerTest, AnAtomicResponseOfTheWrongLength) {
  for (const size_t bytes : {11u, 13u}) {
    RdmapEnd fresh;
    fresh.Send(
        {.opcode = URNIC_WR_ATOMIC_FETCH_AND_ADD, .sges = {fresh.Sge(0, 8)}});
    fresh.Transmit();
    fresh.Receive(Raw(RawUntagged{.opcode = RdmapOpcode::kAtomicResponse,
                                  .queue = wire::kAtomicResponseQueue,
                                  .payload = bytes}));
    EXPECT_EQ(Terminated(fresh), ddp::kStreamCatastrophic);
  }
}

TEST_F(CornerTest, TheAnswerToAnEmptyReadIsEmpty) {
  end.qp().SendRtr(Rtr::kRead);
  end.Transmit();
  end.Receive(
      Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse, .payload = 1}));
  EXPECT_EQ(Terminated(end), ddp::kStreamCatastrophic);
}

TEST_F(CornerTest, ANullRegionIsWrittenAndReadPageByPage) {
  constexpr size_t kZeros = 64 * 1024;
  constexpr size_t kDiscarded = 128 * 1024;
  end.host().Register(kPd, kZeros, 4096, mem::kRemoteRead);
  end.host().Register(kPd, kDiscarded, 4096, mem::kRemoteWrite);
  end.host().mrs().SetNullPages(end.at(kZeros), end.at(kDiscarded));
  const uint32_t null = end.host().mrs().RegisterNull(kPd);
  end.Fill(kDiscarded + 4096, 8192, 1);
  const Bytes before = end.Read(kDiscarded + 4096, 8192);
  end.Receive(Raw(RawTagged{.stag = null, .payload = 9000}));
  EXPECT_EQ(end.Read(kDiscarded + 4096, 8192), before);
  end.Receive(Raw(RawRead{.stag = null, .bytes = 9000}));
  end.SetMulpdu(9014);
  const std::vector<Bytes> answer = end.Transmit();
  ASSERT_THAT(answer, SizeIs(3));
  for (const Bytes& ulpdu : answer) {
    EXPECT_THAT(Bytes(ulpdu.begin() + 14, ulpdu.end()), Each(0));
  }
  EXPECT_THAT(end.verdicts, Each(RxVerdict::kAccept));
}

TEST_F(CornerTest, NothingIsCutForAnAbsurdMulpdu) {
  end.Send({.wr_id = 1});
  EXPECT_EQ(end.qp().NextCut(127, true).ulpdu_bytes, 0u);
  EXPECT_EQ(end.qp().NextCut(128, true).ulpdu_bytes, 18u);
}

TEST_F(CornerTest, AMessageMayBeLongButNotEndless) {
  end.Recv(70, {end.Sge(0, 100)});
  end.Receive(Raw(RawUntagged{.last = false}));
  end.Receive(Raw(RawUntagged{.last = false, .payload = 100}));
  end.Receive(Raw(RawUntagged{.last = false, .offset = 100}));
  end.Receive(Raw(RawUntagged{.last = true, .offset = 100, .payload = 1}));
  EXPECT_EQ(Terminated(end), ddp::kTooLong);
}

TEST_F(CornerTest, ABrokenSendRingEndsTheQueuePair) {
  end.rings().sq().indices().producer = 1000;
  EXPECT_THAT(end.Transmit(), SizeIs(0));
  end.Settle({});
  EXPECT_EQ(end.qp().state(), QpState::kErr);
  EXPECT_EQ(Terminated(end), ddp::kRdmapCatastrophic);
}

}  // namespace
}  // namespace urnic::rdmap::testing
