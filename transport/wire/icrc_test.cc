#include "transport/wire/icrc.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "tests/support/random.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::Random;

constexpr Framing kFramings[] = {Framing::kIpv4, Framing::kIpv6, Framing::kGrh};

// Random content from the IP header on, except for the version.
std::vector<uint8_t> RandomPacket(Random& random, Framing framing,
                                  size_t bytes) {
  const size_t headers = BytesBeforeBth(framing);
  std::vector<uint8_t> packet(headers + bytes + kIcrcBytes);
  for (uint8_t& b : packet) b = random.Byte();
  packet[0] = static_cast<uint8_t>(
      framing == Framing::kIpv4 ? 0x45 : 0x60 | (packet[0] & 0x0f));
  return packet;
}

uint32_t FastIcrc(const std::vector<uint8_t>& packet, Framing framing) {
  const size_t headers = BytesBeforeBth(framing);
  return IcrcFinish(IcrcExtend(IcrcPrefix(packet.data(), framing),
                               packet.data() + headers,
                               packet.size() - headers - kIcrcBytes));
}

uint32_t SlowIcrc(const std::vector<uint8_t>& packet, Framing framing) {
  return IcrcReference({packet.data(), packet.size() - kIcrcBytes}, framing);
}

TEST(IcrcTest, FastAgreesWithTheReferenceAtEveryLength) {
  Random random(1);
  for (size_t bytes = 12; bytes <= 4200; bytes += bytes < 700 ? 4 : 92) {
    for (const Framing framing : kFramings) {
      std::vector<uint8_t> packet = RandomPacket(random, framing, bytes);
      const uint32_t expected = SlowIcrc(packet, framing);
      ASSERT_EQ(FastIcrc(packet, framing), expected)
          << bytes << " " << static_cast<int>(framing);

      const size_t roce_bytes = bytes + kIcrcBytes;
      EXPECT_FALSE(VerifyIcrc(packet.data(), framing, roce_bytes));
      std::memcpy(&packet[packet.size() - kIcrcBytes], &expected, kIcrcBytes);
      EXPECT_TRUE(VerifyIcrc(packet.data(), framing, roce_bytes)) << bytes;
      const size_t headers = BytesBeforeBth(framing);
      EXPECT_TRUE(VerifyIcrcAfter(IcrcPrefix(packet.data(), framing),
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

// Bytes that routers may change must not matter; all others must.
void CheckMasks(Framing framing, std::initializer_list<size_t> masked_bytes) {
  Random random(2);
  std::vector<uint8_t> packet = RandomPacket(random, framing, 36);
  const uint32_t expected = SlowIcrc(packet, framing);
  for (size_t at = 1; at < packet.size() - kIcrcBytes; ++at) {
    bool masked = false;
    for (const size_t m : masked_bytes) masked |= m == at;
    packet[at] ^= 0xff;
    EXPECT_EQ(SlowIcrc(packet, framing) == expected, masked) << "byte " << at;
    EXPECT_EQ(FastIcrc(packet, framing) == expected, masked) << "byte " << at;
    packet[at] ^= 0xff;
  }
}

//= IBTA 7.8.1, A17.3.4
TEST(IcrcTest, Ipv4MasksTosTtlChecksumsAndTheCongestionBits) {
  CheckMasks(Framing::kIpv4, {1, 8, 10, 11, 26, 27, 32});
}

//= IBTA 7.8.1, A16.5
TEST(IcrcTest, GrhMasksClassFlowHopLimitAndTheReservedBits) {
  CheckMasks(Framing::kGrh, {1, 2, 3, 7, 44});
}

//= IBTA 7.8.1, A17.3.4
TEST(IcrcTest, Ipv6MasksClassFlowHopLimitChecksumAndTheCongestionBits) {
  CheckMasks(Framing::kIpv6, {1, 2, 3, 7, 46, 47, 52});
  Random random(3);
  for (const Framing framing : {Framing::kIpv6, Framing::kGrh}) {
    std::vector<uint8_t> packet = RandomPacket(random, framing, 36);
    const uint32_t expected = SlowIcrc(packet, framing);
    packet[0] ^= 0x0f;  // the first half of the traffic class
    EXPECT_EQ(SlowIcrc(packet, framing), expected);
    EXPECT_EQ(FastIcrc(packet, framing), expected);
  }
}

TEST(IcrcTest, ImpossibleLengthsAreRefused) {
  const std::vector<uint8_t> bytes(200);
  for (const size_t length : {0, 4, 12, 13, 17, 18, 19, 21}) {
    EXPECT_FALSE(VerifyIcrc(bytes.data(), Framing::kIpv4, length)) << length;
  }
}

}  // namespace
}  // namespace urnic::wire
