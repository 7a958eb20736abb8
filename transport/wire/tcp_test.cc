#include "transport/wire/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/support/random.h"
#include "transport/wire/append_headers.h"
#include "transport/wire/appender.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;
using Bytes = std::vector<uint8_t>;

const Gid kSrc4 = Gid::FromIpv4(0x0a000001);
const Gid kDst4 = Gid::FromIpv4(0xc0a8fffe);

Gid Ipv6Address(uint8_t last) {
  Gid gid;
  gid.bytes[0] = 0xfe, gid.bytes[1] = 0x80, gid.bytes[15] = last;
  return gid;
}

// What ParseFrame() makes of a segment. It refers to `segment`.
FrameView ViewOf(const Bytes& segment, const Gid& src, const Gid& dst) {
  FrameView view;
  view.framing = src.is_ipv4() ? Framing::kIpv4 : Framing::kIpv6;
  view.src = src;
  view.dst = dst;
  view.payload = segment.data();
  view.payload_bytes = static_cast<uint32_t>(segment.size());
  return view;
}

void StoreChecksum(Bytes& segment, const Gid& src, const Gid& dst) {
  auto& tcp = *reinterpret_cast<Tcp*>(segment.data());
  tcp.checksum = Be<uint16_t>(0);
  tcp.checksum = Be<uint16_t>(TcpChecksum(src, dst, segment, {}));
}

Bytes Build(const TcpFields& fields, const Bytes& payload = {}) {
  Bytes segment(TcpHeaderBytes(fields.options));
  EXPECT_EQ(WriteTcpHeader(fields, segment.data()), segment.size());
  segment.insert(segment.end(), payload.begin(), payload.end());
  StoreChecksum(segment, kSrc4, kDst4);
  return segment;
}

RxVerdict Parse(const Bytes& segment, TcpSegment& out) {
  return ParseTcp(ViewOf(segment, kSrc4, kDst4), false, out);
}

// The options of a segment with these bytes after the header, which are a
// multiple of 4.
TcpOptions OptionsOf(const Bytes& options) {
  Bytes segment(sizeof(Tcp));
  segment[12] = static_cast<uint8_t>((5 + options.size() / 4) << 4);
  segment.insert(segment.end(), options.begin(), options.end());
  StoreChecksum(segment, kSrc4, kDst4);
  TcpSegment out;
  EXPECT_EQ(Parse(segment, out), RxVerdict::kAccept);
  EXPECT_TRUE(out.payload.empty());
  return out.options;
}

void ExpectNone(const TcpOptions& options) {
  EXPECT_FALSE(options.mss);
  EXPECT_FALSE(options.window_shift);
  EXPECT_FALSE(options.sack_permitted);
  EXPECT_FALSE(options.timestamps);
  EXPECT_FALSE(options.urnic);
  EXPECT_EQ(options.sack_count, 0);
}

void ExpectSame(const TcpOptions& a, const TcpOptions& b) {
  EXPECT_EQ(a.mss, b.mss);
  EXPECT_EQ(a.window_shift, b.window_shift);
  EXPECT_EQ(a.sack_permitted, b.sack_permitted);
  EXPECT_EQ(a.timestamps, b.timestamps);
  EXPECT_EQ(a.urnic, b.urnic);
  EXPECT_TRUE(std::ranges::equal(a.sacks(), b.sacks()));
}

TcpFields SomeFields() {
  TcpFields fields;
  fields.src_port = 0x1234;
  fields.dst_port = 0x5678;
  fields.seq = SeqNum(0xfffffffe);
  fields.ack = SeqNum(0x01020304);
  fields.flags = kTcpAck | kTcpPsh;
  fields.window = 0xabcd;
  fields.urgent = 0x4321;
  return fields;
}

//= RFC 9293 3.1
TEST(TcpTest, TheHeaderIsLaidOutAsInTheStandard) {
  TcpFields fields = SomeFields();
  fields.flags = kTcpCwr | kTcpFin;
  Bytes header(20);
  ASSERT_EQ(WriteTcpHeader(fields, header.data()), 20u);
  EXPECT_EQ(header, (Bytes{0x12, 0x34, 0x56, 0x78,     // ports
                           0xff, 0xff, 0xff, 0xfe,     // sequence
                           0x01, 0x02, 0x03, 0x04,     // acknowledgement
                           0x50, 0x81, 0xab, 0xcd,     // flags, window
                           0x00, 0x00, 0x43, 0x21}));  // urgent
  TcpSegment out;
  StoreChecksum(header, kSrc4, kDst4);
  ASSERT_EQ(Parse(header, out), RxVerdict::kAccept);
  EXPECT_EQ(out.src_port, fields.src_port);
  EXPECT_EQ(out.dst_port, fields.dst_port);
  EXPECT_EQ(out.seq, fields.seq);
  EXPECT_EQ(out.ack, fields.ack);
  EXPECT_EQ(out.flags, fields.flags);
  EXPECT_EQ(out.window, fields.window);
  EXPECT_EQ(out.urgent, fields.urgent);
}

//= RFC 9293 3.1
TEST(TcpTest, EveryDataOffsetIsAcceptedOrRefused) {
  for (size_t words = 0; words < 16; ++words) {
    for (size_t bytes = 0; bytes <= 70; ++bytes) {
      // A vector of exactly that size, for the address sanitizer.
      Bytes segment(bytes);
      if (bytes > 12) segment[12] = static_cast<uint8_t>(words << 4);
      if (bytes >= sizeof(Tcp)) StoreChecksum(segment, kSrc4, kDst4);
      TcpSegment out;
      const RxVerdict verdict = Parse(segment, out);
      if (bytes < sizeof(Tcp)) {
        EXPECT_EQ(verdict, RxVerdict::kTruncated);
      } else if (words < 5 || 4 * words > bytes) {
        EXPECT_EQ(verdict, RxVerdict::kBadTcpHeader);
      } else {
        ASSERT_EQ(verdict, RxVerdict::kAccept);
        EXPECT_EQ(out.payload.size(), bytes - 4 * words);
        ExpectNone(out.options);
      }
    }
  }
}

// The definition, with the pseudo header of IPv4 written out.
//= RFC 9293 3.1
TEST(TcpTest, TheChecksumCoversThePseudoHeaderOfIpv4) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Bytes payload(random.Below(100));
    for (uint8_t& byte : payload) byte = random.Byte();
    const auto src = static_cast<uint32_t>(random.Next());
    const auto dst = static_cast<uint32_t>(random.Next());
    Bytes header(20);
    WriteTcpHeader(SomeFields(), header.data());

    Bytes all;
    for (const uint32_t address : {src, dst}) {
      for (int shift = 24; shift >= 0; shift -= 8) {
        all.push_back(static_cast<uint8_t>(address >> shift));
      }
    }
    const size_t bytes = header.size() + payload.size();
    all.insert(all.end(), {0, 6, static_cast<uint8_t>(bytes >> 8),
                           static_cast<uint8_t>(bytes)});
    all.insert(all.end(), header.begin(), header.end());
    all.insert(all.end(), payload.begin(), payload.end());
    EXPECT_EQ(
        TcpChecksum(Gid::FromIpv4(src), Gid::FromIpv4(dst), header, payload),
        ChecksumReference(all));
  }
}

//= RFC 8200 8.1
TEST(TcpTest, TheChecksumCoversThePseudoHeaderOfIpv6) {
  const Gid src = Ipv6Address(1), dst = Ipv6Address(2);
  const Bytes payload = {1, 2, 3};
  Bytes all(src.bytes.begin(), src.bytes.end());
  all.insert(all.end(), dst.bytes.begin(), dst.bytes.end());
  all.insert(all.end(), {0, 0, 0, 23, 0, 0, 0, 6});
  Bytes header(20);
  WriteTcpHeader(SomeFields(), header.data());
  all.insert(all.end(), header.begin(), header.end());
  all.insert(all.end(), payload.begin(), payload.end());
  EXPECT_EQ(TcpChecksum(src, dst, header, payload), ChecksumReference(all));
}

TEST(TcpTest, AnyFlippedBitIsDetectedUnlessThePortHasChecked) {
  TcpFields fields = SomeFields();
  fields.options.timestamps = {7, 8};
  Bytes segment = Build(fields, {1, 2, 3, 4, 5});
  TcpSegment out;
  ASSERT_EQ(Parse(segment, out), RxVerdict::kAccept);
  for (size_t bit = 0; bit < 8 * segment.size(); ++bit) {
    segment[bit / 8] ^= 1 << (bit % 8);
    EXPECT_NE(Parse(segment, out), RxVerdict::kAccept) << bit;
    segment[bit / 8] ^= 1 << (bit % 8);
  }
  segment.back() ^= 1;
  EXPECT_EQ(Parse(segment, out), RxVerdict::kBadTcpChecksum);
  EXPECT_EQ(ParseTcp(ViewOf(segment, kSrc4, kDst4), true, out),
            RxVerdict::kAccept);
  segment.back() ^= 1;
  // Another address.
  EXPECT_EQ(ParseTcp(ViewOf(segment, kSrc4, Gid::FromIpv4(1)), false, out),
            RxVerdict::kBadTcpChecksum);
}

TEST(TcpTest, AFrameWithASegmentIsReadWithoutItsPadding) {
  for (const bool ipv6 : {false, true}) {
    const Gid src = ipv6 ? Ipv6Address(1) : kSrc4;
    const Gid dst = ipv6 ? Ipv6Address(2) : kDst4;
    Bytes segment = Build(SomeFields(), {9});
    StoreChecksum(segment, src, dst);
    Bytes frame(100);
    Appender out(frame.data());
    AppendLink(MacAddress(), std::nullopt, MacAddress(),
               ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4, out);
    if (ipv6) {
      AppendIpv6(src, dst, kIpProtocolTcp, 64, segment.size(), out);
    } else {
      Ipv4 ip;
      ip.total_length =
          Be<uint16_t>(static_cast<uint16_t>(sizeof(ip) + segment.size()));
      ip.protocol = kIpProtocolTcp;
      ip.src = Be<uint32_t>(src.ipv4());
      ip.dst = Be<uint32_t>(dst.ipv4());
      ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
      out.Append(ip);
    }
    out.AppendBytes(segment);
    FrameView view;
    TcpSegment parsed;
    ASSERT_EQ(ParseFrame(frame.data(), frame.size(), view), RxVerdict::kTcp);
    ASSERT_EQ(ParseTcp(view, false, parsed), RxVerdict::kAccept);
    EXPECT_EQ(parsed.payload.size(), 1u);
    EXPECT_EQ(parsed.payload[0], 9);
  }
}

//= RFC 9293 3.4
TEST(TcpTest, SynAndFinOccupyASequenceNumber) {
  TcpSegment segment;
  segment.seq = SeqNum(0xffffffff);
  EXPECT_EQ(segment.seq_bytes(), 0u);
  segment.flags = kTcpSyn;
  EXPECT_EQ(segment.end(), SeqNum(0));
  segment.flags = kTcpFin | kTcpAck;
  const Bytes payload(10);
  segment.payload = payload;
  EXPECT_EQ(segment.seq_bytes(), 11u);
  EXPECT_EQ(segment.end(), SeqNum(10));
}

TEST(TcpTest, CongestionIsReadFromTheIpHeader) {
  const Bytes segment = Build(SomeFields());
  FrameView view = ViewOf(segment, kSrc4, kDst4);
  TcpSegment out;
  ASSERT_EQ(ParseTcp(view, false, out), RxVerdict::kAccept);
  EXPECT_FALSE(out.congestion_experienced);
  view.tos = 0x03;
  ASSERT_EQ(ParseTcp(view, false, out), RxVerdict::kAccept);
  EXPECT_TRUE(out.congestion_experienced);
}

//= RFC 9293 3.2
//= RFC 7323 2.2, 3.2
TEST(TcpOptionsTest, AllKindsAreReadInAnyOrder) {
  const TcpOptions options =
      OptionsOf({3,   3,  14,                            // shift
                 8,   10, 0,    0,    0, 9, 0, 0, 1, 0,  // ts
                 4,   2,                                 // SACK
                 253, 4,  0x75, 0x72,                    // ours
                 2,   4,  0x05, 0xb4, 0});               // MSS
  EXPECT_EQ(options.mss, 1460);
  EXPECT_EQ(options.window_shift, 14);
  EXPECT_TRUE(options.sack_permitted);
  EXPECT_EQ(options.timestamps, (TcpTimestamps{9, 256}));
  EXPECT_TRUE(options.urnic);
}

//= RFC 2018 3
TEST(TcpOptionsTest, UpToFourSackBlocksAreRead) {
  for (uint8_t count = 1; count <= 4; ++count) {
    Bytes bytes = {1, 1, 5, static_cast<uint8_t>(2 + 8 * count)};
    for (uint8_t i = 0; i < count; ++i) {
      bytes.insert(bytes.end(), {0xff, 0, 0, i, 0, 1, 0, i});
    }
    const TcpOptions options = OptionsOf(bytes);
    ASSERT_EQ(options.sack_count, count);
    for (uint8_t i = 0; i < count; ++i) {
      EXPECT_EQ(options.sack[i],
                (SackBlock{SeqNum(0xff000000u + i), SeqNum(0x00010000u + i)}));
    }
  }
}

//= RFC 6994 3
TEST(TcpOptionsTest, OnlyOurExperimentIsOurs) {
  EXPECT_TRUE(OptionsOf({253, 4, 0x75, 0x72}).urnic);
  EXPECT_TRUE(OptionsOf({254, 4, 0x75, 0x72}).urnic);
  EXPECT_FALSE(OptionsOf({253, 4, 0x75, 0x73}).urnic);
  EXPECT_FALSE(OptionsOf({252, 4, 0x75, 0x72}).urnic);
  EXPECT_FALSE(OptionsOf({253, 6, 0x75, 0x72, 0, 0, 0, 0}).urnic);
  // Another experiment after ours.
  EXPECT_TRUE(OptionsOf({253, 4, 0x75, 0x72, 253, 4, 1, 1}).urnic);
}

//= RFC 9293 3.2
TEST(TcpOptionsTest, AnImpossibleLengthEndsTheList) {
  const Bytes mss = {2, 4, 5, 0xb4};
  for (const uint8_t kind : {2, 3, 4, 5, 8, 253, 77}) {
    for (const uint8_t length : {0, 1, 9, 41, 255}) {
      Bytes bytes = mss;
      bytes.insert(bytes.end(), {kind, length, 1, 1});
      bytes.insert(bytes.end(), {4, 2, 1, 1});
      const TcpOptions options = OptionsOf(bytes);
      EXPECT_EQ(options.mss, 1460);
      EXPECT_FALSE(options.sack_permitted);
      EXPECT_EQ(options.sack_count, 0);
    }
    // No room for its length.
    ExpectNone(OptionsOf({1, 1, 1, kind}));
  }
}

//= RFC 9293 3.2
TEST(TcpOptionsTest, AnOptionThatEndsAfterTheHeaderIsIgnored) {
  ExpectNone(OptionsOf({2, 5, 5, 0xb4}));
  ExpectNone(OptionsOf({1, 3, 4, 7}));
  ExpectNone(OptionsOf({1, 1, 4, 3}));
  ExpectNone(OptionsOf({1, 1, 8, 11, 0, 0, 0, 1, 0, 0, 0, 2}));
  ExpectNone(OptionsOf({1, 1, 5, 11, 0, 0, 0, 1, 0, 0, 0, 2}));
  ExpectNone(OptionsOf({253, 5, 0x75, 0x72}));
}

//= RFC 9293 3.2
TEST(TcpOptionsTest, UnknownKindsAreSkipped) {
  const TcpOptions options = OptionsOf({77, 5, 1, 2, 3, 2, 4, 1, 2, 34, 2, 1});
  EXPECT_EQ(options.mss, 0x0102);
  EXPECT_FALSE(options.sack_permitted);
}

TEST(TcpOptionsTest, AKnownKindOfAnotherSizeIsSkipped) {
  for (const uint8_t kind : {2, 3, 4, 5, 8, 253}) {
    for (uint8_t length = 2; length <= 38; ++length) {
      const bool right = (kind == 2 && length == 4) ||
                         (kind == 3 && length == 3) ||
                         (kind == 4 && length == 2) ||
                         (kind == 5 && length > 2 && length % 8 == 2) ||
                         (kind == 8 && length == 10);
      if (right) continue;
      Bytes bytes(length);
      bytes[0] = kind, bytes[1] = length;
      // What follows is read: the list goes on.
      const uint8_t next = kind == 2 ? 4 : 2;
      bytes.insert(bytes.end(), {next, static_cast<uint8_t>(6 - next)});
      if (next == 2) bytes.insert(bytes.end(), {0, 1});
      if (bytes.size() > kTcpMaxOptionBytes) continue;
      bytes.resize((bytes.size() + 3) / 4 * 4);
      const TcpOptions options = OptionsOf(bytes);
      SCOPED_TRACE(::testing::Message() << int{kind} << " " << int{length});
      EXPECT_EQ(options.mss.has_value(), next == 2);
      EXPECT_FALSE(options.window_shift);
      EXPECT_EQ(options.sack_permitted, next == 4);
      EXPECT_FALSE(options.timestamps);
      EXPECT_EQ(options.sack_count, 0);
    }
  }
}

TEST(TcpOptionsTest, FiveSackBlocksCannotBeInAHeader) {
  Bytes bytes(40, 1);
  bytes[0] = 5, bytes[1] = 42;
  ExpectNone(OptionsOf(bytes));
}

TEST(TcpOptionsTest, AHeaderOfPaddingHasNoOptions) {
  ExpectNone(OptionsOf(Bytes(40, 1)));
  ExpectNone(OptionsOf(Bytes(40, 0)));
  // Nothing counts after the end of the list.
  ExpectNone(OptionsOf({0, 2, 4, 2, 2, 4, 2, 1}));
  // An option in the last bytes.
  Bytes bytes(40, 1);
  bytes[38] = 4, bytes[39] = 2;
  EXPECT_TRUE(OptionsOf(bytes).sack_permitted);
}

TEST(TcpOptionsTest, OfARepeatedOptionTheLastCounts) {
  EXPECT_EQ(OptionsOf({2, 4, 1, 1, 2, 4, 2, 2}).mss, 0x0202);
  Bytes bytes = {5, 18};
  bytes.resize(18, 9);
  bytes.insert(bytes.end(), {5, 10, 0, 0, 0, 1, 0, 0, 0, 2});
  const TcpOptions options = OptionsOf(bytes);
  ASSERT_EQ(options.sack_count, 1);
  EXPECT_EQ(options.sack[0], (SackBlock{SeqNum(1), SeqNum(2)}));
}

TEST(TcpOptionsTest, SackBlocksThatDoNotFitAreLeftOut) {
  TcpFields fields = SomeFields();
  for (uint32_t i = 0; i < 4; ++i) {
    fields.options.sack[i] = {SeqNum(2 * i), SeqNum(2 * i + 1)};
  }
  fields.options.sack_count = 4;
  TcpSegment out;
  const auto count = [&] {
    EXPECT_LE(TcpHeaderBytes(fields.options), kTcpMaxHeaderBytes);
    const Bytes segment = Build(fields);
    EXPECT_EQ(Parse(segment, out), RxVerdict::kAccept);
    EXPECT_EQ(out.options.sack[0], fields.options.sack[0]);
    return int{out.options.sack_count};
  };
  EXPECT_EQ(count(), 4);
  fields.options.timestamps = {1, 2};
  EXPECT_EQ(count(), 3);
  fields.options.urnic = true;
  EXPECT_EQ(count(), 2);
  fields.options.mss = 1460;
  fields.options.window_shift = 7;
  fields.options.sack_permitted = true;
  EXPECT_EQ(count(), 1);
}

TcpOptions RandomOptions(Random& random) {
  TcpOptions options;
  if (random.OneIn(2)) options.mss = static_cast<uint16_t>(random.Next());
  if (random.OneIn(2)) options.window_shift = random.Byte();
  options.sack_permitted = random.OneIn(2);
  options.urnic = random.OneIn(2);
  if (random.OneIn(2)) {
    options.timestamps = {static_cast<uint32_t>(random.Next()),
                          static_cast<uint32_t>(random.Next())};
  }
  if (random.OneIn(2)) {
    options.sack_count = static_cast<uint8_t>(random.Below(5));
  }
  for (SackBlock& block : options.sack) {
    block = {SeqNum(static_cast<uint32_t>(random.Next())),
             SeqNum(static_cast<uint32_t>(random.Next()))};
  }
  return options;
}

TEST(TcpOptionsTest, WhatIsWrittenIsReadAgain) {
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    TcpFields fields = SomeFields();
    fields.options = RandomOptions(random);
    const uint32_t bytes = TcpHeaderBytes(fields.options);
    ASSERT_EQ(bytes % 4, 0u);
    ASSERT_LE(bytes, kTcpMaxHeaderBytes);
    TcpSegment out;
    const Bytes segment = Build(fields, Bytes(random.Below(9)));
    ASSERT_EQ(Parse(segment, out), RxVerdict::kAccept);
    EXPECT_EQ(out.payload.size(), segment.size() - bytes);
    TcpOptions expected = fields.options;
    ASSERT_LE(out.options.sack_count, expected.sack_count);
    // Another block would not have found room.
    EXPECT_TRUE(out.options.sack_count == expected.sack_count ||
                bytes + 8 > kTcpMaxHeaderBytes);
    expected.sack_count = out.options.sack_count;
    ExpectSame(out.options, expected);
  }
}

TEST(TcpOptionsTest, AnyBytesAreAccepted) {
  Random random(2);
  constexpr uint8_t kLikely[] = {0, 1, 2, 3, 4, 5, 8, 10, 18, 253, 254};
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(4 * random.Below(11));
    for (uint8_t& byte : bytes) {
      byte = random.OneIn(4) ? random.Byte()
                             : kLikely[random.Below(std::size(kLikely))];
    }
    EXPECT_LE(OptionsOf(bytes).sack_count, kMaxSackBlocks);
  }
}

}  // namespace
}  // namespace urnic::wire
