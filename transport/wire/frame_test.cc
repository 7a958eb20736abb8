#include "transport/wire/frame.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/random.h"
#include "transport/wire/header_template.h"
#include "transport/wire/packet.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;
using Bytes = std::vector<uint8_t>;

PathHeaders Path(bool ipv6) {
  PathHeaders path;
  path.src_mac = {{2, 0, 0, 0, 0, 1}};
  path.dst_mac = {{2, 0, 0, 0, 0, 2}};
  path.src = Gid::FromIpv4(0x0a000001);
  path.dst = Gid::FromIpv4(0x0a000002);
  if (ipv6) {
    path.src.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    path.dst.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  }
  path.traffic_class = 0x6a;
  path.hop_limit = 61;
  path.udp_src_port = 0xc123;
  path.flow_label = 0x12345;
  return path;
}

Bytes MakeFrame(const PathHeaders& path) {
  const uint8_t payload[5] = {1, 2, 3, 4, 5};
  PacketFields fields;
  fields.opcode = uint8_t(Opcode::kRcSendOnly);
  fields.payload = payload;
  Bytes frame(200);
  frame.resize(EmitFrame(HeaderTemplate(path), fields, frame));
  return frame;
}

// Parses with and without the fast path; the results must agree.
RxVerdict Parse(const Bytes& frame, FrameView& view) {
  const RxVerdict verdict = ParseFrame(frame.data(), frame.size(), view);
  FrameView other;
  EXPECT_EQ(ParseAnyFrame(frame, other), verdict);
  if (verdict == RxVerdict::kAccept) {
    EXPECT_EQ(view.src, other.src);
    EXPECT_EQ(view.dst, other.dst);
    EXPECT_EQ(view.eth, other.eth);
    EXPECT_EQ(view.l3, other.l3);
    EXPECT_EQ(view.l3_bytes, other.l3_bytes);
    EXPECT_EQ(view.payload, other.payload);
    EXPECT_EQ(view.payload_bytes, other.payload_bytes);
    EXPECT_EQ(view.tos, other.tos);
    EXPECT_EQ(view.hop_limit, other.hop_limit);
    EXPECT_EQ(view.udp_src_port, other.udp_src_port);
  }
  return verdict;
}

RxVerdict VerdictOf(const Bytes& frame) {
  FrameView view;
  return Parse(frame, view);
}

// An IPv4 frame with a change, and its header checksum corrected.
Bytes Changed(const std::function<void(Ipv4&, Udp&)>& change) {
  Bytes frame = MakeFrame(Path(false));
  auto* ip = reinterpret_cast<Ipv4*>(&frame[14]);
  change(*ip, *reinterpret_cast<Udp*>(&frame[34]));
  ip->checksum = Be<uint16_t>(0);
  ip->checksum = Be<uint16_t>(ChecksumSum().AddHeader(*ip).Finish());
  return frame;
}

TEST(FrameTest, ParsesAnIpv4Frame) {
  Bytes frame = MakeFrame(Path(false));
  const size_t frame_bytes = frame.size();
  frame.resize(frame_bytes + 9);  // Ethernet padding, which means nothing
  FrameView view;
  ASSERT_EQ(Parse(frame, view), RxVerdict::kAccept);
  EXPECT_EQ(view.framing, Framing::kIpv4);
  EXPECT_EQ(view.vlan, nullptr);
  EXPECT_EQ(view.eth->src, Path(false).src_mac);
  EXPECT_EQ(view.src, Path(false).src);
  EXPECT_EQ(view.dst, Path(false).dst);
  EXPECT_EQ(view.tos, 0x6a);
  EXPECT_FALSE(view.congestion_experienced());
  EXPECT_EQ(view.hop_limit, 61);
  EXPECT_EQ(view.udp_src_port, 0xc123);
  EXPECT_EQ(view.l3, &frame[14]);
  EXPECT_EQ(view.l3_bytes, frame_bytes - 14);
  EXPECT_EQ(view.payload, &frame[42]);
  EXPECT_EQ(view.payload_bytes, frame_bytes - 42);
}

TEST(FrameTest, ParsesATaggedIpv6Frame) {
  PathHeaders path = Path(true);
  path.vlan_tci = 0xa123;
  path.traffic_class = 0x6b;
  const Bytes frame = MakeFrame(path);
  FrameView view;
  ASSERT_EQ(Parse(frame, view), RxVerdict::kAccept);
  EXPECT_EQ(view.framing, Framing::kIpv6);
  ASSERT_NE(view.vlan, nullptr);
  EXPECT_EQ(view.vlan->vlan_id(), 0x123);
  EXPECT_EQ(view.vlan->priority(), 5);
  EXPECT_EQ(view.src, path.src);
  EXPECT_EQ(view.dst, path.dst);
  EXPECT_TRUE(view.congestion_experienced());
  EXPECT_EQ(view.hop_limit, 61);
  EXPECT_EQ(view.payload, &frame[14 + 4 + 40 + 8]);
}

PathHeaders RoceV1Path() {
  PathHeaders path = Path(false);  // IPv4-mapped GIDs: not IPv4 packets
  path.roce_v1 = true;
  return path;
}

//= IBTA A16.2, A16.3
TEST(FrameTest, ParsesARoceV1Frame) {
  Bytes frame = MakeFrame(RoceV1Path());
  const size_t frame_bytes = frame.size();
  frame.resize(frame_bytes + 9);
  FrameView view;
  ASSERT_EQ(Parse(frame, view), RxVerdict::kAccept);
  EXPECT_EQ(view.framing, Framing::kGrh);
  EXPECT_EQ(view.src, RoceV1Path().src);
  EXPECT_EQ(view.dst, RoceV1Path().dst);
  EXPECT_EQ(view.tos, 0x68) << "its low bits are not ECN";
  EXPECT_EQ(view.hop_limit, 61);
  EXPECT_EQ(view.udp_src_port, 0);
  EXPECT_EQ(view.l3, &frame[14]);
  EXPECT_EQ(view.l3_bytes, frame_bytes - 14);
  EXPECT_EQ(view.payload, &frame[14 + 40]);
  EXPECT_EQ(view.payload_bytes, frame_bytes - 54);
}

//= IBTA 8.3, 8.3.4
TEST(FrameTest, RefusesAnInvalidGrh) {
  const Bytes good = MakeFrame(RoceV1Path());
  Bytes frame = good;
  frame[14] = 0x45;  // version 4
  EXPECT_EQ(VerdictOf(frame), RxVerdict::kBadGrh);
  frame = good;
  frame[14 + 6] = 17;  // UDP follows
  EXPECT_EQ(VerdictOf(frame), RxVerdict::kBadGrh);
  frame = good;
  ++frame[14 + 5];  // longer than the frame
  EXPECT_EQ(VerdictOf(frame), RxVerdict::kTruncated);
  for (size_t bytes = 14; bytes < good.size(); ++bytes) {
    EXPECT_EQ(VerdictOf(Bytes(good.begin(), good.begin() + bytes)),
              RxVerdict::kTruncated)
        << bytes;
  }
}

TEST(FrameTest, EveryShorterFrameIsTruncated) {
  for (const bool ipv6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      PathHeaders path = Path(ipv6);
      if (tagged) path.vlan_tci = 7;
      const Bytes frame = MakeFrame(path);
      for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
        // A vector of exactly that size, for the address sanitizer.
        EXPECT_EQ(VerdictOf(Bytes(frame.begin(), frame.begin() + bytes)),
                  RxVerdict::kTruncated)
            << bytes;
      }
    }
  }
}

//= RFC 768, RFC 791 3.1
TEST(FrameTest, NamesTheFaultOfAnIpv4Frame) {
  using V = RxVerdict;
  const auto verdict = [](const std::function<void(Ipv4&, Udp&)>& change) {
    return VerdictOf(Changed(change));
  };
  EXPECT_EQ(verdict([](Ipv4&, Udp&) {}), V::kAccept);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.version_ihl = 0x55; }),
            V::kBadIpHeader);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.version_ihl = 0x44; }),
            V::kBadIpHeader);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.version_ihl = 0x46; }),
            V::kIpOptions);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) {
              ip.flags_fragment = Be<uint16_t>(0x2000);  // more fragments
            }),
            V::kIpFragment);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) {
              ip.flags_fragment = Be<uint16_t>(0x0001);  // a later fragment
            }),
            V::kIpFragment);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.total_length = Be<uint16_t>(19); }),
            V::kBadIpHeader);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) {
              ip.total_length = Be<uint16_t>(ip.total_length.value() + 1);
            }),
            V::kTruncated);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.protocol = 6; }), V::kTcp);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.protocol = 132; }), V::kNotRoce);
  EXPECT_EQ(verdict([](Ipv4& ip, Udp&) { ip.protocol = kIpProtocolIcmp; }),
            V::kIcmp);
  EXPECT_EQ(verdict([](Ipv4&, Udp& udp) { udp.dst_port = Be<uint16_t>(4792); }),
            V::kNotRoce);
  for (const int off : {-1, 1}) {
    EXPECT_EQ(verdict([off](Ipv4&, Udp& udp) {
                udp.length = Be<uint16_t>(
                    static_cast<uint16_t>(udp.length.value() + off));
              }),
              V::kBadUdpLength);
  }
  EXPECT_EQ(verdict([](Ipv4&, Udp& udp) { udp.length = Be<uint16_t>(0); }),
            V::kBadUdpLength);
  EXPECT_EQ(verdict([](Ipv4&, Udp& udp) { udp.checksum = Be<uint16_t>(1); }),
            V::kAccept);  // the ICRC covers what it would
}

TEST(FrameTest, AnyFlippedBitOfAnIpv4HeaderIsDetected) {
  Bytes frame = MakeFrame(Path(false));
  for (size_t bit = 14 * 8; bit < 34 * 8; ++bit) {
    frame[bit / 8] ^= 1 << (bit % 8);
    EXPECT_NE(VerdictOf(frame), RxVerdict::kAccept) << bit;
    frame[bit / 8] ^= 1 << (bit % 8);
  }
}

//= RFC 8200 3
TEST(FrameTest, NamesTheFaultOfAnIpv6Frame) {
  const Bytes good = MakeFrame(Path(true));
  const auto verdict = [&good](size_t at, uint8_t value) {
    Bytes frame = good;
    frame[at] = value;
    return VerdictOf(frame);
  };
  constexpr size_t kIp = 14;
  EXPECT_EQ(verdict(kIp, 0x46), RxVerdict::kBadIpHeader);
  EXPECT_EQ(verdict(kIp + 4, 1), RxVerdict::kTruncated);
  for (const uint8_t extension : {0, 43, 51, 60}) {
    EXPECT_EQ(verdict(kIp + 6, extension), RxVerdict::kIpOptions);
  }
  //= RFC 8200 4.5
  EXPECT_EQ(verdict(kIp + 6, 44), RxVerdict::kIpFragment);
  EXPECT_EQ(verdict(kIp + 6, 58), RxVerdict::kIcmp);
  EXPECT_EQ(verdict(kIp + 6, 6), RxVerdict::kTcp);
  EXPECT_EQ(verdict(kIp + 6, 59), RxVerdict::kNotRoce);
  EXPECT_EQ(verdict(kIp + 40 + 3, 0), RxVerdict::kNotRoce);
  EXPECT_EQ(verdict(kIp + 40 + 5, 0), RxVerdict::kBadUdpLength);
}

//= RFC 4291 2.5.5.2
TEST(FrameTest, MappedIpv4AddressesInIpv6AreRefused) {
  const Bytes good = MakeFrame(Path(true));
  for (const size_t address : {14 + 8, 14 + 24}) {
    Bytes frame = good;
    const Gid mapped = Gid::FromIpv4(0x0a000001);
    std::copy(mapped.bytes.begin(), mapped.bytes.end(), &frame[address]);
    EXPECT_EQ(VerdictOf(frame), RxVerdict::kBadIpHeader);
  }
}

TEST(FrameTest, OtherProtocolsAreDistinguished) {
  Bytes frame(60);
  frame[12] = 0x88, frame[13] = 0xcc;  // LLDP
  EXPECT_EQ(VerdictOf(frame), RxVerdict::kUnknownEtherType);
  frame[12] = 0x81, frame[13] = 0x00;  // a tag in a tag
  frame[16] = 0x81, frame[17] = 0x00;
  EXPECT_EQ(VerdictOf(frame), RxVerdict::kUnknownEtherType);
  frame[16] = 0x08, frame[17] = 0x06;
  EXPECT_EQ(VerdictOf(frame), RxVerdict::kArp);
}

TEST(FrameTest, BothParsersAgreeOnAnyBytes) {
  Random random(1);
  const Bytes good = MakeFrame(Path(false));
  for (int i = 0; i < 20000; ++i) {
    Bytes frame = good;
    for (uint64_t n = random.Below(4); n > 0; --n) {
      frame[12 + random.Below(32)] = random.Byte();
    }
    frame.resize(random.OneIn(4) ? random.Below(80) : frame.size());
    if (random.OneIn(2) && frame.size() >= 34) {
      auto* ip = reinterpret_cast<Ipv4*>(&frame[14]);
      ip->checksum = Be<uint16_t>(0);
      ip->checksum = Be<uint16_t>(ChecksumSum().AddHeader(*ip).Finish());
    }
    FrameView view;
    const RxVerdict verdict = Parse(frame, view);
    if (verdict != RxVerdict::kAccept) continue;
    EXPECT_LE(view.payload + view.payload_bytes, frame.data() + frame.size());
  }
}

TEST(GidTest, KnowsItsKinds) {
  const Gid v4 = Gid::FromIpv4(0xe0000001);
  EXPECT_TRUE(v4.is_ipv4());
  EXPECT_EQ(v4.ipv4(), 0xe0000001);
  EXPECT_TRUE(v4.is_multicast());
  EXPECT_FALSE(Gid().is_ipv4());
  EXPECT_TRUE(Path(true).src.is_link_local());
  EXPECT_FALSE(Path(true).src == Path(true).dst);
  EXPECT_FALSE(Path(true).src.is_multicast());
}

}  // namespace
}  // namespace urnic::wire
