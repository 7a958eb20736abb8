#include "transport/wire/mpa.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/random.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;
using Bytes = std::vector<uint8_t>;

Bytes Stored(const Bytes& message) {
  Bytes field(kFpduCrcBytes);
  const Crc32c crc = Crc32c().Add(message);
  crc.Store(field.data());
  EXPECT_TRUE(crc.Matches(field.data()));
  field[3] ^= 0x80;
  EXPECT_FALSE(crc.Matches(field.data()));
  field[3] ^= 0x80;
  return field;
}

// The examples of the iSCSI standard, which MPA refers to.
//= RFC 5044 4.4
TEST(Crc32cTest, IsThatOfIscsi) {
  Bytes up(32), down(32);
  for (uint8_t i = 0; i < 32; ++i) up[i] = i, down[i] = 31 - i;
  EXPECT_EQ(Stored(Bytes(32)), (Bytes{0xaa, 0x36, 0x91, 0x8a}));
  EXPECT_EQ(Stored(Bytes(32, 0xff)), (Bytes{0x43, 0xab, 0xa8, 0x62}));
  EXPECT_EQ(Stored(up), (Bytes{0x4e, 0x79, 0xdd, 0x46}));
  EXPECT_EQ(Stored(down), (Bytes{0x5c, 0xdb, 0x3f, 0x11}));
  EXPECT_EQ(Crc32c().value(), 0u);
}

TEST(Crc32cTest, PiecesGiveWhatTheWholeGives) {
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Bytes message(random.Below(2000));
    for (uint8_t& byte : message) byte = random.Byte();
    Crc32c pieces;
    std::span<const uint8_t> rest(message);
    while (!rest.empty()) {
      const size_t bytes = random.Below(rest.size() + 1);
      pieces.Add(rest.first(bytes));
      rest = rest.subspan(bytes);
    }
    EXPECT_EQ(pieces.value(), Crc32c().Add(message).value());
  }
}

TEST(Crc32cTest, ACopyHasTheBytesAndNoMore) {
  Random random(2);
  for (size_t bytes = 0; bytes < 300; ++bytes) {
    Bytes message(bytes);
    for (uint8_t& byte : message) byte = random.Byte();
    Bytes copy(bytes + 8, 0x55);
    EXPECT_EQ(Crc32c().AddCopied(copy.data(), message).value(),
              Crc32c().Add(message).value());
    message.resize(bytes + 8, 0x55);
    EXPECT_EQ(copy, message);
  }
}

//= RFC 5044 4.1
TEST(FpduTest, LengthPayloadAndPaddingAreAMultipleOfFour) {
  EXPECT_EQ(FpduPadBytes(0), 2u);
  EXPECT_EQ(FpduPadBytes(1), 1u);
  EXPECT_EQ(FpduPadBytes(2), 0u);
  EXPECT_EQ(FpduPadBytes(3), 3u);
  EXPECT_EQ(FpduBytes(0), 8u);
  EXPECT_EQ(FpduBytes(14), 20u);
  for (uint32_t bytes = 0; bytes <= kMaxUlpduBytes; ++bytes) {
    ASSERT_EQ(FpduBytes(bytes) % 4, 0u);
    ASSERT_LT(FpduBytes(bytes) - bytes, 10u);
  }
}

//= RFC 5044 7.1.1
TEST(MpaFrameTest, RequestsAndRepliesDifferInTheKey) {
  MpaFrame request = MpaFrame::Request();
  EXPECT_EQ(std::string(reinterpret_cast<char*>(request.key), 16),
            "MPA ID Req Frame");
  EXPECT_TRUE(request.is_request());
  EXPECT_FALSE(request.is_reply());
  const MpaFrame reply = MpaFrame::Reply();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(reply.key), 16),
            "MPA ID Rep Frame");
  EXPECT_TRUE(reply.is_reply());
  EXPECT_FALSE(reply.is_request());
  request.key[15] ^= 1;
  EXPECT_FALSE(request.is_request());
  EXPECT_FALSE(MpaFrame().is_request());
}

//= RFC 6581 9, 9.1
TEST(MpaEnhancedTest, DepthsAreBelowTheFlags) {
  MpaEnhanced enhanced;
  enhanced.ird_flags = Be<uint16_t>(MpaEnhanced::kPeerToPeer | 7);
  enhanced.ord_flags =
      Be<uint16_t>(MpaEnhanced::kRtrWrite | MpaEnhanced::kRtrRead | 0x3fff);
  EXPECT_EQ(enhanced.ird(), 7u);
  EXPECT_EQ(enhanced.ord(), MpaEnhanced::kDepthNotNegotiated);
}

}  // namespace
}  // namespace urnic::wire
