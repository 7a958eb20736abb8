// Byte by byte, as in the standards.
//= RFC 792, RFC 1191 4, RFC 4443 2.1, 3.2

#include "transport/wire/too_big.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "transport/wire/checksum.h"
#include "transport/wire/neighbor.h"

namespace urnic::wire {
namespace {

using Bytes = std::vector<uint8_t>;

void Store16(Bytes& bytes, size_t at, uint16_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

// From the router 10.0.0.254 to 10.0.0.1, of a packet of 4140 bytes to
// 10.9.0.2 from port 0xc350; the next link takes 1400.
Bytes Ipv4Message() {
  Bytes frame = {
      2,    0,    0,    0,    0,    1,    2,    0,    0,  0,  0, 254,
      0x08, 0x00,                                                    // Ethernet
      0x45, 0xc0, 0,    56,   0,    0,    0,    0,    64, 1,  0, 0,  // IPv4
      10,   0,    0,    254,  10,   0,    0,    1,                   //
      3,    4,    0,    0,    0,    0,    0x05, 0x78,                // ICMP
      0x45, 0,    0x10, 0x2c, 0,    0,    0x40, 0,    63, 17, 0, 0,  // quote
      10,   0,    0,    1,    10,   9,    0,    2,                   //
      0xc3, 0x50, 0x12, 0xb7, 0x10, 0x18, 0,    0};                  // UDP
  Store16(frame, 24, Checksum({&frame[14], 20}));
  Store16(frame, 36, Checksum({&frame[34], 36}));
  return frame;
}

Bytes Ipv6Message() {
  Bytes frame = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 254, 0x86, 0xdd};
  const auto header = [&frame](uint8_t next, uint16_t length, uint8_t from,
                               uint8_t to) {
    Bytes ip(40);
    ip[0] = 0x60;
    Store16(ip, 4, length);
    ip[6] = next;
    ip[7] = 64;
    ip[8] = ip[24] = 0xfd;
    ip[23] = from;
    ip[39] = to;
    frame.insert(frame.end(), ip.begin(), ip.end());
  };
  header(58, 56, 254, 1);
  const Bytes icmp = {2, 0, 0, 0, 0, 0, 0x05, 0x78};
  frame.insert(frame.end(), icmp.begin(), icmp.end());
  header(17, 4100, 1, 2);
  const Bytes udp = {0xc3, 0x50, 0x12, 0xb7, 0x10, 0x04, 0, 0};
  frame.insert(frame.end(), udp.begin(), udp.end());
  const uint16_t sum =
      Ipv6UpperChecksum(Gid::FromIpv6(&frame[22]), Gid::FromIpv6(&frame[38]),
                        58, {&frame[54], 56});
  Store16(frame, 56, sum);
  return frame;
}

bool Parse(const Bytes& frame, TooBigInfo& out) {
  FrameView view;
  NeighborInfo info;
  EXPECT_EQ(ParseFrame(frame.data(), frame.size(), view), RxVerdict::kIcmp);
  return ParseIcmp(view, info) == RxVerdict::kIcmp && ParseTooBig(view, out);
}

TEST(TooBigTest, FragmentationNeededNamesThePacketAndTheMtu) {
  TooBigInfo info;
  ASSERT_TRUE(Parse(Ipv4Message(), info));
  EXPECT_EQ(info.mtu, 1400u);
  EXPECT_EQ(info.src, Gid::FromIpv4(0x0a000001));
  EXPECT_EQ(info.dst, Gid::FromIpv4(0x0a090002));
  EXPECT_EQ(info.packet_bytes, 4140u);
}

TEST(TooBigTest, PacketTooBigNamesThePacketAndTheMtu) {
  TooBigInfo info;
  ASSERT_TRUE(Parse(Ipv6Message(), info));
  EXPECT_EQ(info.mtu, 1400u);
  EXPECT_EQ(info.src.bytes[15], 1);
  EXPECT_EQ(info.dst.bytes[15], 2);
  EXPECT_EQ(info.packet_bytes, 4140u);
}

// The same messages, which quote a segment from port 0xc350 to port 20000 with
// the sequence number 0x10180102.
Bytes QuotingTcp(Bytes frame, size_t protocol_at) {
  const Bytes quote = {0xc3, 0x50, 0x4e, 0x20, 0x10, 0x18, 0x01, 0x02};
  frame[protocol_at] = 6;
  std::copy(quote.begin(), quote.end(), frame.end() - 8);
  return frame;
}
Bytes Ipv4TcpMessage() {
  Bytes frame = QuotingTcp(Ipv4Message(), 51);
  Store16(frame, 36, 0);
  Store16(frame, 36, Checksum({&frame[34], 36}));
  return frame;
}
Bytes Ipv6TcpMessage() {
  Bytes frame = QuotingTcp(Ipv6Message(), 68);
  Store16(frame, 56, 0);
  Store16(frame, 56,
          Ipv6UpperChecksum(Gid::FromIpv6(&frame[22]),
                            Gid::FromIpv6(&frame[38]), 58, {&frame[54], 56}));
  return frame;
}

TEST(TooBigTest, AQuotedSegmentIsNamedByPortsAndSequenceNumber) {
  for (const Bytes& frame : {Ipv4TcpMessage(), Ipv6TcpMessage()}) {
    TooBigInfo info;
    ASSERT_TRUE(Parse(frame, info));
    EXPECT_TRUE(info.tcp);
    EXPECT_EQ(info.src_port, 0xc350);
    EXPECT_EQ(info.dst_port, 20000);
    EXPECT_EQ(info.seq, 0x10180102u);
    EXPECT_EQ(info.mtu, 1400u);
    EXPECT_EQ(info.packet_bytes, 4140u);
    EXPECT_EQ(info.src.bytes[15], 1);
    EXPECT_EQ(info.dst.bytes[15], 2);
  }
}

// Each byte of the message that must have its value.
TEST(TooBigTest, AnyOtherMessageIsRefused) {
  TooBigInfo info;
  const auto refused = [&info](size_t at, uint8_t value) {
    Bytes frame = Ipv4Message();
    frame[at] = value;
    Store16(frame, 36, 0);
    Store16(frame, 36, Checksum({&frame[34], 36}));
    return !Parse(frame, info);
  };
  EXPECT_TRUE(refused(34, 11)) << "type";
  EXPECT_TRUE(refused(35, 3)) << "code";
  EXPECT_TRUE(refused(42, 0x46)) << "options";
  EXPECT_TRUE(refused(48, 0x20)) << "a fragment";
  EXPECT_TRUE(refused(51, 132)) << "SCTP";
  EXPECT_TRUE(refused(65, 0xb6)) << "another port";
  EXPECT_FALSE(refused(53, 0)) << "the quote's checksum is not looked at";
}

TEST(TooBigTest, AShortQuoteIsRefused) {
  TooBigInfo info;
  for (const Bytes& whole : {Ipv4Message(), Ipv4TcpMessage()}) {
    for (size_t cut = 1; cut <= 36; ++cut) {
      Bytes frame = whole;
      frame.resize(frame.size() - cut);
      Store16(frame, 16, static_cast<uint16_t>(56 - cut));
      Store16(frame, 24, 0);
      Store16(frame, 24, Checksum({&frame[14], 20}));
      if (36 - cut >= 4) {
        Store16(frame, 36, 0);
        Store16(frame, 36, Checksum({&frame[34], 36 - cut}));
      }
      // Fewer bytes would be enough for UDP, but a router quotes 8.
      EXPECT_FALSE(Parse(frame, info)) << cut;
    }
  }
}

}  // namespace
}  // namespace urnic::wire
