#include "transport/cc/fixed_packets.h"

#include <gtest/gtest.h>

#include "transport/base/random.h"

namespace urnic::cc {
namespace {

TEST(FixedPacketsTest, ACubeRootIsTheLargestWhoseCubeIsNotLarger) {
  Random random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto wide = static_cast<unsigned __int128>(random.Next() >> 32) << 64;
    const unsigned __int128 cube = (wide | random.Next()) >> random.Below(96);
    const auto root = static_cast<unsigned __int128>(CubeRoot(cube));
    ASSERT_LE(root * root * root, cube);
    ASSERT_TRUE((root + 1) * (root + 1) * (root + 1) > cube);
  }
}

TEST(FixedPacketsTest, TheCubeRootsOfCubesAreExact) {
  for (uint64_t n = 0; n < 3000; ++n) {
    EXPECT_EQ(CubeRoot(static_cast<unsigned __int128>(n) * n * n), n);
  }
  EXPECT_EQ(CubeRoot((static_cast<unsigned __int128>(1) << 96) - 1),
            UINT32_MAX);
}

TEST(FixedPacketsTest, SharesAreFractionsThatEndAtOne) {
  EXPECT_EQ(Share(0, 10), 0u);
  EXPECT_EQ(Share(10, 40), kOnePacket / 4);
  EXPECT_EQ(Share(50, 40), kOnePacket);
  EXPECT_EQ(Share(UINT32_MAX, uint64_t{UINT32_MAX} << 8), kOnePacket >> 8);
  EXPECT_EQ(Times(FromPackets(kWindowMax), kOnePacket / 2),
            FromPackets(kWindowMax / 2));
}

TEST(FixedPacketsTest, BytesAndPacketsConvertBothWays) {
  EXPECT_EQ(FromBytes(1460, 1460), kOnePacket);
  EXPECT_EQ(FromBytes(730, 1460), kOnePacket / 2);
  EXPECT_EQ(ToBytes(FromPackets(10), 1460), 14600u);
  EXPECT_EQ(ToBytes(FromPackets(kWindowMax), 65535), uint64_t{65535} << 24);
}

}  // namespace
}  // namespace urnic::cc
