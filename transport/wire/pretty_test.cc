#include "transport/wire/pretty.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random.h"
#include "transport/wire/neighbor.h"
#include "transport/wire/packet.h"

namespace urnic::wire {
namespace {

using Bytes = std::vector<uint8_t>;

std::string Line(const PacketFields& fields) {
  Bytes bytes(512);
  bytes.resize(EmitRoce(fields, bytes) + kIcrcBytes);
  RocePacket packet;
  EXPECT_EQ(
      ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()), packet),
      RxVerdict::kAccept);
  return Pretty(packet);
}

PacketFields Fields(Opcode opcode) {
  PacketFields fields;
  fields.opcode = uint8_t(opcode);
  fields.dest_qp = Qpn{0x11};
  fields.psn = Psn(100);
  fields.virtual_address = 0x7f0000001000;
  fields.rkey = 0xabc;
  return fields;
}

TEST(PrettyTest, ShowsWhatIsPresent) {
  const Bytes payload(6);
  PacketFields write = Fields(Opcode::kRcWriteOnly);
  write.ack_requested = true;
  write.dma_length = 6;
  write.payload = payload;
  EXPECT_EQ(Line(write),
            "RC WRITE_ONLY qp 0x11 psn 100 ackreq va 0x7f0000001000 rkey "
            "0xabc dmalen 6 len 6");

  PacketFields send = Fields(Opcode::kRcSendOnlyImm);
  send.imm = {{0, 0, 0, 42}};
  send.solicited = true;
  send.mig_req = false;
  send.pkey = 0x8001;
  EXPECT_EQ(Line(send),
            "RC SEND_ONLY_IMM qp 0x11 psn 100 solicited nomig pkey 0x8001 imm "
            "0x2a len 0");

  PacketFields swap = Fields(Opcode::kRcCompareSwap);
  swap.compare = 1;
  swap.swap_or_add = 2;
  EXPECT_EQ(Line(swap),
            "RC CMP_SWAP qp 0x11 psn 100 va 0x7f0000001000 rkey 0xabc swap "
            "0x2 compare 0x1");
  EXPECT_EQ(Line(Fields(Opcode::kCnp)), "CNP qp 0x11 psn 100");
}

TEST(PrettyTest, DecodesSyndromes) {
  const auto syndrome = [](uint8_t value) {
    PacketFields ack = Fields(Opcode::kRcAcknowledge);
    ack.syndrome = value;
    ack.msn = 3;
    const std::string line = Line(ack);
    const std::string head = "RC ACK qp 0x11 psn 100 ";
    EXPECT_EQ(line.substr(0, head.size()), head);
    return line.substr(head.size());
  };
  EXPECT_EQ(syndrome(0x1f), "ack credits 31 msn 3");
  EXPECT_EQ(syndrome(0x2e), "rnr timer 14 msn 3");
  EXPECT_EQ(syndrome(0x60), "nak sequence msn 3");
  EXPECT_EQ(syndrome(0x61), "nak invalid-request msn 3");
  EXPECT_EQ(syndrome(0x62), "nak remote-access msn 3");
  EXPECT_EQ(syndrome(0x63), "nak remote-operational msn 3");
  EXPECT_EQ(syndrome(0x65), "nak reserved code 5 msn 3");
  EXPECT_EQ(syndrome(0x40), "reserved syndrome 0x40 msn 3");
  EXPECT_EQ(syndrome(0x80), "reserved syndrome 0x80 msn 3");
}

TEST(PrettyTest, FramesShowTheirAddresses) {
  PathHeaders path;
  path.src = Gid::FromIpv4(0x0a000001);
  path.dst = Gid::FromIpv4(0x0a000002);
  path.traffic_class = 3;
  Bytes frame(200);
  frame.resize(
      EmitFrame(HeaderTemplate(path), Fields(Opcode::kRcSendOnly), frame));
  EXPECT_EQ(PrettyFrame(frame),
            "10.0.0.1 > 10.0.0.2 RC SEND_ONLY qp 0x11 psn 100 len 0 ce");
  frame.back() ^= 1;
  EXPECT_EQ(PrettyFrame(frame),
            "10.0.0.1 > 10.0.0.2 RC SEND_ONLY qp 0x11 psn 100 len 0 ce bad "
            "icrc");
  frame[20] ^= 1;
  EXPECT_EQ(PrettyFrame(frame), "drop BadIpChecksum");
  EXPECT_EQ(PrettyFrame({}), "drop Truncated");

  NeighborSelf self;
  self.gid = path.src;
  Bytes arp(kNeighborFrameBytes);
  arp.resize(EmitSolicitation(self, path.dst, std::nullopt, arp));
  EXPECT_EQ(PrettyFrame(arp), "arp 10.0.0.1 asks for 10.0.0.2");
}

TEST(PrettyTest, AnyBytesAreAccepted) {
  ::urnic::testing::Random random(1);
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes(random.Below(120));
    for (uint8_t& b : bytes) b = random.Byte();
    if (bytes.size() > 14) bytes[12] = 0x86, bytes[13] = 0xdd;
    EXPECT_FALSE(PrettyFrame(bytes).empty());
  }
}

}  // namespace
}  // namespace urnic::wire
