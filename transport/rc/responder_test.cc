#include "transport/rc/responder.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/random.h"
#include "tests/support/rc_fixture.h"

namespace urnic::rc {
namespace {

using testing::AtomicResponse;
using ::testing::ElementsAre;
using testing::FetchAdd;
using testing::IsAck;
using testing::IsDone;
using ::testing::IsEmpty;
using testing::IsNak;
using testing::IsOpcode;
using testing::Packet;
using testing::PacketBuilder;
using testing::Random;
using testing::ReadRequest;
using testing::Send;
using testing::Write;
using wire::Opcode;

class ResponderTest : public testing::RcFixture {};

TEST_F(ResponderTest, PlacesAWriteAndAcknowledgesWhenAsked) {
  Connect();
  EXPECT_EQ(Deliver(Write(Psn(200), At(512), key_).Data(8, 1)),
            RxVerdict::kAccept);
  EXPECT_THAT(Transmit(), IsEmpty());
  EXPECT_EQ(Deliver(Write(Psn(201), At(520), key_).Data(8, 9).AckReq()),
            RxVerdict::kAccept);
  EXPECT_THAT(Transmit(), ElementsAre(IsAck(Psn(201))));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(host_.bytes(512 + i, 1)[0], i + 1);
}

TEST_F(ResponderTest, ReacksDuplicatesWithoutPlacing) {
  Connect();
  EXPECT_EQ(Deliver(Write(Psn(200), At(0), key_).Data(8, 1)),
            RxVerdict::kAccept);
  EXPECT_EQ(Deliver(Write(Psn(200), At(0), key_).Data(8, 77)),
            RxVerdict::kDuplicate);
  EXPECT_THAT(Transmit(), ElementsAre(IsAck(Psn(200))));
  EXPECT_EQ(host_.bytes(0, 1)[0], 1);
}

TEST_F(ResponderTest, NaksOnlyTheFirstPacketAfterAGap) {
  Connect();
  EXPECT_EQ(Deliver(Send(Psn(205))), RxVerdict::kHeld);
  EXPECT_EQ(Deliver(Send(Psn(206))), RxVerdict::kHeld);
  EXPECT_THAT(Transmit(),
              ElementsAre(IsNak(Psn(200), wire::kNakPsnSequenceError)));
}

TEST_F(ResponderTest, HalfACircleAheadIsAGapAndBehindIsADuplicate) {
  config_.rq_psn = Psn(0);
  Connect();
  EXPECT_EQ(Deliver(Send(Psn(0x7fffff))), RxVerdict::kSequenceGap);
  EXPECT_EQ(Deliver(Send(Psn(0x800000))), RxVerdict::kDuplicate);
}

TEST_F(ResponderTest, ADuplicateReadMayStartMidRange) {
  Connect();
  EXPECT_EQ(Deliver(ReadRequest(Psn(200), At(0), key_, 600)),
            RxVerdict::kAccept);
  EXPECT_THAT(Transmit(),
              ElementsAre(IsOpcode(Opcode::kRcReadResponseFirst, Psn(200)),
                          IsOpcode(Opcode::kRcReadResponseMiddle, Psn(201)),
                          IsOpcode(Opcode::kRcReadResponseLast, Psn(202))));
  EXPECT_EQ(Deliver(ReadRequest(Psn(201), At(256), key_, 344)),
            RxVerdict::kDuplicate);
  EXPECT_THAT(Transmit(),
              ElementsAre(IsOpcode(Opcode::kRcReadResponseFirst, Psn(201)),
                          IsOpcode(Opcode::kRcReadResponseLast, Psn(202))));
}

TEST_F(ResponderTest, AnswersReadsAtTheMtuBoundaries) {
  config_.max_dest_rd_atomic = 16;
  Connect();
  Psn psn(200);
  for (const uint32_t bytes : {0u, 1u, 255u, 256u, 257u, 511u, 512u, 513u}) {
    EXPECT_EQ(Deliver(ReadRequest(psn, At(0), key_, bytes)),
              RxVerdict::kAccept);
    const auto sent = Transmit();
    EXPECT_EQ(sent.size(), std::max(1u, (bytes + 255) / 256)) << bytes;
    uint32_t total = 0;
    for (const Packet& p : sent) {
      total += testing::FieldsOfPacket(p).payload.size();
    }
    EXPECT_EQ(total, bytes);
    psn = psn + static_cast<int32_t>(sent.size());
  }
}

TEST_F(ResponderTest, ExecutesADuplicateAtomicOnlyOnce) {
  Connect();
  EXPECT_EQ(Deliver(FetchAdd(Psn(200), At(64), key_, 5)), RxVerdict::kAccept);
  EXPECT_EQ(Deliver(FetchAdd(Psn(200), At(64), key_, 5)),
            RxVerdict::kDuplicate);
  EXPECT_THAT(Transmit(),
              ElementsAre(IsOpcode(Opcode::kRcAtomicAcknowledge, Psn(200))));
  uint64_t value;
  std::memcpy(&value, host_.bytes(64, 8).data(), 8);
  EXPECT_EQ(value, 5u);
}

TEST_F(ResponderTest, CompletesReceivesInTheOrderOfTheMessages) {
  Connect();
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(end_.PostRecv({.wr_id = id, .sges = {Sge(0, 64)}}));
  }
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Deliver(Send(Psn(200 + i)).Data(4 + i)), RxVerdict::kAccept);
  }
  EXPECT_THAT(end_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS),
                                              IsDone(2u, URNIC_WC_SUCCESS),
                                              IsDone(3u, URNIC_WC_SUCCESS)));
}

TEST_F(ResponderTest, AnyRequestInAnyStateYieldsAVerdict) {
  // Every opcode, at, before and after the expected PSN, in every state, in and
  // between messages, with random lengths and addresses.
  const QpState states[] = {QpState::kReset, QpState::kInit, QpState::kRtr,
                            QpState::kRts,   QpState::kSqd,  QpState::kErr};
  std::vector<uint8_t> opcodes;
  for (int opcode = 0; opcode < 256; ++opcode) {
    const wire::OpcodeInfo& info = wire::InfoOf(static_cast<uint8_t>(opcode));
    // The engine gives a queue pair only packets of its service.
    if (info.valid() && info.service == wire::Service::kRc) {
      opcodes.push_back(static_cast<uint8_t>(opcode));
    }
  }
  Random random(1);
  for (int round = 0; round < 5000; ++round) {
    end_.qp().Modify(QpState::kReset, config_);
    const QpState goal = states[random.Below(std::size(states))];
    for (const QpState state : states) {
      if (state != QpState::kReset && state <= goal) {
        end_.qp().Modify(state, config_);
      }
    }
    for (int i = 0; i < 8; ++i) {
      const uint8_t opcode = opcodes[random.Below(opcodes.size())];
      PacketBuilder packet(static_cast<Opcode>(opcode),
                           end_.qp().responder().expected_psn() +
                               (static_cast<int32_t>(random.Below(3)) - 1));
      packet.At(At(random.Below(2048)), random.OneIn(4) ? 0 : key_);
      packet.DmaLength(static_cast<uint32_t>(random.Below(700)));
      packet.Syndrome(random.Byte());
      if (wire::InfoOf(opcode).has_payload) {
        packet.Data(random.OneIn(2) ? 256
                                    : static_cast<uint32_t>(random.Below(300)));
      }
      (void)Deliver(packet);
      (void)Transmit();
    }
  }
}

}  // namespace
}  // namespace urnic::rc
