#include "transport/wire/icrc.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace urnic::wire {
namespace {

// Random frames from the IP header on, with what the masks must hide varied.
std::vector<uint8_t> RandomPacket(std::mt19937& random, bool ipv6,
                                  size_t bytes) {
  const size_t headers = ipv6 ? kIpv6UdpBytes : kIpv4UdpBytes;
  std::vector<uint8_t> packet(headers + bytes + kIcrcBytes);
  for (uint8_t& b : packet) b = static_cast<uint8_t>(random());
  packet[0] = static_cast<uint8_t>(ipv6 ? 0x60 | (packet[0] & 0x0f) : 0x45);
  return packet;
}

TEST(IcrcTest, FastAgreesWithTheReferenceAtEveryLength) {
  std::mt19937 random(1);
  for (size_t bytes = 12; bytes <= 600; bytes += 4) {
    for (const bool ipv6 : {false, true}) {
      std::vector<uint8_t> packet = RandomPacket(random, ipv6, bytes);
      const size_t headers = ipv6 ? kIpv6UdpBytes : kIpv4UdpBytes;
      const uint32_t expected =
          IcrcReference({packet.data(), packet.size() - kIcrcBytes});
      const uint32_t state = IcrcExtend(IcrcPrefix(packet.data(), ipv6),
                                        packet.data() + headers, bytes);
      ASSERT_EQ(IcrcFinish(state), expected) << bytes << " ipv6 " << ipv6;
      StoreIcrc(packet.data() + headers + bytes, state);
      EXPECT_TRUE(VerifyIcrc(packet.data(), ipv6, bytes + kIcrcBytes));
    }
  }
}

}  // namespace
}  // namespace urnic::wire
