#include "transport/impair/ecn.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "transport/wire/checksum.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"

namespace urnic::impair {
namespace {

std::vector<uint8_t> Frame(uint16_t type, const void* packet, size_t bytes,
                           std::vector<uint16_t> tags = {}) {
  std::vector<uint8_t> frame(12);
  const auto word = [&](uint16_t value) {
    frame.push_back(static_cast<uint8_t>(value >> 8));
    frame.push_back(static_cast<uint8_t>(value));
  };
  for (const uint16_t tag : tags) {
    word(tag);
    word(7);
  }
  word(type);
  const auto* p = static_cast<const uint8_t*>(packet);
  frame.insert(frame.end(), p, p + bytes);
  frame.resize(frame.size() + 30);
  return frame;
}

wire::Ipv4 Ip4(uint8_t tos, uint16_t id) {
  wire::Ipv4 ip;
  ip.tos = tos;
  ip.identification = wire::Be<uint16_t>(id);
  ip.ttl = 64;
  ip.checksum = wire::Be<uint16_t>(wire::ChecksumSum().AddHeader(ip).Finish());
  return ip;
}

//= RFC 1624 3, RFC 3168 5
TEST(EcnTest, AnIpv4MarkKeepsTheChecksumCorrect) {
  // Each identification gives another checksum, edge cases included.
  for (uint32_t id = 0; id <= 0xffff; ++id) {
    for (const uint8_t tos : {0x01, 0xfe}) {
      wire::Ipv4 ip = Ip4(tos, static_cast<uint16_t>(id));
      std::vector<uint8_t> frame = Frame(wire::kEtherTypeIpv4, &ip, sizeof(ip));
      ASSERT_TRUE(IsEct(frame));
      MarkCe(frame);
      std::memcpy(&ip, &frame[14], sizeof(ip));
      ASSERT_EQ(ip.tos, tos | 3);
      ASSERT_TRUE(wire::Ipv4ChecksumHolds(ip)) << id;
    }
  }
}

TEST(EcnTest, AWrongChecksumStaysWrong) {
  wire::Ipv4 ip = Ip4(2, 1);
  ip.checksum = wire::Be<uint16_t>(ip.checksum.value() ^ 0x10);
  std::vector<uint8_t> frame = Frame(wire::kEtherTypeIpv4, &ip, sizeof(ip));
  MarkCe(frame);
  std::memcpy(&ip, &frame[14], sizeof(ip));
  EXPECT_EQ(ip.tos, 3);
  EXPECT_FALSE(wire::Ipv4ChecksumHolds(ip));
}

//= RFC 3168 5
TEST(EcnTest, Ipv6IsMarkedInItsTrafficClass) {
  for (const uint8_t before : {0x00, 0x01, 0x02, 0x03, 0xf0, 0xf2}) {
    wire::Ipv6 ip;
    ip.version_class_flow = wire::Ipv6::MakeVersionClassFlow(before, 0xabcde);
    std::vector<uint8_t> frame = Frame(wire::kEtherTypeIpv6, &ip, sizeof(ip));
    EXPECT_EQ(IsEct(frame), (before & 3) != 0);
    if ((before & 3) == 0) continue;
    const std::vector<uint8_t> old = frame;
    MarkCe(frame);
    wire::Ipv6 marked;
    std::memcpy(&marked, &frame[14], sizeof(marked));
    EXPECT_EQ(marked.traffic_class(), before | 3);
    EXPECT_EQ(marked.flow_label(), 0xabcdeu);
    EXPECT_EQ(marked.version(), 6u);
    frame[15] = old[15];
    EXPECT_EQ(frame, old) << "nothing else changes";
  }
}

//= IEEE 802.1Q 9.5
TEST(EcnTest, TagsAreSkipped) {
  const wire::Ipv4 ip = Ip4(2, 1);
  for (const auto& tags :
       std::vector<std::vector<uint16_t>>{{0x8100}, {0x88a8, 0x8100}}) {
    std::vector<uint8_t> frame =
        Frame(wire::kEtherTypeIpv4, &ip, sizeof(ip), tags);
    ASSERT_TRUE(IsEct(frame));
    MarkCe(frame);
    EXPECT_EQ(frame[14 + 4 * tags.size() + 1], 3);
  }
}

TEST(EcnTest, FramesWithoutEcnAreNotEct) {
  const wire::Ipv4 not_ect = Ip4(0xfc, 1);
  EXPECT_FALSE(IsEct(Frame(wire::kEtherTypeIpv4, &not_ect, sizeof(not_ect))));
  const std::vector<uint8_t> ones(28, 0xff);
  EXPECT_FALSE(IsEct(Frame(wire::kEtherTypeArp, ones.data(), ones.size())));
}

TEST(EcnTest, ATruncatedHeaderIsLeftAlone) {
  const wire::Ipv4 ip = Ip4(2, 1);
  const std::vector<uint8_t> whole =
      Frame(wire::kEtherTypeIpv4, &ip, sizeof(ip), {0x8100});
  for (size_t size = 0; size < 14 + 4 + sizeof(ip); ++size) {
    std::vector<uint8_t> frame(whole.begin(),
                               whole.begin() + static_cast<long>(size));
    const std::vector<uint8_t> before = frame;
    EXPECT_FALSE(IsEct(frame)) << size;
    MarkCe(frame);
    EXPECT_EQ(frame, before);
  }
}

}  // namespace
}  // namespace urnic::impair
