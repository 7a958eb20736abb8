// Golden bytes from an independent implementation: Linux' rxe. Every packet is
// parsed into fields, and built again from them.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/pcap.h"
#include "transport/wire/frame.h"
#include "transport/wire/header_template.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"
#include "transport/wire/pretty.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::PcapFile;
using ::urnic::testing::ReadPcap;
using Bytes = std::vector<uint8_t>;

struct Capture {
  const char* name;
  size_t roce_packets;
};

// Another program (tshark) counted the packets.
constexpr Capture kCaptures[] = {
    {"rxe_cm_rdma_client", 9},
    {"rxe_cm_reject_nolistener", 2},
    {"rxe_cm_rping", 29},
    {"rxe_cm_rping_ipv6", 29},
    {"rxe_cm_ucmatose", 13},
    {"rxe_cm_udaddy_sidr", 6},
    {"rxe_ipv6_ll", 70},
    {"rxe_loss_ack_dup", 84},
    {"rxe_loss_atomicack_dup", 12},
    {"rxe_loss_readresp", 142},
    {"rxe_loss_seqnak", 200},
    {"rxe_mcast", 3},
    {"rxe_nak_access_read", 2},
    {"rxe_nak_access_write", 2},
    {"rxe_nak_bounds", 5},
    {"rxe_nak_invreq_len", 3},
    {"rxe_over_vxlan", 60},
    {"rxe_pmtu256", 77},
    {"rxe_pmtu4096", 44},
    {"rxe_rc_atomic", 6},
    {"rxe_rc_read", 19},
    {"rxe_rc_send", 29},
    {"rxe_rc_send_imm", 8},
    {"rxe_rc_write", 25},
    {"rxe_rnr", 234},
    {"rxe_send_inv", 4},
    {"rxe_timeout_retry_exc", 4},
    {"rxe_uc", 32},
    {"rxe_ud", 5},
};

PcapFile Read(const Capture& capture) {
  return ReadPcap(std::string("transport/wire/testdata/") + capture.name +
                  ".pcap");
}

// The inner frame of a VXLAN packet, or the frame itself.
Bytes Unwrap(const Bytes& frame) {
  constexpr size_t kOuterBytes = 14 + 20 + 8 + 8;
  constexpr size_t kUdpPortAt = 14 + 20 + 2;
  const bool vxlan = frame.size() > kOuterBytes && frame[12] == 0x08 &&
                     frame[13] == 0x00 && frame[23] == kIpProtocolUdp &&
                     frame[kUdpPortAt] == 0x12 && frame[kUdpPortAt + 1] == 0xb5;
  return vxlan ? Bytes(frame.begin() + kOuterBytes, frame.end()) : frame;
}

PathHeaders PathOf(const FrameView& frame) {
  PathHeaders path;
  path.src_mac = frame.eth->src;
  path.dst_mac = frame.eth->dst;
  path.src = frame.src;
  path.dst = frame.dst;
  path.traffic_class = frame.tos;
  path.hop_limit = frame.hop_limit;
  path.udp_src_port = frame.udp_src_port;
  if (frame.ipv6()) {
    path.flow_label = reinterpret_cast<const Ipv6*>(frame.l3)->flow_label();
  } else {
    path.ipv4_identification =
        reinterpret_cast<const Ipv4*>(frame.l3)->identification.value();
  }
  return path;
}

void CheckRocePacket(const Bytes& bytes, const FrameView& frame) {
  RocePacket packet;
  ASSERT_EQ(ParseRoce(frame.payload, frame.payload_bytes, packet),
            RxVerdict::kAccept);

  Bytes again(bytes.size() + HeaderTemplate::kMaxBytes);
  again.resize(
      EmitFrame(HeaderTemplate(PathOf(frame)), FieldsOf(packet), again));
  EXPECT_EQ(again, bytes);

  const size_t hashed = frame.l3_bytes - kIcrcBytes;
  uint32_t stored;
  std::memcpy(&stored, frame.l3 + hashed, kIcrcBytes);
  EXPECT_EQ(IcrcReference({frame.l3, hashed}, frame.framing), stored);
  EXPECT_TRUE(VerifyIcrc(frame.l3, frame.framing, frame.payload_bytes));
}

class CaptureTest : public ::testing::TestWithParam<Capture> {};

//= IBTA 7.8.1, 9.2, 9.2.3, A17.3.4
TEST_P(CaptureTest, EveryRocePacketParsesReemitsAndVerifies) {
  const PcapFile file = Read(GetParam());
  ASSERT_EQ(file.error, "");
  size_t packets = 0;
  for (size_t i = 0; i < file.frames.size(); ++i) {
    const Bytes bytes = Unwrap(file.frames[i]);
    FrameView frame;
    const RxVerdict verdict = ParseFrame(bytes.data(), bytes.size(), frame);
    if (verdict == RxVerdict::kNotRoce || verdict == RxVerdict::kTcp ||
        verdict == RxVerdict::kIcmp || verdict == RxVerdict::kArp ||
        verdict == RxVerdict::kIpOptions) {
      continue;  // TCP, IGMP, MLD, ND and ARP of the guests
    }
    SCOPED_TRACE("frame " + std::to_string(i + 1) + ": " + PrettyFrame(bytes));
    ASSERT_EQ(verdict, RxVerdict::kAccept);
    ASSERT_NO_FATAL_FAILURE(CheckRocePacket(bytes, frame));
    ++packets;
  }
  std::printf("%s: %zu RoCE packets\n", GetParam().name, packets);
  EXPECT_EQ(packets, GetParam().roce_packets);
}

// A flipped bit is detected everywhere, except where routers may write.
TEST_P(CaptureTest, AnyFlippedBitInvalidatesTheIcrc) {
  const PcapFile file = Read(GetParam());
  for (size_t i = 0; i < std::min<size_t>(file.frames.size(), 8); ++i) {
    Bytes bytes = Unwrap(file.frames[i]);
    FrameView frame;
    if (ParseFrame(bytes.data(), bytes.size(), frame) != RxVerdict::kAccept) {
      continue;
    }
    const auto bth = static_cast<size_t>(frame.payload - bytes.data());
    for (size_t at = bth; at < bytes.size(); ++at) {
      bytes[at] ^= 1 << (at & 7);
      EXPECT_EQ(VerifyIcrc(frame.l3, frame.framing, frame.payload_bytes),
                at == bth + 4)
          << "byte " << at - bth << " from the BTH";
      bytes[at] ^= 1 << (at & 7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rxe, CaptureTest, ::testing::ValuesIn(kCaptures),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Short captures also as checked-in text, for people to read.
class ShortCaptureTest : public CaptureTest {};

std::vector<Capture> ShortOnes() {
  constexpr size_t kShort = 50;
  std::vector<Capture> list;
  for (const Capture& capture : kCaptures) {
    if (capture.roce_packets <= kShort) list.push_back(capture);
  }
  return list;
}

//= IBTA 9.3.1, 9.3.3, 9.3.4, 9.3.5, 9.3.6, 9.3.7, 9.3.8, 9.7.5.2.1
TEST_P(ShortCaptureTest, DecodesToTheGoldenText) {
  const PcapFile file = Read(GetParam());
  std::string text;
  for (const Bytes& frame : file.frames) text += PrettyFrame(frame) + "\n";
  ::urnic::testing::ExpectGolden(
      std::string("transport/wire/testdata/") + GetParam().name + ".txt", text);
}

INSTANTIATE_TEST_SUITE_P(Rxe, ShortCaptureTest,
                         ::testing::ValuesIn(ShortOnes()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace urnic::wire
