#include "transport/wire/membership.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/wire/checksum.h"

namespace urnic::wire {
namespace {

const MacAddress kMac{{0x02, 1, 2, 3, 4, 5}};

std::vector<uint8_t> Emit(const Gid& local, const Gid& group, bool joined) {
  std::vector<uint8_t> frame(kMembershipFrameBytes, 0xee);
  frame.resize(EmitMembership(kMac, local, group, joined, frame));
  return frame;
}

// Byte by byte as RFC 2236 draws it.
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

TEST(MembershipTest, IgmpLeaveGoesToAllRouters) {
  const auto frame =
      Emit(Gid::FromIpv4(0x0a000001), Gid::FromIpv4(0xe1020304), false);
  EXPECT_EQ(frame[5], 0x02);
  EXPECT_EQ(frame[38], 0x17);
  EXPECT_EQ(ChecksumReference({frame.data() + 38, 8}), 0);
}

TEST(MembershipTest, MldReportIsBehindARouterAlert) {
  Gid local, group;
  local.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7};
  group.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34};
  const auto frame = Emit(local, group, true);
  ASSERT_EQ(frame.size(), 14u + 40 + 8 + 24);
  EXPECT_EQ(frame[0], 0x33);
  EXPECT_EQ(frame[5], 0x34);
  EXPECT_EQ(frame[20], 0) << "hop by hop";
  EXPECT_EQ(frame[21], 1) << "hop limit";
  EXPECT_EQ(frame[54], 58);
  EXPECT_EQ(frame[62], 131);
  EXPECT_EQ(Ipv6UpperChecksum(local, group, 58, {frame.data() + 62, 24}), 0);
  const auto done = Emit(local, group, false);
  EXPECT_EQ(done[62], 132);
  EXPECT_EQ(done[53], 2) << "to all routers";
}

}  // namespace
}  // namespace urnic::wire
