#include "transport/wire/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "transport/wire/checksum.h"

namespace urnic::wire {
namespace {

const MacAddress kMac{{0x02, 1, 2, 3, 4, 5}};

std::vector<uint8_t> Emit(const Gid& local, const Gid& group, bool joined) {
  std::vector<uint8_t> frame(kMembershipFrameBytes, 0xee);
  frame.resize(EmitMembership(
      kMac, local, group,
      joined ? MembershipMessage::kReport : MembershipMessage::kLeave, frame));
  return frame;
}

// Byte by byte, as in the standard.
//= RFC 2236 2, 9, RFC 2113 2.1, RFC 791 3.1, IEEE 802.3 4.2.3.3
TEST(MembershipTest, IgmpReportGoesToTheGroupWithARouterAlert) {
  const auto frame =
      Emit(Gid::FromIpv4(0x0a000001), Gid::FromIpv4(0xe1020304), true);
  const std::vector<uint8_t> head = {
      0x01, 0x00, 0x5e, 0x02, 0x03, 0x04, 0x02, 0x01, 0x02, 0x03, 0x04, 0x05,
      0x08, 0x00, 0x46, 0x00, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02};
  ASSERT_EQ(frame.size(), 60u);
  EXPECT_EQ(std::vector<uint8_t>(frame.begin(), frame.begin() + 24), head);
  const std::vector<uint8_t> tail = {0x0a, 0x00, 0x00, 0x01, 0xe1, 0x02, 0x03,
                                     0x04, 0x94, 0x04, 0x00, 0x00, 0x16, 0x00,
                                     0x05, 0xf9, 0xe1, 0x02, 0x03, 0x04};
  EXPECT_EQ(std::vector<uint8_t>(frame.begin() + 26, frame.begin() + 46), tail);
  EXPECT_EQ(ChecksumReference({frame.data() + 14, 24}), 0);
}

//= RFC 2236 2, 9
TEST(MembershipTest, IgmpLeaveGoesToAllRouters) {
  const auto frame =
      Emit(Gid::FromIpv4(0x0a000001), Gid::FromIpv4(0xe1020304), false);
  EXPECT_EQ(frame[5], 0x02);
  EXPECT_EQ(frame[38], 0x17);
  EXPECT_EQ(ChecksumReference({frame.data() + 38, 8}), 0);
}

//= IEEE 802.1Q 9.6
TEST(MembershipTest, ATagComesBeforeTheRest) {
  const Gid local = Gid::FromIpv4(0x0a000001);
  const Gid group = Gid::FromIpv4(0xe1020304);
  const auto plain = Emit(local, group, true);
  std::vector<uint8_t> frame(kMembershipFrameBytes, 0xee);
  frame.resize(EmitMembership(kMac, local, group, MembershipMessage::kReport,
                              frame, uint16_t{0x6007}));
  const std::vector<uint8_t> tag = {0x81, 0x00, 0x60, 0x07};
  EXPECT_EQ(std::vector<uint8_t>(frame.begin() + 12, frame.begin() + 16), tag);
  frame.erase(frame.begin() + 12, frame.begin() + 16);
  EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + 46, frame.begin()));
  MembershipInfo info;
  EXPECT_EQ(ParseMembership(plain, info), RxVerdict::kMembership);
}

//= RFC 2710 3, RFC 2711 2.1
TEST(MembershipTest, MldReportFollowsARouterAlert) {
  Gid local, group;
  local.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7};
  group.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
  const auto frame = Emit(local, group, true);
  ASSERT_EQ(frame.size(), 14u + 40 + 8 + 24);
  EXPECT_EQ(frame[0], 0x33);
  EXPECT_EQ(frame[5], 0x34);
  EXPECT_EQ(frame[20], 0) << "hop by hop";
  EXPECT_EQ(frame[21], 1) << "hop limit";
  const std::vector<uint8_t> alert = {58, 0, 5, 2, 0, 0, 1, 0};
  EXPECT_EQ(std::vector<uint8_t>(frame.begin() + 54, frame.begin() + 62),
            alert);
  EXPECT_EQ(frame[62], 131);
  EXPECT_EQ(Ipv6UpperChecksum(local, group, 58, {frame.data() + 62, 24}), 0);
  const auto done = Emit(local, group, false);
  EXPECT_EQ(done[62], 132);
  EXPECT_EQ(done[53], 2) << "to all routers";
}

using Kind = MembershipInfo::Kind;

// An IGMP message after an IP header with or without "router alert".
std::vector<uint8_t> Igmp(std::vector<uint8_t> message, bool alert) {
  std::vector<uint8_t> ip = {
      static_cast<uint8_t>(alert ? 0x46 : 0x45),
      0,
      0,
      static_cast<uint8_t>(message.size() + (alert ? 24 : 20)),
      0,
      0,
      0,
      0,
      1,
      2,
      0,
      0,
      10,
      0,
      0,
      9,
      224,
      0,
      0,
      1};
  if (alert) ip.insert(ip.end(), {0x94, 4, 0, 0});
  const auto seal = [](std::vector<uint8_t>& bytes, size_t at) {
    const uint16_t sum = ChecksumReference(bytes);
    bytes[at] = static_cast<uint8_t>(sum >> 8);
    bytes[at + 1] = static_cast<uint8_t>(sum);
  };
  seal(ip, 10);
  seal(message, 2);
  std::vector<uint8_t> frame = {1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0};
  frame.insert(frame.end(), ip.begin(), ip.end());
  frame.insert(frame.end(), message.begin(), message.end());
  if (frame.size() < 60) frame.resize(60);
  return frame;
}

MembershipInfo Parsed(const std::vector<uint8_t>& frame) {
  MembershipInfo info;
  EXPECT_EQ(ParseMembership(frame, info), RxVerdict::kMembership);
  return info;
}

//= RFC 2236 4, RFC 3376 4.1.1
TEST(MembershipTest, UnderstandsTheQueriesOfAllIgmpVersions) {
  MembershipInfo info = Parsed(Igmp({0x11, 100, 0, 0, 0, 0, 0, 0}, true));
  EXPECT_EQ(info.kind, Kind::kQuery);
  EXPECT_TRUE(info.general);
  EXPECT_FALSE(info.igmp_v1);
  EXPECT_EQ(info.max_delay, Duration::Seconds(10));
  info = Parsed(Igmp({0x11, 10, 0, 0, 225, 1, 2, 3}, false));
  EXPECT_FALSE(info.general);
  EXPECT_EQ(info.group, Gid::FromIpv4(0xe1010203));
  EXPECT_EQ(info.max_delay, Duration::Seconds(1));
  info = Parsed(Igmp({0x11, 0, 0, 0, 0, 0, 0, 0}, false));
  EXPECT_TRUE(info.igmp_v1);
  EXPECT_EQ(info.max_delay, Duration::Seconds(10));
  // Version 3: 0x8f is (15 | 16) << 3 tenths of a second.
  info = Parsed(Igmp({0x11, 0x8f, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0}, true));
  EXPECT_FALSE(info.igmp_v1);
  EXPECT_EQ(info.max_delay, Duration::Milliseconds(24800));
}

TEST(MembershipTest, RefusesDamagedIgmpAndLeavesTheRestAlone) {
  MembershipInfo info;
  const auto good = Igmp({0x11, 100, 0, 0, 0, 0, 0, 0}, true);
  for (const size_t at : {15u, 34u, 38u, 45u}) {
    auto frame = good;
    frame[at] ^= 1;
    EXPECT_EQ(ParseMembership(frame, info), RxVerdict::kBadMembership) << at;
  }
  EXPECT_EQ(ParseMembership(Igmp({0x11, 9, 0, 0, 10, 0, 0, 1}, false), info),
            RxVerdict::kBadMembership)
      << "not a group";
  auto frame = good;
  frame[23] = 6;
  EXPECT_EQ(ParseMembership(frame, info), RxVerdict::kNotRoce);
  for (size_t bytes = 0; bytes < 46; ++bytes) {
    EXPECT_NE(ParseMembership({good.data(), bytes}, info),
              RxVerdict::kMembership);
  }
}

//= RFC 3810 5.1.3
TEST(MembershipTest, ALongDelayOfMldV2IsAFloatingPointNumber) {
  Gid local, group;
  local.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7};
  group.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
  const auto delay_of = [&](uint8_t high, uint8_t low) {
    std::vector<uint8_t> query(28);
    query[0] = 130;
    query[4] = high;
    query[5] = low;
    const uint16_t sum = Ipv6UpperChecksum(local, group, 58, query);
    query[2] = static_cast<uint8_t>(sum >> 8);
    query[3] = static_cast<uint8_t>(sum);
    auto frame = Emit(local, group, true);
    frame.resize(62);
    frame[19] = 8 + 28;
    frame.insert(frame.end(), query.begin(), query.end());
    const MembershipInfo info = Parsed(frame);
    EXPECT_TRUE(info.general);
    return info.max_delay;
  };
  EXPECT_EQ(delay_of(0x7f, 0xff), Duration::Milliseconds(0x7fff));
  EXPECT_EQ(delay_of(0x80, 0x01), Duration::Milliseconds(0x1001 << 3));
  EXPECT_EQ(delay_of(0xaf, 0xff), Duration::Milliseconds(0x1fff << 5));
}

//= RFC 2710 5
TEST(MembershipTest, UnderstandsItsOwnMessages) {
  const Gid v4 = Gid::FromIpv4(0xe1020304);
  MembershipInfo info = Parsed(Emit(Gid::FromIpv4(0x0a000001), v4, true));
  EXPECT_EQ(info.kind, Kind::kReport);
  EXPECT_EQ(info.group, v4);
  EXPECT_EQ(Parsed(Emit(Gid::FromIpv4(0x0a000001), v4, false)).kind,
            Kind::kOther);
  Gid local, group;
  local.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7};
  group.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
  auto frame = Emit(local, group, true);
  info = Parsed(frame);
  EXPECT_EQ(info.kind, Kind::kReport);
  EXPECT_TRUE(info.ipv6);
  EXPECT_EQ(info.group, group);
  // The same as a query with a maximum delay of 0x200 ms. The destination's
  // part of the checksum stays the same.
  frame[62] = 130;
  frame[66] = 2;
  const uint16_t sum = static_cast<uint16_t>(frame[64] << 8 | frame[65]);
  uint32_t corrected =
      uint32_t{sum} + (131 << 8) + 0xffff - (130 << 8) + 0xffff - 0x200;
  while (corrected >> 16 != 0)
    corrected = (corrected & 0xffff) + (corrected >> 16);
  frame[64] = static_cast<uint8_t>(corrected >> 8);
  frame[65] = static_cast<uint8_t>(corrected);
  info = Parsed(frame);
  EXPECT_EQ(info.kind, Kind::kQuery);
  EXPECT_FALSE(info.general);
  EXPECT_EQ(info.max_delay, Duration::Milliseconds(0x200));
  frame[22] = 0x20;  // a source that is not link-local
  EXPECT_EQ(ParseMembership(frame, info), RxVerdict::kBadMembership);
}

}  // namespace
}  // namespace urnic::wire
