#include "transport/iwarp/rdmap/terminate.h"

#include <gtest/gtest.h>

#include <vector>

namespace urnic::rdmap {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes FromHex(const char* text) {
  Bytes bytes;
  int high = -1;
  for (; *text != 0; ++text) {
    if (*text == ' ') continue;
    const int digit = *text <= '9' ? *text - '0' : *text - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<uint8_t>(high << 4 | digit));
      high = -1;
    }
  }
  return bytes;
}

// A Terminate about the ULPDU, and what it says.
Bytes Built(const ddp::StreamError& error, const Bytes& ulpdu) {
  ddp::ReceivedSegment segment;
  const std::span<const uint8_t> piece(ulpdu);
  (void)ddp::ParseSegment({&piece, 1}, segment);
  Bytes out(kMaxTerminateBytes);
  out.resize(BuildTerminate(error, &segment, out.data()));
  return out;
}

Terminate Parsed(const Bytes& payload) {
  Terminate terminate;
  EXPECT_TRUE(ParseTerminate(payload, terminate));
  return terminate;
}

const Bytes kReadRequest = FromHex(
    "4141 00000000 00000001 00000005 00000000"
    "01020304 0000000000001000 00000040 0a0b0c0d 0000000000002000");
const Bytes kWrite = FromHex("c140 0a0b0c0d 0000000000003000 aabbccdd");

//= RFC 5040 4.8
TEST(TerminateTest, AReadRequestIsCopiedWhole) {
  const Bytes built = Built(ddp::kSourceStag, kReadRequest);
  EXPECT_EQ(Bytes(built.begin(), built.begin() + 6), FromHex("0100e000 002e"));
  EXPECT_EQ(Bytes(built.begin() + 6, built.end()), kReadRequest);
  const Terminate parsed = Parsed(built);
  EXPECT_EQ(parsed.error, ddp::kSourceStag);
  ASSERT_TRUE(parsed.has_header && parsed.has_read_request);
  EXPECT_EQ(parsed.segment.queue, 1u);
  EXPECT_EQ(parsed.segment.msn, 5u);
  EXPECT_EQ(parsed.read_request.source_stag.value(), 0x0a0b0c0du);
  EXPECT_EQ(parsed.read_request.source_offset.value(), 0x2000u);
}

//= RFC 5040 4.8
TEST(TerminateTest, OfAWriteOnlyTheDdpHeaderIsCopied) {
  const Bytes built = Built(ddp::kBounds, kWrite);
  EXPECT_EQ(built, FromHex("1101c000 0012 c140 0a0b0c0d 0000000000003000"));
  const Terminate parsed = Parsed(built);
  EXPECT_EQ(parsed.error, ddp::kBounds);
  ASSERT_TRUE(parsed.has_header);
  EXPECT_FALSE(parsed.has_read_request);
  EXPECT_EQ(parsed.segment.stag, 0x0a0b0c0du);
  EXPECT_EQ(parsed.segment.offset, 0x3000u);
}

//= RFC 5040 4.8
TEST(TerminateTest, ErrorsOfDdpDoNotCopyTheReadRequest) {
  const Bytes built = Built(ddp::kMsnRange, kReadRequest);
  EXPECT_EQ(built.size(), 4u + 2 + 18);
  EXPECT_EQ(built[2], 0xc0);
}

//= RFC 5040 4.8
TEST(TerminateTest, LocalErrorsCopyNothing) {
  EXPECT_EQ(Built(ddp::kDdpCatastrophic, kWrite), FromHex("10000000"));
  EXPECT_EQ(Built({ddp::kMpaLayer, 0, 2}, kWrite), FromHex("20020000"));
  EXPECT_EQ(Built(ddp::kSourceStag, FromHex("41")), FromHex("01000000"))
      << "no header to copy";
  const Terminate parsed = Parsed(FromHex("20020000"));
  EXPECT_EQ(parsed.error, (ddp::StreamError{2, 0, 2}));
  EXPECT_FALSE(parsed.has_header);
}

// What Linux siw sent in the captures siw_term_*.pcap.
TEST(TerminateTest, TheBitsOfSiwAreUnderstood) {
  const Terminate read = Parsed(
      FromHex("10000700 0000 4141 00000000 00000001 00000040 00000000"
              "3e9a6300 000000003ec53000 00000040 d655ab00 000000002be62000"));
  EXPECT_EQ(read.error, ddp::kSourceStag);
  ASSERT_TRUE(read.has_header && read.has_read_request);
  EXPECT_EQ(read.read_request.source_stag.value(), 0xd655ab00u);
  EXPECT_EQ(read.read_request.source_offset.value(), 0x2be62000u);

  const Terminate write =
      Parsed(FromHex("11000300 0040 c140 6be41f00 0000000035ebe000"));
  EXPECT_EQ(write.error, ddp::kInvalidStag);
  ASSERT_TRUE(write.has_header);
  EXPECT_EQ(write.segment.stag, 0x6be41f00u);

  const Terminate send =
      Parsed(FromHex("21020300 0040 4143 00000000 00000000 00000003 00000000"));
  EXPECT_EQ(send.error, ddp::kNoBuffer);
  ASSERT_TRUE(send.has_header);
  EXPECT_EQ(send.segment.msn, 3u);
}

TEST(TerminateTest, WithoutCopiesTheErrorTellsTheLayout) {
  EXPECT_EQ(Parsed(FromHex("02060000")).error, ddp::kUnexpectedOpcode);
  EXPECT_EQ(Parsed(FromHex("20060000")).error, (ddp::StreamError{2, 0, 6}));
  EXPECT_EQ(Parsed(FromHex("02020000")).error, (ddp::StreamError{2, 0, 2}));
  EXPECT_EQ(Parsed(FromHex("21050000")).error, ddp::kTooLong);
  EXPECT_EQ(Parsed(FromHex("33330000")).error, (ddp::StreamError{3, 3, 0x33}));
}

TEST(TerminateTest, ACopyThatIsCutShortIsLeftOut) {
  const Bytes whole = Built(ddp::kSourceBounds, kReadRequest);
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<long>(bytes));
    Terminate terminate;
    ASSERT_EQ(ParseTerminate(part, terminate), bytes >= 4);
    if (bytes < 4) continue;
    EXPECT_EQ(terminate.error, ddp::kSourceBounds);
    EXPECT_EQ(terminate.has_header, bytes >= 4 + 2 + 18);
    EXPECT_EQ(terminate.has_read_request, bytes >= 4 + 2 + 18 + 28);
  }
}

}  // namespace
}  // namespace urnic::rdmap
