#include "datapath/engine/roce_framer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "transport/wire/frame.h"
#include "transport/wire/header_template.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"

namespace urnic {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kHeaderBytes = sizeof(wire::PlainHeaders);
constexpr uint8_t kPayload[8] = {1, 2, 3, 4, 5, 6, 7, 8};

const wire::Gid kOurs = wire::Gid::FromIpv4(0x0a010001);
const wire::Gid kPeers = wire::Gid::FromIpv4(0x0a010002);

wire::PathHeaders Between(const wire::Gid& src, const wire::Gid& dst) {
  wire::PathHeaders headers;
  headers.src = src;
  headers.dst = dst;
  headers.udp_src_port = 50000;
  return headers;
}

RocePath PathToPeer() {
  RocePath path;
  path.headers = wire::HeaderTemplate(Between(kOurs, kPeers));
  path.local = kOurs;
  path.remote = kPeers;
  return path;
}

Bytes FrameOf(const wire::PathHeaders& headers, size_t payload_bytes) {
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
  fields.payload = {kPayload, payload_bytes};
  Bytes frame(512);
  frame.resize(wire::EmitFrame(wire::HeaderTemplate(headers), fields, frame));
  return frame;
}
Bytes FrameFromPeer(size_t payload_bytes = sizeof(kPayload)) {
  return FrameOf(Between(kPeers, kOurs), payload_bytes);
}

// As the engine does it: an unknown frame is parsed and then known.
bool Learn(RocePath& path, const Bytes& frame) {
  wire::FrameView view;
  if (wire::ParseFrame(frame.data(), frame.size(), view) !=
      RxVerdict::kAccept) {
    return false;
  }
  const bool from_peer = RoceFramer::IsFromPeer(path, view);
  return RoceFramer::IcrcIsRight(path, view, from_peer);
}

// If the frame is known, parsing finds the same.
void ExpectTrue(const RocePath& path, const Bytes& frame) {
  const uint32_t* known = RoceFramer::FindKnown(path, frame);
  if (known == nullptr) return;
  wire::FrameView view;
  ASSERT_EQ(wire::ParseFrame(frame.data(), frame.size(), view),
            RxVerdict::kAccept);
  EXPECT_TRUE(RoceFramer::IsFromPeer(path, view));
  EXPECT_EQ(view.vlan, nullptr);
  EXPECT_FALSE(view.congestion_experienced());
  EXPECT_EQ(view.payload, frame.data() + kHeaderBytes);
  EXPECT_EQ(*known, wire::IcrcPrefix(view.l3, wire::Framing::kIpv4));
}

TEST(RoceFramer, TheSecondFrameOfAKindIsKnown) {
  RocePath path = PathToPeer();
  for (const size_t payload : {0, 8}) {
    const Bytes frame = FrameFromPeer(payload);
    EXPECT_EQ(RoceFramer::FindKnown(path, frame), nullptr);
    EXPECT_TRUE(Learn(path, frame));
    EXPECT_NE(RoceFramer::FindKnown(path, frame), nullptr);
    ExpectTrue(path, frame);
  }
}

TEST(RoceFramer, AKnownFrameIsWhatParsingFinds) {
  RocePath path = PathToPeer();
  const Bytes right = FrameFromPeer();
  ASSERT_TRUE(Learn(path, right));
  int known = 0;
  for (size_t at = 0; at < kHeaderBytes; ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes frame = right;
      frame[at] = static_cast<uint8_t>(value);
      ExpectTrue(path, frame);
      known += RoceFramer::FindKnown(path, frame) != nullptr;
    }
  }
  // Each byte has one right value; those of MACs and UDP checksum are free.
  EXPECT_EQ(known, (12 + 2) * 256 + (int{kHeaderBytes} - 14));
}

TEST(RoceFramer, ATruncatedFrameIsNotKnown) {
  RocePath path = PathToPeer();
  Bytes frame = FrameFromPeer();
  ASSERT_TRUE(Learn(path, frame));
  frame.push_back(0);  // padding
  EXPECT_NE(RoceFramer::FindKnown(path, frame), nullptr);
  for (frame.pop_back(); frame.size() > kHeaderBytes; frame.pop_back()) {
    const std::span<const uint8_t> cut(frame.data(), frame.size() - 1);
    EXPECT_EQ(RoceFramer::FindKnown(path, cut), nullptr);
  }
}

TEST(RoceFramer, AMarkedFrameIsNeverKnown) {
  RocePath path = PathToPeer();
  wire::PathHeaders headers = Between(kPeers, kOurs);
  headers.traffic_class = wire::kEcnCongestionExperienced;
  const Bytes frame = FrameOf(headers, sizeof(kPayload));
  EXPECT_TRUE(Learn(path, frame));
  EXPECT_EQ(RoceFramer::FindKnown(path, frame), nullptr);
}

TEST(RoceFramer, AStrangersFrameIsNotKept) {
  RocePath path = PathToPeer();
  const Bytes frame =
      FrameOf(Between(wire::Gid::FromIpv4(0x0a010003), kOurs), 8);
  EXPECT_TRUE(Learn(path, frame));
  EXPECT_EQ(RoceFramer::FindKnown(path, frame), nullptr);
}

// The path's source address was removed: the peer's frames are no longer ours.
TEST(RoceFramer, WithoutItsAddressAPathKnowsNoFrame) {
  RocePath path = PathToPeer();
  const Bytes frame = FrameFromPeer();
  ASSERT_TRUE(Learn(path, frame));
  path.local = {};
  EXPECT_EQ(RoceFramer::FindKnown(path, frame), nullptr);
  path.local = kOurs;
  EXPECT_NE(RoceFramer::FindKnown(path, frame), nullptr);
}

// In a VLAN an untagged frame is not for us, whatever its headers.
TEST(RoceFramer, InAVlanAnUntaggedFrameIsNotKnown) {
  RocePath path = PathToPeer();
  wire::PathHeaders headers = Between(kOurs, kPeers);
  headers.vlan_tci = 5;
  path.headers = wire::HeaderTemplate(headers);
  const Bytes frame = FrameFromPeer();
  ASSERT_TRUE(Learn(path, frame));
  EXPECT_EQ(RoceFramer::FindKnown(path, frame), nullptr);
}

}  // namespace
}  // namespace urnic
