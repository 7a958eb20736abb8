#include "transport/wire/pretty.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random.h"
#include "transport/wire/appender.h"
#include "transport/wire/ddp.h"
#include "transport/wire/mpa.h"
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

TEST(PrettyTest, TcpSegmentsShowTheirOptions) {
  TcpSegment segment;
  segment.src_port = 1;
  segment.dst_port = 2;
  segment.seq = SeqNum(3);
  segment.flags = kTcpSyn | kTcpEce | kTcpCwr | kTcpUrg;
  segment.urgent = 4;
  segment.window = 5;
  segment.options.mss = 6;
  segment.options.sack_permitted = true;
  segment.options.timestamps = {7, 8};
  segment.options.window_shift = 9;
  segment.options.urnic = true;
  EXPECT_EQ(Pretty(segment),
            "TCP 1 > 2 SYN URG ECE CWR seq 3 win 5 urgent 4 mss 6 sackok ts 7 "
            "8 shift 9 urnic len 0");
  segment = TcpSegment();
  segment.flags = kTcpAck;
  segment.ack = SeqNum(10);
  segment.options.sack_count = 2;
  segment.options.sack[0] = {SeqNum(11), SeqNum(12)};
  segment.options.sack[1] = {SeqNum(13), SeqNum(14)};
  EXPECT_EQ(Pretty(segment),
            "TCP 0 > 0 ACK seq 0 ack 10 win 0 sack 11-12 sack 13-14 len 0");
}

template <typename... Parts>
std::string Ulpdu(const Parts&... parts) {
  Bytes bytes((sizeof(parts) + ...));
  Appender out(bytes.data());
  (out.Append(parts), ...);
  return PrettyUlpdu(bytes);
}

DdpUntagged Untagged(RdmapOpcode opcode, uint32_t queue) {
  DdpUntagged header;
  header.control = DdpControl::Make(false, true, opcode);
  header.invalidate_stag = Be<uint32_t>(0xabc);
  header.queue = Be<uint32_t>(queue);
  header.msn = Be<uint32_t>(5);
  return header;
}

// Atomics and immediate data, which siw does not have. tshark decodes the same
// bytes as the same fields, except that it does not know swap.
//= RFC 7306 5.2.1, 5.2.2, 6.2, 10.1, 10.2
TEST(PrettyTest, UlpdusShowTheirMessages) {
  const auto request = [](uint32_t operation) {
    RdmapAtomicRequest atomic;
    atomic.operation = Be<uint32_t>(operation);
    atomic.request_id = Be<uint32_t>(1);
    atomic.stag = Be<uint32_t>(2);
    atomic.offset = Be<uint64_t>(3);
    atomic.swap_or_add = Be<uint64_t>(4);
    atomic.swap_or_add_mask = Be<uint64_t>(5);
    atomic.compare = Be<uint64_t>(6);
    atomic.compare_mask = Be<uint64_t>(7);
    return Ulpdu(Untagged(RdmapOpcode::kAtomicRequest, kReadRequestQueue),
                 atomic);
  };
  const std::string head = "ATOMIC_REQUEST last queue 1 msn 5 mo 0 len 52 ";
  EXPECT_EQ(request(0), head + "id 1 stag 0x2 to 0x3 add 0x4 mask 0x5");
  EXPECT_EQ(request(1), head + "id 1 stag 0x2 to 0x3 swap 0x4 mask 0x5");
  EXPECT_EQ(request(2), head +
                            "id 1 stag 0x2 to 0x3 swap 0x4 mask 0x5 compare "
                            "0x6 mask 0x7");
  EXPECT_EQ(request(3), head + "operation 3");

  RdmapAtomicResponse response;
  response.request_id = Be<uint32_t>(8);
  response.original = Be<uint64_t>(9);
  EXPECT_EQ(Ulpdu(Untagged(RdmapOpcode::kAtomicResponse, kAtomicResponseQueue),
                  response),
            "ATOMIC_RESPONSE last queue 3 msn 5 mo 0 len 12 id 8 original 0x9");
  EXPECT_EQ(
      Ulpdu(Untagged(RdmapOpcode::kImmediate, kSendQueue), RdmapImmediate()),
      "IMMEDIATE last queue 0 msn 5 mo 0 len 8");
  EXPECT_EQ(Ulpdu(Untagged(RdmapOpcode::kSendInvalidate, kSendQueue)),
            "SEND_INVALIDATE last inv 0xabc queue 0 msn 5 mo 0 len 0");
  EXPECT_EQ(Ulpdu(Untagged(RdmapOpcode::kTerminate, kTerminateQueue),
                  RdmapTerminate::Make(1, 2, 3, kTerminateHasLength)),
            "TERMINATE last queue 2 msn 5 mo 0 len 4 layer 1 type 2 code 0x3 "
            "present 0x80");

  DdpTagged tagged;
  tagged.control = DdpControl::Make(true, false, RdmapOpcode::kWrite);
  tagged.stag = Be<uint32_t>(1);
  tagged.offset = Be<uint64_t>(2);
  EXPECT_EQ(Ulpdu(tagged), "WRITE stag 0x1 to 0x2 len 0");
  EXPECT_EQ(Ulpdu(tagged.control), "WRITE cut short");
  tagged.control.rdmap = 0x4f;
  EXPECT_EQ(Ulpdu(tagged), "opcode 15 stag 0x1 to 0x2 len 0");
  tagged.control.rdmap = 0x80;
  EXPECT_EQ(Ulpdu(tagged), "rdmap version 2");
  tagged.control.ddp = 0x80;
  EXPECT_EQ(Ulpdu(tagged), "ddp version 0");
  EXPECT_EQ(PrettyUlpdu({}), "empty");
}

TEST(PrettyTest, MpaFramesShowWhatTheyAskFor) {
  Bytes bytes(sizeof(MpaFrame) + sizeof(MpaEnhanced) + 5);
  const auto text = [&bytes](MpaFrame frame, uint16_t ird, uint16_t ord) {
    frame.private_data_bytes = Be<uint16_t>(9);
    Appender out(bytes.data());
    out.Append(frame);
    out.Append(MpaEnhanced{Be<uint16_t>(ird), Be<uint16_t>(ord)});
    return PrettyMpaFrame(bytes);
  };
  MpaFrame request = MpaFrame::Request();
  request.revision = 1;
  request.flags = kMpaMarkers | kMpaCrc;
  EXPECT_EQ(text(request, 0, 0), "mpa request rev 1 markers crc private 9");
  MpaFrame reply = MpaFrame::Reply();
  reply.revision = 2;
  reply.flags = kMpaReject | kMpaEnhancedSetup;
  EXPECT_EQ(text(reply, 0xc001, 0xc002),
            "mpa reply rev 2 reject ird 1 ord 2 p2p rtr-fpdu rtr-write "
            "rtr-read private 5");
  EXPECT_EQ(text(MpaFrame(), 0, 0), "mpa unknown key rev 0 private 9");
  bytes.resize(sizeof(MpaFrame) - 1);
  EXPECT_EQ(PrettyMpaFrame(bytes), "mpa cut short");
}

TEST(PrettyTest, AnyBytesAreAccepted) {
  ::urnic::testing::Random random(1);
  for (int i = 0; i < 2000; ++i) {
    Bytes bytes(random.Below(120));
    for (uint8_t& b : bytes) b = random.Byte();
    if (bytes.size() > 14) bytes[12] = 0x86, bytes[13] = 0xdd;
    EXPECT_FALSE(PrettyFrame(bytes).empty());
    EXPECT_FALSE(PrettyMpaFrame(bytes).empty());
    EXPECT_FALSE(PrettyUlpdu(bytes).empty());
  }
}

}  // namespace
}  // namespace urnic::wire
