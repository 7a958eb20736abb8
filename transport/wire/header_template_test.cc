#include "transport/wire/header_template.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/wire/frame.h"

namespace urnic::wire {
namespace {

PathHeaders Ipv4Path() {
  PathHeaders path;
  path.src_mac = {{2, 0, 0, 0, 0, 1}};
  path.dst_mac = {{2, 0, 0, 0, 0, 2}};
  path.src = Gid::FromIpv4(0xc0a80001);
  path.dst = Gid::FromIpv4(0xc0a800c7);
  path.udp_src_port = 49152;
  return path;
}

//= RFC 768, RFC 791 3.1, RFC 6864 4.1, IEEE 802.3 3.1.1
TEST(HeaderTemplateTest, WritesTheExactBytes) {
  const HeaderTemplate headers(Ipv4Path());
  ASSERT_EQ(headers.size(), 42u);
  std::vector<uint8_t> out(HeaderTemplate::kMaxBytes);
  headers.Write(out.data(), 40);
  out.resize(headers.size());
  // The IPv4 checksum is worked out by hand: 0x2476d folds to 0x476f.
  const std::vector<uint8_t> expected = {
      2,    0,    0,    0,    0,    2,    2,    0,    0,    0,    0,
      1,    0x08, 0x00, 0x45, 0x00, 0x00, 0x44, 0x00, 0x00, 0x40, 0x00,
      0x40, 0x11, 0xb8, 0x90, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
      0xc7, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x30, 0x00, 0x00};
  EXPECT_EQ(out, expected);
}

TEST(HeaderTemplateTest, Ipv4ChecksumIsRightForEveryLength) {
  PathHeaders path = Ipv4Path();
  // Addresses that make the sum of the rest 0xffff, 0 and something between.
  for (const uint32_t dst : {0x0a000001u, 0xffffffffu, 0x00000000u}) {
    path.dst = Gid::FromIpv4(dst);
    const HeaderTemplate headers(path);
    std::vector<uint8_t> out(HeaderTemplate::kMaxBytes);
    for (uint32_t bytes = 16; bytes <= kRoceMaxBytes; ++bytes) {
      headers.Write(out.data(), static_cast<uint16_t>(bytes));
      Ipv4 ip;
      std::memcpy(static_cast<void*>(&ip), &out[headers.ip_offset()],
                  sizeof(ip));
      ASSERT_EQ(ChecksumSum().AddHeader(ip).Finish(), 0) << bytes;
      ASSERT_EQ(ip.total_length.value(), bytes + 28);
    }
  }
}

//= IBTA 8.3, 8.3.4, A16.2, A16.3, A17.4.5
TEST(HeaderTemplateTest, WritesTheExactBytesOfRoceV1) {
  PathHeaders path = Ipv4Path();
  path.roce_v1 = true;
  path.traffic_class = 0x12;
  path.flow_label = 0x34567;
  path.hop_limit = 1;
  const HeaderTemplate headers(path);
  ASSERT_EQ(headers.size(), 54u);
  std::vector<uint8_t> out(HeaderTemplate::kMaxBytes);
  headers.Write(out.data(), 40);
  out.resize(headers.size());
  const std::vector<uint8_t> expected = {
      2,    0,    0,    0,    0,    2,    2,    0,    0,    0,    0,
      1,    0x89, 0x15, 0x61, 0x23, 0x45, 0x67, 0x00, 0x28, 0x1b, 0x01,
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xff,
      0xff, 0xc0, 0xa8, 0x00, 0x01, 0,    0,    0,    0,    0,    0,
      0,    0,    0,    0,    0xff, 0xff, 0xc0, 0xa8, 0x00, 0xc7};
  EXPECT_EQ(out, expected);
}

//= RFC 4291 A
TEST(LinkLocalTest, AGidMadeOfAMacGivesItBack) {
  Gid gid;
  gid.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0xff, 0xfe, 3, 4, 5};
  EXPECT_EQ(MacOfLinkLocal(gid), (MacAddress{{2, 1, 2, 3, 4, 5}}));
  gid.bytes[11] = 0;
  EXPECT_EQ(MacOfLinkLocal(gid), std::nullopt);
  EXPECT_EQ(MacOfLinkLocal(Gid::FromIpv4(0x0a000001)), std::nullopt);
}

//= RFC 1112 6.4, RFC 2464 7
TEST(MulticastMacTest, HasTheLastBytesOfTheGroup) {
  EXPECT_EQ(MulticastMac(Gid::FromIpv4(0xe1ff0304)),
            (MacAddress{{0x01, 0x00, 0x5e, 0x7f, 0x03, 0x04}}));
  Gid gid;
  gid.bytes = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x81, 2, 3, 4};
  EXPECT_EQ(MulticastMac(gid), (MacAddress{{0x33, 0x33, 0x81, 2, 3, 4}}));
}

TEST(HeaderTemplateTest, KnowsItsSourceInEveryShape) {
  PathHeaders path = Ipv4Path();
  for (const bool tagged : {false, true}) {
    if (tagged) path.vlan_tci = 5;
    for (const bool v6 : {false, true}) {
      path.src = v6 ? Gid::FromIpv6(reinterpret_cast<const uint8_t*>(
                          "\xfd\1\0\0\0\0\0\0\0\0\0\0\0\0\0\7"))
                    : Gid::FromIpv4(0xc0a80001);
      path.dst = path.src;
      for (const bool v1 : {false, true}) {
        path.roce_v1 = v1;
        EXPECT_EQ(HeaderTemplate(path).src(), path.src);
      }
    }
  }
}

TEST(HeaderTemplateTest, AnotherNeighbourChangesTheLinkHeaderOnly) {
  PathHeaders path = Ipv4Path();
  for (const bool tagged : {false, true}) {
    if (tagged) path.vlan_tci = 5;
    HeaderTemplate headers(path);
    uint8_t before[HeaderTemplate::kMaxBytes];
    headers.Write(before, 32);
    const MacAddress mac{{2, 0, 0, 0, 0, 9}};
    headers.set_dst_mac(mac);
    EXPECT_EQ(headers.dst_mac(), mac);
    ASSERT_EQ(headers.is_tagged(), tagged);
    if (tagged) {
      EXPECT_EQ(headers.vlan_tci(), 5);
    }
    path.dst_mac = mac;
    uint8_t after[HeaderTemplate::kMaxBytes];
    headers.Write(after, 32);
    uint8_t expected[HeaderTemplate::kMaxBytes];
    HeaderTemplate(path).Write(expected, 32);
    EXPECT_EQ(std::memcmp(after, expected, headers.size()), 0);
    const size_t ip = headers.ip_offset();
    EXPECT_EQ(std::memcmp(after + ip, before + ip, headers.size() - ip), 0);
  }
}

TEST(HeaderTemplateTest, SizesOfTheOtherShapes) {
  PathHeaders path = Ipv4Path();
  path.vlan_tci = 5;
  EXPECT_EQ(HeaderTemplate(path).size(), 46u);
  EXPECT_EQ(HeaderTemplate(path).ip_offset(), 18u);
  path.roce_v1 = true;
  EXPECT_EQ(HeaderTemplate(path).size(), 58u);
  path.roce_v1 = false;
  path.src.bytes[0] = path.dst.bytes[0] = 0xfe;
  EXPECT_EQ(HeaderTemplate(path).size(), 66u);
  EXPECT_EQ(HeaderTemplate(path).framing(), Framing::kIpv6);
}

}  // namespace
}  // namespace urnic::wire
