#include "transport/wire/icrc.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "tests/support/random.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;

// A packet from the IP header on with random content, but for the version.
std::vector<uint8_t> RandomPacket(Random& random, bool ipv6, size_t bytes) {
  const size_t headers = ipv6 ? kIpv6UdpBytes : kIpv4UdpBytes;
  std::vector<uint8_t> packet(headers + bytes + kIcrcBytes);
  for (uint8_t& b : packet) b = random.Byte();
  packet[0] = static_cast<uint8_t>(ipv6 ? 0x60 | (packet[0] & 0x0f) : 0x45);
  return packet;
}

uint32_t FastIcrc(const std::vector<uint8_t>& packet, bool ipv6) {
  const size_t headers = ipv6 ? kIpv6UdpBytes : kIpv4UdpBytes;
  return IcrcFinish(IcrcExtend(IcrcPrefix(packet.data(), ipv6),
                               packet.data() + headers,
                               packet.size() - headers - kIcrcBytes));
}

uint32_t SlowIcrc(const std::vector<uint8_t>& packet) {
  return IcrcReference({packet.data(), packet.size() - kIcrcBytes});
}

TEST(IcrcTest, FastAgreesWithTheReferenceAtEveryLength) {
  Random random(1);
  for (size_t bytes = 12; bytes <= 4200; bytes += bytes < 700 ? 4 : 92) {
    for (const bool ipv6 : {false, true}) {
      std::vector<uint8_t> packet = RandomPacket(random, ipv6, bytes);
      const uint32_t expected = SlowIcrc(packet);
      ASSERT_EQ(FastIcrc(packet, ipv6), expected) << bytes << " " << ipv6;

      const size_t roce_bytes = bytes + kIcrcBytes;
      EXPECT_FALSE(VerifyIcrc(packet.data(), ipv6, roce_bytes));
      std::memcpy(&packet[packet.size() - kIcrcBytes], &expected, kIcrcBytes);
      EXPECT_TRUE(VerifyIcrc(packet.data(), ipv6, roce_bytes)) << bytes;
      const size_t headers = ipv6 ? kIpv6UdpBytes : kIpv4UdpBytes;
      EXPECT_TRUE(VerifyIcrcAfter(IcrcPrefix(packet.data(), ipv6),
                                  &packet[headers], roce_bytes));
    }
  }
}

TEST(IcrcTest, StoredBytesAreTheNumberLeastSignificantFirst) {
  uint8_t field[4];
  StoreIcrc(field, ~uint32_t{0x04030201});
  EXPECT_EQ(field[0], 1);
  EXPECT_EQ(field[3], 4);
}

// Whatever routers may change must not matter, everything else must.
void CheckMasks(bool ipv6, std::initializer_list<size_t> masked_bytes) {
  Random random(2);
  std::vector<uint8_t> packet = RandomPacket(random, ipv6, 36);
  const uint32_t expected = SlowIcrc(packet);
  for (size_t at = 1; at < packet.size() - kIcrcBytes; ++at) {
    bool masked = false;
    for (const size_t m : masked_bytes) masked |= m == at;
    packet[at] ^= 0xff;
    EXPECT_EQ(SlowIcrc(packet) == expected, masked) << "byte " << at;
    EXPECT_EQ(FastIcrc(packet, ipv6) == expected, masked) << "byte " << at;
    packet[at] ^= 0xff;
  }
}

TEST(IcrcTest, Ipv4MasksTosTtlChecksumsAndTheCongestionBits) {
  CheckMasks(false, {1, 8, 10, 11, 26, 27, 32});
}

TEST(IcrcTest, Ipv6MasksClassFlowHopLimitChecksumAndTheCongestionBits) {
  CheckMasks(true, {1, 2, 3, 7, 46, 47, 52});
  Random random(3);
  std::vector<uint8_t> packet = RandomPacket(random, true, 36);
  const uint32_t expected = SlowIcrc(packet);
  packet[0] ^= 0x0f;  // the first half of the traffic class
  EXPECT_EQ(SlowIcrc(packet), expected);
  EXPECT_EQ(FastIcrc(packet, true), expected);
}

TEST(IcrcTest, LengthsThatCannotBeAreRefused) {
  const std::vector<uint8_t> bytes(200);
  for (const size_t length : {0, 4, 12, 13, 17, 18, 19, 21}) {
    EXPECT_FALSE(VerifyIcrc(bytes.data(), false, length)) << length;
  }
}

}  // namespace
}  // namespace urnic::wire
