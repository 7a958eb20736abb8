// Each error that ends a stream, from both sides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/iwarp/rdmap/raw_ulpdu.h"
#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::RdmapOpcode;

MATCHER_P2(IsDone, wr_id, status, "") {
  return arg.wr_id == static_cast<uint64_t>(wr_id) && arg.status == status;
}

// The error of the Terminate that `end` sends now; none: it sends no Terminate.
ddp::StreamError Terminated(RdmapEnd& end) {
  end.Ack();
  const std::vector<Bytes> sent = end.Transmit();
  if (sent.empty()) return ddp::kNoError;
  EXPECT_THAT(sent, SizeIs(1)) << "a Terminate is the last message";
  EXPECT_TRUE(end.qp().ends_stream());
  EXPECT_TRUE(end.RebuildAll());
  const std::span<const uint8_t> piece(sent[0]);
  ddp::ReceivedSegment segment;
  EXPECT_FALSE(ddp::ParseSegment({&piece, 1}, segment));
  EXPECT_EQ(segment.control.opcode(),
            static_cast<uint8_t>(RdmapOpcode::kTerminate));
  EXPECT_EQ(segment.queue, wire::kTerminateQueue);
  EXPECT_EQ(segment.msn, 1u);
  Terminate terminate;
  EXPECT_TRUE(ParseTerminate(piece.subspan(segment.header_bytes), terminate));
  return terminate.error;
}

class ErrorTest : public ::testing::Test {
 protected:
  // What a fresh queue pair answers to one ULPDU.
  ddp::StreamError Answer(const Bytes& ulpdu) {
    EXPECT_EQ(b.qp().state(), QpState::kRts);
    b.Receive(ulpdu);
    EXPECT_EQ(b.qp().state(), QpState::kErr);
    EXPECT_NE(b.event, QpEvent::kNone);
    EXPECT_NE(b.verdicts.back(), RxVerdict::kAccept);
    const ddp::StreamError error = Terminated(b);
    b.Receive(ulpdu);
    EXPECT_EQ(b.verdicts.back(), RxVerdict::kQpNotReady);
    EXPECT_THAT(b.Transmit(), IsEmpty());
    return error;
  }
  uint32_t Region(uint32_t pd, uint32_t access) {
    return b.host().Register(pd, 4096, 4096, access);
  }
  Bytes Write(uint32_t stag, uint64_t address) {
    return Raw(RawTagged{.stag = stag, .offset = address, .payload = 8});
  }

  RdmapEnd a;
  RdmapEnd b{{.config = {.access = kAllRights, .ird = 2, .ord = 2}}};
};

//= RFC 5041 7.1
TEST_F(ErrorTest, AnotherVersionOfDdpUntagged) {
  Bytes ulpdu = Raw(RawUntagged{});
  ulpdu[0] = (ulpdu[0] & ~wire::kDdpVersionMask) | 2;
  EXPECT_EQ(Answer(ulpdu), ddp::kUntaggedVersion);
  EXPECT_EQ(b.verdicts[0], RxVerdict::kDdpMalformed);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, AnotherVersionOfDdpTagged) {
  Bytes ulpdu = Raw(RawTagged{});
  ulpdu[0] = (ulpdu[0] & ~wire::kDdpVersionMask) | 2;
  EXPECT_EQ(Answer(ulpdu), ddp::kTaggedVersion);
  EXPECT_EQ(b.verdicts[0], RxVerdict::kDdpMalformed);
}
//= RFC 5040 7.1
TEST_F(ErrorTest, AnotherVersionOfRdmap) {
  Bytes ulpdu = Raw(RawTagged{});
  ulpdu[1] = 0x80;
  EXPECT_EQ(Answer(ulpdu), ddp::kRdmapVersion);
}
//= RFC 5040 7.1
TEST_F(ErrorTest, AnotherVersionOfRdmapUntagged) {
  Bytes ulpdu = Raw(RawUntagged{});
  ulpdu[1] = 0x03;
  EXPECT_EQ(Answer(ulpdu), ddp::kRdmapVersion);
}

TEST_F(ErrorTest, HeadersThatAreCutShort) {
  for (const Bytes& whole : {Raw(RawTagged{}), Raw(RawUntagged{})}) {
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      RdmapEnd end;
      end.Receive(
          Bytes(whole.begin(), whole.begin() + static_cast<long>(bytes)));
      EXPECT_EQ(Terminated(end), ddp::kDdpCatastrophic) << bytes;
    }
  }
}

//= RFC 5041 7.1
TEST_F(ErrorTest, AnUnknownStag) {
  EXPECT_EQ(Answer(Write(0x1234500, b.at(0))), ddp::kInvalidStag);
  EXPECT_EQ(b.verdicts[0], RxVerdict::kDdpRefused);
  EXPECT_EQ(b.event, QpEvent::kAccessError);
  const RefusedAccess refused = b.qp().responder().refused();
  EXPECT_EQ(refused.range.address, b.at(0));
  EXPECT_EQ(refused.range.length, 8u);
  EXPECT_EQ(refused.range.key.value, 0x1234500u);
  EXPECT_EQ(refused.request, URNIC_WR_RDMA_WRITE);
  EXPECT_EQ(refused.fault, mem::MemFault::kKey);
  EXPECT_FALSE(refused.by_queue_pair);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, AnStagOfAnotherDomain) {
  EXPECT_EQ(Answer(Write(Region(2, kAllRights), b.at(4096))),
            ddp::kStagOfOtherStream);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, AWriteBeyondItsRegion) {
  EXPECT_EQ(Answer(Write(Region(kPd, kAllRights), b.at(8192 - 7))),
            ddp::kBounds);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, AWriteWhoseOffsetWraps) {
  EXPECT_EQ(Answer(Write(b.key(), UINT64_MAX - 3)), ddp::kOffsetWrap);
}
TEST_F(ErrorTest, AWriteWithoutTheRight) {
  EXPECT_EQ(Answer(Write(Region(kPd, mem::kRemoteRead), b.at(4096))),
            ddp::kAccessRights);
}
TEST_F(ErrorTest, AWriteToAQueuePairThatAllowsNone) {
  RdmapEnd end({.config = {.access = mem::kRemoteRead}});
  end.Receive(
      Raw(RawTagged{.stag = end.key(), .offset = end.at(0), .payload = 8}));
  EXPECT_EQ(Terminated(end), ddp::kAccessRights);
  EXPECT_TRUE(end.qp().responder().refused().by_queue_pair);
  // The next connection has refused nothing yet.
  end.qp().Modify(QpState::kReset, {});
  EXPECT_EQ(end.qp().responder().refused().range.key, MrKey{});
}

// As far as the Terminate tells it.
TEST_F(ErrorTest, TheRequesterLearnsWhichAccessWasRefused) {
  for (const uint8_t opcode : {URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_READ}) {
    RdmapEnd from;
    RdmapEnd to;
    // Read requests name their length; the segment of a write has it.
    ASSERT_TRUE(from.Send({.opcode = opcode,
                           .sges = {from.Sge(0, 40)},
                           .remote_addr = to.at(80),
                           .rkey = to.key() ^ 1}));
    Exchange(from, to);
    const RefusedAccess& refused = from.qp().refused_by_peer();
    EXPECT_EQ(refused.request, opcode);
    EXPECT_EQ(refused.range.address, to.at(80));
    EXPECT_EQ(refused.range.length, 40u);
    EXPECT_EQ(refused.range.key.value, to.key() ^ 1);
  }
}

//= RFC 5041 7.2
TEST_F(ErrorTest, AQueueThatDoesNotExist) {
  EXPECT_EQ(Answer(Raw(RawUntagged{.queue = 4})), ddp::kInvalidQueue);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, NoReceive) {
  EXPECT_EQ(Answer(Raw(RawUntagged{.payload = 8})), ddp::kNoBuffer);
  EXPECT_EQ(b.verdicts[0], RxVerdict::kDdpNoBuffer);
}
//= RFC 5041 5.1
//= RFC 5041 5.3
TEST_F(ErrorTest, MessagesOutOfOrder) {
  b.Recv(70, {b.Sge(0, 100)});
  EXPECT_EQ(Answer(Raw(RawUntagged{.msn = 2})), ddp::kMsnRange);
}
//= RFC 5041 5.3
TEST_F(ErrorTest, ARepeatedMessage) {
  b.Recv(70, {b.Sge(0, 100)});
  b.Recv(71, {b.Sge(0, 100)});
  b.Receive(Raw(RawUntagged{}));
  EXPECT_EQ(Answer(Raw(RawUntagged{})), ddp::kMsnRange);
}
//= RFC 5041 5.3
TEST_F(ErrorTest, SegmentsWithAGap) {
  b.Recv(70, {b.Sge(0, 100)});
  b.Receive(Raw(RawUntagged{.last = false, .payload = 8}));
  EXPECT_EQ(Answer(Raw(RawUntagged{.offset = 9, .payload = 8})),
            ddp::kInvalidOffset);
}
//= RFC 5041 5.3
TEST_F(ErrorTest, SegmentsThatOverlap) {
  b.Recv(70, {b.Sge(0, 100)});
  b.Receive(Raw(RawUntagged{.last = false, .payload = 8}));
  EXPECT_EQ(Answer(Raw(RawUntagged{.offset = 7, .payload = 8})),
            ddp::kInvalidOffset);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, AMessageLongerThanItsReceive) {
  b.Recv(70, {b.Sge(0, 4), b.Sge(8, 3)});
  EXPECT_EQ(Answer(Raw(RawUntagged{.payload = 8})), ddp::kTooLong);
  EXPECT_THAT(b.received, ElementsAre(IsDone(70, URNIC_WC_LOC_LEN_ERR)));
}
TEST_F(ErrorTest, AReceiveWithAWrongKey) {
  b.Recv(70, {{b.at(0), 100, 0x777}});
  b.Recv(71, {b.Sge(0, 100)});
  EXPECT_EQ(Answer(Raw(RawUntagged{.payload = 8})), ddp::kDdpCatastrophic);
  EXPECT_THAT(b.received, ElementsAre(IsDone(70, URNIC_WC_LOC_PROT_ERR),
                                      IsDone(71, URNIC_WC_WR_FLUSH_ERR)));
  EXPECT_EQ(b.event, QpEvent::kFatal);
}
TEST_F(ErrorTest, AMessageThatChangesItsOpcode) {
  b.Recv(70, {b.Sge(0, 100)});
  b.Receive(Raw(RawUntagged{.last = false, .payload = 8}));
  EXPECT_EQ(
      Answer(Raw(RawUntagged{
          .opcode = RdmapOpcode::kSendSolicited, .offset = 8, .payload = 8})),
      ddp::kUnexpectedOpcode);
}

//= RFC 5040 4.8
TEST_F(ErrorTest, SourcesOfReads) {
  const struct {
    uint32_t stag;
    uint64_t address;
    uint32_t bytes;
    ddp::StreamError error;
  } kCases[] = {
      {0x1234500, b.at(0), 8, ddp::kSourceStag},
      {Region(2, kAllRights), b.at(4096), 8, ddp::kSourceOfOtherStream},
      {Region(kPd, kAllRights), b.at(4096), 4097, ddp::kSourceBounds},
      {b.key(), UINT64_MAX - 3, 8, ddp::kSourceWrap},
      {Region(kPd, mem::kLocalWrite | mem::kRemoteWrite), b.at(4096), 8,
       ddp::kAccessRights},
  };
  for (const auto& wanted : kCases) {
    b.qp().Modify(QpState::kReset, {});
    b.qp().Modify(QpState::kRts, kDefaultConfig);
    EXPECT_EQ(Answer(Raw(RawRead{.stag = wanted.stag,
                                 .address = wanted.address,
                                 .bytes = wanted.bytes})),
              wanted.error);
    EXPECT_EQ(b.verdicts[b.verdicts.size() - 2], RxVerdict::kDdpRefused);
  }
}
TEST_F(ErrorTest, AReadFromAQueuePairThatAllowsNone) {
  RdmapEnd end({.config = {.access = mem::kRemoteWrite, .ird = 8}});
  end.Receive(
      Raw(RawRead{.stag = end.key(), .address = end.at(0), .bytes = 8}));
  EXPECT_EQ(Terminated(end), ddp::kAccessRights);
}
//= RFC 5040 5.2
TEST_F(ErrorTest, MoreReadsThanIrd) {
  for (uint32_t msn = 1; msn <= 2; ++msn) b.Receive(Raw(RawRead{.msn = msn}));
  EXPECT_EQ(Answer(Raw(RawRead{.msn = 3})), ddp::kNoBuffer);
}
//= RFC 5041 7.1
TEST_F(ErrorTest, ReadRequestsOfTheWrongLength) {
  Bytes longer = Raw(RawRead{});
  longer.push_back(0);
  EXPECT_EQ(Answer(longer), ddp::kTooLong);
  RdmapEnd end;
  Bytes shorter = Raw(RawRead{});
  shorter.pop_back();
  end.Receive(shorter);
  EXPECT_EQ(Terminated(end), ddp::kStreamCatastrophic);
}
TEST_F(ErrorTest, TheSourceOfAReadDisappears) {
  const uint32_t stag = Region(kPd, kAllRights);
  b.Receive(Raw(RawRead{.stag = stag, .address = b.at(4096), .bytes = 4096}));
  EXPECT_THAT(b.Transmit(1), SizeIs(1));
  b.host().Deregister(stag);
  EXPECT_EQ(Terminated(b), ddp::kSourceStag);
}

//= RFC 7306 5.1
TEST_F(ErrorTest, AtomicsThatCannotBeExecuted) {
  const struct {
    RawAtomic atomic;
    ddp::StreamError error;
  } kCases[] = {
      {{.stag = 0x1234500}, ddp::kSourceStag},
      {{.stag = b.key(), .address = b.at(4)}, ddp::kStreamCatastrophic},
      {{.stag = Region(kPd, mem::kRemoteRead), .address = b.at(4096)},
       ddp::kAccessRights},
      {{.operation = 3, .stag = b.key(), .address = b.at(0)},
       ddp::kUnexpectedOpcode},
  };
  for (const auto& wanted : kCases) {
    b.qp().Modify(QpState::kReset, {});
    b.qp().Modify(QpState::kRts, kDefaultConfig);
    EXPECT_EQ(Answer(Raw(wanted.atomic)), wanted.error);
  }
}

//= RFC 5040 4.8
TEST_F(ErrorTest, StagsThatCannotBeInvalidated) {
  b.Recv(70, {});
  EXPECT_EQ(Answer(Raw(RawUntagged{.opcode = RdmapOpcode::kSendInvalidate,
                                   .stag = b.key()})),
            ddp::kInvalidateRefused);
  EXPECT_EQ(b.verdicts[0], RxVerdict::kDdpRefused);
  RdmapEnd end;
  end.Recv(70, {});
  end.Receive(Raw(
      RawUntagged{.opcode = RdmapOpcode::kSendInvalidate, .stag = 0x1234500}));
  EXPECT_EQ(Terminated(end), ddp::kInvalidateUnknown);
  EXPECT_EQ(end.verdicts[0], RxVerdict::kDdpRefused);
}

//= RFC 7306 8
//= RFC 5040 4.1
TEST_F(ErrorTest, OpcodesOnTheWrongQueue) {
  for (uint8_t opcode = 0; opcode < 16; ++opcode) {
    for (uint32_t queue = 0; queue <= 4; ++queue) {
      const bool tagged = queue == 4;
      const auto code = static_cast<RdmapOpcode>(opcode);
      const bool right = tagged       ? opcode == 0 || opcode == 2
                         : queue == 0 ? (opcode >= 3 && opcode <= 6) ||
                                            opcode == 8 || opcode == 9
                         : queue == 1 ? opcode == 1 || opcode == 10
                         : queue == 2 ? opcode == 7
                                      : opcode == 11;
      if (right) continue;
      b.qp().Modify(QpState::kReset, {});
      b.qp().Modify(QpState::kRts, kDefaultConfig);
      EXPECT_EQ(
          Answer(tagged ? Raw(RawTagged{.opcode = code})
                        : Raw(RawUntagged{.opcode = code, .queue = queue})),
          ddp::kUnexpectedOpcode)
          << static_cast<int>(opcode) << " on " << queue;
    }
  }
}

// --- Answers -----------------------------------------------------------------

class AnswerErrorTest : public ErrorTest {
 protected:
  void SetUp() override {
    b.Send({.opcode = URNIC_WR_RDMA_READ,
            .wr_id = 5,
            .sges = {b.Sge(100, 50), b.Sge(4096, 50)},
            .remote_addr = a.at(0),
            .rkey = a.key()});
    b.Transmit();
    b.Ack();
  }
  Bytes Response(uint32_t begin, size_t bytes, bool last) {
    return Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse,
                         .last = last,
                         .stag = b.key(),
                         .offset = b.at(100) + begin,
                         .payload = bytes});
  }
};

TEST_F(AnswerErrorTest, ALongResponse) {
  EXPECT_EQ(Answer(Response(0, 101, true)), ddp::kBounds);
  EXPECT_THAT(b.sent, ElementsAre(IsDone(5, URNIC_WC_WR_FLUSH_ERR)));
}
TEST_F(AnswerErrorTest, AShortResponse) {
  EXPECT_EQ(Answer(Response(0, 99, true)), ddp::kStreamCatastrophic);
}
TEST_F(AnswerErrorTest, AResponseWithoutAnEnd) {
  EXPECT_EQ(Answer(Response(0, 100, false)), ddp::kStreamCatastrophic);
}
TEST_F(AnswerErrorTest, AResponseWithAGap) {
  b.Receive(Response(0, 40, false));
  EXPECT_EQ(Answer(Response(41, 59, true)), ddp::kBounds);
}
TEST_F(AnswerErrorTest, AResponseThatIsRepeated) {
  b.Receive(Response(0, 100, true));
  EXPECT_THAT(b.sent, ElementsAre(IsDone(5, URNIC_WC_SUCCESS)));
  EXPECT_EQ(Answer(Response(0, 100, true)), ddp::kUnexpectedOpcode);
}
//= RFC 5040 5.2
TEST_F(AnswerErrorTest, AResponseToAnotherStag) {
  EXPECT_EQ(Answer(Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse,
                                 .stag = b.key() + 1,
                                 .offset = b.at(100),
                                 .payload = 100})),
            ddp::kInvalidStag);
}
//= RFC 7306 5.2.2
TEST_F(AnswerErrorTest, AnAtomicResponseToARead) {
  EXPECT_EQ(Answer(Raw(RawUntagged{.opcode = RdmapOpcode::kAtomicResponse,
                                   .queue = wire::kAtomicResponseQueue,
                                   .payload = 12})),
            ddp::kUnexpectedOpcode);
}
TEST_F(AnswerErrorTest, TheSinkOfAReadIsGone) {
  b.host().Break(4096, 10, FakeHost::Damage::kUnmapped);
  b.Receive(Response(0, 100, true));
  EXPECT_EQ(Terminated(b), ddp::kDdpCatastrophic);
  EXPECT_THAT(b.sent, ElementsAre(IsDone(5, URNIC_WC_LOC_PROT_ERR)));
}

//= RFC 7306 5.2.2
TEST_F(ErrorTest, AnAtomicResponseWithAnotherIdentifier) {
  b.Send({.opcode = URNIC_WR_ATOMIC_FETCH_AND_ADD,
          .sges = {b.Sge(0, 8)},
          .remote_addr = a.at(0),
          .rkey = a.key()});
  b.Transmit();
  EXPECT_EQ(Answer(Raw(RawUntagged{.opcode = RdmapOpcode::kAtomicResponse,
                                   .queue = wire::kAtomicResponseQueue,
                                   .payload = 12})),
            ddp::kStreamCatastrophic);
}

// --- Masks, which verbs cannot ask for ---------------------------------------

//= RFC 7306 5.1.1
//= RFC 7306 5.1.3
TEST_F(ErrorTest, MasksDivideTheWord) {
  b.SetWord(64, 0x00ff'0000'0000'00ff);
  const RawAtomic add{.stag = b.key(),
                      .address = b.at(64),
                      .swap_or_add = 0x0001'0000'0000'0001,
                      .mask = 0x0080'0000'0000'0080};
  b.Receive(Raw(add));
  EXPECT_EQ(b.Word(64), 0u) << "no carry leaves bit 7 of a field";
  b.SetWord(64, 0x1111'2222'3333'4444);
  b.Receive(Raw(RawAtomic{.msn = 2,
                          .operation = wire::kAtomicCompareSwap,
                          .stag = b.key(),
                          .address = b.at(64),
                          .swap_or_add = 0xaaaa'bbbb'cccc'dddd,
                          .mask = 0xffff,
                          .compare = 0x1111'0000'0000'0000,
                          .compare_mask = 0xffff'0000'0000'0000}));
  EXPECT_EQ(b.Word(64), 0x1111'2222'3333'ddddu);
  const auto answers = b.Transmit();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[1].size(), 18u + 12u);
  EXPECT_EQ(answers[1].back(), 0x44);
  b.Receive(Raw(RawAtomic{.msn = 3,
                          .operation = wire::kAtomicSwap,
                          .stag = b.key(),
                          .address = b.at(64),
                          .swap_or_add = 7,
                          .mask = UINT64_MAX,
                          .compare = 1,
                          .compare_mask = UINT64_MAX}));
  EXPECT_EQ(b.Word(64), 7u) << "a swap compares nothing";
}

// --- The end of a connection -------------------------------------------------

//= RFC 5040 5.4
TEST_F(ErrorTest, ATerminateEndsTheRequestThatItNames) {
  const auto post = [this](uint8_t opcode, uint64_t id, uint32_t rkey) {
    a.Send({.opcode = opcode,
            .flags = 0,
            .wr_id = id,
            .sges = {a.Sge(0, 100)},
            .remote_addr = b.at(0),
            .rkey = rkey});
  };
  for (const uint8_t opcode : {URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_READ}) {
    for (RdmapEnd* end : {&a, &b}) {
      end->Ack();
      end->qp().Modify(QpState::kReset, {});
      end->qp().Modify(QpState::kRts, kDefaultConfig);
      end->sent.clear();
    }
    post(URNIC_WR_RDMA_WRITE, 1, b.key());
    post(opcode, 2, 0x1234500);
    post(URNIC_WR_RDMA_WRITE, 3, b.key());
    b.Receive(a.Transmit());
    a.Ack(1);
    a.Receive(b.Transmit());
    EXPECT_EQ(a.verdicts.back(), RxVerdict::kTerminateReceived);
    EXPECT_THAT(a.sent, ElementsAre(IsDone(2, URNIC_WC_REM_ACCESS_ERR),
                                    IsDone(3, URNIC_WC_WR_FLUSH_ERR)));
    EXPECT_THAT(a.Transmit(), IsEmpty()) << "a Terminate is not answered";
    EXPECT_TRUE(a.qp().ends_stream());
  }
}

TEST_F(ErrorTest, AReadIsNamedByItsSource) {
  for (const uint32_t rkey : {b.key(), 0x1234500u}) {
    a.Send({.opcode = URNIC_WR_RDMA_READ,
            .wr_id = rkey,
            .sges = {a.Sge(0, 10)},
            .remote_addr = b.at(0),
            .rkey = rkey});
  }
  b.Receive(a.Transmit());
  a.Receive(b.Transmit());
  EXPECT_THAT(a.sent, ElementsAre(IsDone(b.key(), URNIC_WC_WR_FLUSH_ERR),
                                  IsDone(0x1234500, URNIC_WC_REM_ACCESS_ERR)));
}

TEST_F(ErrorTest, ASendWithoutAReceiveIsNamedByItsNumber) {
  b.Recv(70, {});
  for (uint64_t id = 1; id <= 3; ++id) a.Send({.wr_id = id});
  a.keep_small = false;
  b.Receive(a.Transmit());
  a.Ack(1);
  a.Receive(b.Transmit());
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS),
                                  IsDone(2, URNIC_WC_REM_OP_ERR),
                                  IsDone(3, URNIC_WC_WR_FLUSH_ERR)));
}

TEST_F(ErrorTest, AMalformedTerminateIsAnswered) {
  EXPECT_EQ(Answer(Raw(RawUntagged{.opcode = RdmapOpcode::kTerminate,
                                   .queue = wire::kTerminateQueue,
                                   .payload = 3})),
            ddp::kStreamCatastrophic);
}

TEST_F(ErrorTest, ALocalErrorEndsTheStreamAfterEarlierRequests) {
  a.Recv(70, {});
  a.Send({.opcode = URNIC_WR_RDMA_WRITE,
          .wr_id = 1,
          .sges = {a.Sge(0, 100)},
          .remote_addr = b.at(0),
          .rkey = b.key()});
  a.Send({.opcode = URNIC_WR_SEND, .wr_id = 2, .sges = {{a.at(0), 10, 0x777}}});
  a.Send({.opcode = URNIC_WR_SEND, .wr_id = 3});
  EXPECT_THAT(a.Transmit(), SizeIs(1));
  EXPECT_THAT(a.sent, IsEmpty());
  a.Ack();
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_SUCCESS),
                                  IsDone(2, URNIC_WC_LOC_PROT_ERR),
                                  IsDone(3, URNIC_WC_WR_FLUSH_ERR)));
  EXPECT_THAT(a.received, ElementsAre(IsDone(70, URNIC_WC_WR_FLUSH_ERR)));
  EXPECT_EQ(Terminated(a), ddp::kRdmapCatastrophic);
}

//= RFC 5040 4.2, RFC 7306 4.1
TEST_F(ErrorTest, RequestsThatIwarpDoesNotHave) {
  for (const uint8_t opcode :
       {uint8_t{URNIC_WR_FLUSH}, uint8_t{URNIC_WR_ATOMIC_WRITE}, uint8_t{31},
        uint8_t{200}}) {
    RdmapEnd end;
    end.Send({.opcode = opcode, .wr_id = 1});
    end.Transmit();
    EXPECT_THAT(end.sent, ElementsAre(IsDone(1, URNIC_WC_LOC_QP_OP_ERR)));
  }
}

TEST_F(ErrorTest, APlacementThatFailsEndsTheStream) {
  b.Recv(70, {b.Sge(0, 100)});
  b.Recv(71, {b.Sge(4096, 100)});
  b.Recv(72, {b.Sge(0, 100)});
  b.host().Break(4096, 64, FakeHost::Damage::kReadOnly);
  b.Receive(std::vector<Bytes>{Raw(RawUntagged{.payload = 8}),
                               Raw(RawUntagged{.msn = 2, .payload = 8}),
                               Raw(RawUntagged{.msn = 3, .payload = 8})});
  EXPECT_THAT(b.received, ElementsAre(IsDone(70, URNIC_WC_SUCCESS),
                                      IsDone(71, URNIC_WC_LOC_PROT_ERR),
                                      IsDone(72, URNIC_WC_WR_FLUSH_ERR)));
  EXPECT_EQ(Terminated(b), ddp::kDdpCatastrophic);
}

TEST_F(ErrorTest, MemoryThatCannotBeSentLosesTheStream) {
  a.host().Break(0, 64, FakeHost::Damage::kUnmapped);
  a.Send({.wr_id = 1, .sges = {a.Sge(0, 100)}});
  a.Transmit();
  EXPECT_TRUE(a.lost());
  EXPECT_EQ(a.event, QpEvent::kFatal);
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_LOC_PROT_ERR)));
  EXPECT_THAT(a.Transmit(), IsEmpty());
}

TEST_F(ErrorTest, RequestsPostedAfterTheEndAreFlushed) {
  a.qp().Abort();
  a.Send({.wr_id = 1});
  a.Recv(70, {});
  a.Settle({});
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_WR_FLUSH_ERR)));
  EXPECT_THAT(a.received, ElementsAre(IsDone(70, URNIC_WC_WR_FLUSH_ERR)));
}

TEST_F(ErrorTest, ALayerBelowMayEndTheStream) {
  a.Send({.wr_id = 1, .sges = {a.Sge(0, 5000)}});
  EXPECT_THAT(a.Transmit(1), SizeIs(1));
  a.qp().Terminate({ddp::kMpaLayer, 0, 2});
  EXPECT_EQ(Terminated(a), (ddp::StreamError{ddp::kMpaLayer, 0, 2}));
  EXPECT_THAT(a.sent, ElementsAre(IsDone(1, URNIC_WC_WR_FLUSH_ERR)));
}

}  // namespace
}  // namespace urnic::rdmap::testing
