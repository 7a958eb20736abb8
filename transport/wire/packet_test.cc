#include "transport/wire/packet.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;
using Bytes = std::vector<uint8_t>;

PacketFields RandomFields(Random& random, uint8_t opcode,
                          std::span<const uint8_t> payload) {
  PacketFields f;
  f.opcode = opcode;
  f.solicited = random.OneIn(2);
  f.mig_req = random.OneIn(2);
  f.fecn = random.OneIn(2);
  f.becn = random.OneIn(2);
  f.ack_requested = random.OneIn(2);
  f.pkey = static_cast<uint16_t>(random.Next());
  f.dest_qp = Qpn{static_cast<uint32_t>(random.Below(1 << 24))};
  f.psn = Psn(static_cast<uint32_t>(random.Next()));
  f.virtual_address = random.Next();
  f.rkey = static_cast<uint32_t>(random.Next());
  f.dma_length = static_cast<uint32_t>(random.Next());
  f.swap_or_add = random.Next();
  f.compare = random.Next();
  f.syndrome = random.Byte();
  f.msn = static_cast<uint32_t>(random.Below(1 << 24));
  f.original_value = random.Next();
  for (uint8_t& b : f.imm.data) b = random.Byte();
  f.qkey = static_cast<uint32_t>(random.Next());
  f.src_qp = Qpn{static_cast<uint32_t>(random.Below(1 << 24))};
  f.payload = payload;
  return f;
}

// Emits with room for the ICRC, whose bytes are left as they are.
Bytes Emit(const PacketFields& fields) {
  Bytes bytes(512);
  const size_t n = EmitRoce(fields, bytes);
  bytes.resize(n == 0 ? 0 : n + kIcrcBytes);
  return bytes;
}

RxVerdict Parse(const Bytes& bytes, RocePacket& packet) {
  return ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()), packet);
}

//= IBTA 9.2.3
TEST(PacketTest, EveryOpcodeRoundTripsAtEveryPadding) {
  Random random(1);
  const Bytes payload = {1, 2, 3, 4, 5, 6, 7};
  for (int opcode = 0; opcode < 256; ++opcode) {
    for (size_t n = 0; n <= payload.size(); ++n) {
      SCOPED_TRACE(std::to_string(opcode) + " with " + std::to_string(n));
      const PacketFields fields = RandomFields(
          random, static_cast<uint8_t>(opcode), std::span(payload).first(n));
      const Bytes bytes = Emit(fields);
      RocePacket packet;
      if (!InfoOf(fields.opcode).valid()) {
        EXPECT_TRUE(bytes.empty());
        continue;
      }
      ASSERT_EQ(Parse(bytes, packet), RxVerdict::kAccept);
      EXPECT_EQ(packet.payload_bytes, packet.info->has_payload ? n : 0);
      EXPECT_EQ(Emit(FieldsOf(packet)), bytes);
      EXPECT_EQ(packet.psn(), fields.psn);
      EXPECT_EQ(packet.bth->dest_qp(), fields.dest_qp);
    }
  }
}

//= IBTA 9.2.3
TEST(PacketTest, EveryShorterPacketIsRefused) {
  Random random(2);
  const Bytes payload(8, 0xaa);
  for (int opcode = 0; opcode < 256; ++opcode) {
    const Bytes whole =
        Emit(RandomFields(random, static_cast<uint8_t>(opcode), payload));
    for (size_t n = 0; n < whole.size(); ++n) {
      const Bytes cut(whole.begin(), whole.begin() + n);
      RocePacket packet;
      const RxVerdict verdict = Parse(cut, packet);
      const size_t headers = InfoOf(whole[0]).header_bytes;
      if (n < headers + kIcrcBytes) {
        EXPECT_EQ(verdict, RxVerdict::kTruncated) << opcode << " " << n;
      } else if (n % 4 != 0) {
        EXPECT_EQ(verdict, RxVerdict::kBadPadding) << opcode << " " << n;
      } else {
        EXPECT_EQ(verdict, RxVerdict::kAccept) << opcode << " " << n;
      }
    }
  }
}

//= IBTA 9.2: reserved fields are zero on transmission and ignored on receipt
TEST(PacketTest, ReservedBitsAreZeroOnSendAndIgnoredOnReceipt) {
  Random random(3);
  constexpr size_t kReserved6 = 4;
  constexpr size_t kReserved7 = 8;
  PacketFields fields = RandomFields(random, uint8_t(Opcode::kUdSendOnly), {});
  fields.dest_qp = Qpn{0xffffffff};  // too many bits must not leak
  fields.src_qp = Qpn{0x00abcdef};
  fields.fecn = fields.becn = fields.ack_requested = false;
  Bytes bytes = Emit(fields);
  EXPECT_EQ(bytes[kReserved6], 0);
  EXPECT_EQ(bytes[kReserved7], 0);
  constexpr size_t kDethReserved = 16;
  EXPECT_EQ(bytes[kDethReserved], 0);

  bytes[kReserved6] |= 0x3f;
  bytes[kReserved7] |= 0x7f;
  bytes[kDethReserved] = 0xff;
  RocePacket packet;
  ASSERT_EQ(Parse(bytes, packet), RxVerdict::kAccept);
  EXPECT_EQ(packet.bth->dest_qp(), Qpn{0x00ffffff});
  EXPECT_FALSE(packet.bth->fecn());
  EXPECT_FALSE(packet.bth->becn());
  EXPECT_EQ(packet.psn(), fields.psn);
  EXPECT_FALSE(packet.bth->ack_requested());
  EXPECT_EQ(packet.deth().src_qp(), fields.src_qp);
}

//= IBTA A17.9.3
TEST(PacketTest, CnpHasSixteenZeroBytes) {
  PacketFields fields;
  fields.opcode = uint8_t(Opcode::kCnp);
  fields.becn = true;
  const Bytes bytes = Emit(fields);
  EXPECT_EQ(bytes.size(), 12u + 16 + 4);
  for (size_t i = 12; i < 28; ++i) EXPECT_EQ(bytes[i], 0);
  RocePacket packet;
  ASSERT_EQ(Parse(bytes, packet), RxVerdict::kAccept);
  EXPECT_EQ(packet.info->kind, PacketKind::kCnp);
  EXPECT_TRUE(packet.bth->becn());
}

//= IBTA A14, A19.3.1
TEST(PacketTest, HeadersThatNoCaptureHasAreAtTheRightOffsets) {
  PacketFields fields;
  fields.opcode = uint8_t(Opcode::kRcFlush);
  fields.flush = 0x12;
  fields.virtual_address = 0x0102030405060708;
  fields.rkey = 0x090a0b0c;
  fields.dma_length = 0x0d0e0f10;
  Bytes bytes = Emit(fields);
  const Bytes flush = {0, 0, 0, 0x12, 1,  2,  3,  4,  5,  6,
                       7, 8, 9, 10,   11, 12, 13, 14, 15, 16};
  EXPECT_EQ(Bytes(bytes.begin() + 12, bytes.end() - 4), flush);
  RocePacket packet;
  ASSERT_EQ(Parse(bytes, packet), RxVerdict::kAccept);
  EXPECT_EQ(packet.feth().value.value() & kFethTypeMask, 2u);
  EXPECT_EQ(packet.feth().value.value() & kFethLevelMask, 1u << 4);

  fields = {};
  fields.opcode = 0xa4;  // XRC send only
  fields.srqn = 0x123456;
  bytes = Emit(fields);
  const Bytes xrc = {0, 0x12, 0x34, 0x56};
  EXPECT_EQ(Bytes(bytes.begin() + 12, bytes.end() - 4), xrc);
  bytes[12] = 0xff;  // reserved
  ASSERT_EQ(Parse(bytes, packet), RxVerdict::kAccept);
  EXPECT_EQ(packet.xrceth().srqn(), 0x123456u);
}

TEST(PacketTest, NamesTheFault) {
  PacketFields fields;
  fields.opcode = uint8_t(Opcode::kRcAcknowledge);
  Bytes bytes = Emit(fields);
  RocePacket packet;
  bytes[1] |= 1;
  EXPECT_EQ(Parse(bytes, packet), RxVerdict::kBadBthVersion);
  bytes[1] &= 0xf0;
  bytes[0] = 0x15;
  EXPECT_EQ(Parse(bytes, packet), RxVerdict::kUnknownOpcode);
  bytes[0] = 0x44;  // RD
  EXPECT_EQ(Parse(bytes, packet), RxVerdict::kUnknownOpcode);
  bytes[0] = uint8_t(Opcode::kRcAcknowledge);
  bytes.resize(bytes.size() + 4);
  EXPECT_EQ(Parse(bytes, packet), RxVerdict::kBadPayloadLength);
  // Three of four bytes can be padding; three of zero cannot.
  bytes[0] = uint8_t(Opcode::kRcSendOnly);
  bytes[1] = Bth::MakeFlags(false, true, 3);
  bytes.resize(12 + 4 + 4);
  ASSERT_EQ(Parse(bytes, packet), RxVerdict::kAccept);
  EXPECT_EQ(packet.payload_bytes, 1u);
  bytes.resize(12 + 0 + 4);
  EXPECT_EQ(Parse(bytes, packet), RxVerdict::kTruncated);
}

TEST(PacketTest, WhatDoesNotFitIsNotEmitted) {
  PacketFields fields;
  fields.opcode = uint8_t(Opcode::kRcSendOnly);
  Bytes out(12 + kIcrcBytes - 1);
  EXPECT_EQ(EmitRoce(fields, out), 0u);
  EXPECT_EQ(EmitFrame(HeaderTemplate(), fields, out), 0u);
  out.resize(100000);
  const Bytes payload(kRoceMaxBytes - 12 - kIcrcBytes + 1);
  fields.payload = payload;
  EXPECT_EQ(EmitRoce(fields, out), 0u);
  fields.payload = std::span(payload).first(kRoceMaxBytes - 12 - 7);
  EXPECT_NE(EmitRoce(fields, out), 0u);
}

}  // namespace
}  // namespace urnic::wire
