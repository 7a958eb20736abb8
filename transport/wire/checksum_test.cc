#include "transport/wire/checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;

//= RFC 1071 1, 2: the standard's example: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2
TEST(ChecksumTest, ComputesTheExampleOfTheRfc) {
  const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(ChecksumReference(bytes), 0x220d);
  EXPECT_EQ(Checksum(bytes), 0x220d);
}

TEST(ChecksumTest, FastAgreesWithTheReferenceAtEveryLengthAndAlignment) {
  Random random(1);
  std::vector<uint8_t> bytes(300);
  for (size_t length = 0; length < 290; ++length) {
    for (uint8_t& b : bytes) b = random.OneIn(3) ? 0xff : random.Byte();
    const std::span<const uint8_t> part(&bytes[length % 8], length);
    ASSERT_EQ(Checksum(part), ChecksumReference(part)) << length;
  }
}

TEST(ChecksumTest, AllOnesDoNotOverflowTheSum) {
  const std::vector<uint8_t> ones(65536, 0xff);
  EXPECT_EQ(Checksum(ones), ChecksumReference(ones));
}

//= RFC 8200 8.1
TEST(ChecksumTest, OverIpv6ItStartsWithAPseudoHeader) {
  Gid src, dst;
  std::vector<uint8_t> all;
  for (uint8_t i = 0; i < 16; ++i) all.push_back(src.bytes[i] = 0xe0 + i);
  for (uint8_t i = 0; i < 16; ++i) all.push_back(dst.bytes[i] = 0x7f - i);
  const std::vector<uint8_t> message(0x123, 0xab);
  for (const uint8_t byte : {0, 0, 1, 0x23, 0, 0, 0, 58}) all.push_back(byte);
  all.insert(all.end(), message.begin(), message.end());
  EXPECT_EQ(Ipv6UpperChecksum(src, dst, 58, message), ChecksumReference(all));
}

TEST(ChecksumTest, PiecesSumToTheWhole) {
  Random random(2);
  std::vector<uint8_t> bytes(64);
  for (uint8_t& b : bytes) b = random.Byte();
  const std::span<const uint8_t> all(bytes);
  for (size_t cut = 0; cut <= bytes.size(); cut += 2) {
    EXPECT_EQ(ChecksumSum().Add(all.first(cut)).Add(all.subspan(cut)).Finish(),
              Checksum(all));
  }
}

TEST(ChecksumTest, Ipv4CheckAgreesWithTheReference) {
  Random random(3);
  for (int i = 0; i < 10000; ++i) {
    uint8_t bytes[sizeof(Ipv4)];
    for (uint8_t& b : bytes) b = random.OneIn(2) ? 0xff : random.Byte();
    bytes[0] = 0x45;
    Ipv4 ip;
    std::memcpy(static_cast<void*>(&ip), bytes, sizeof(ip));
    if (random.OneIn(2)) {
      ip.checksum = Be<uint16_t>(0);
      ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
    }
    std::memcpy(bytes, &ip, sizeof(ip));
    ASSERT_EQ(Ipv4ChecksumHolds(ip), ChecksumReference(bytes) == 0);
  }
}

TEST(ChecksumTest, ACorrectMessageSumsToZero) {
  Ipv4 ip;
  ip.ttl = 64;
  ip.src = Be<uint32_t>(0x0a070001);
  ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(ip).Finish());
  EXPECT_EQ(ChecksumSum().AddHeader(ip).Finish(), 0);
  ip.ttl = 63;
  EXPECT_NE(ChecksumSum().AddHeader(ip).Finish(), 0);
}

}  // namespace
}  // namespace urnic::wire
