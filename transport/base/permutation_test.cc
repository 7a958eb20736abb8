#include "transport/base/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace urnic {
namespace {

constexpr NumberKey kKey = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

// The ninth vector of the authors' reference implementation: bytes 0 to 7.
TEST(SipHashTest, MatchesTheReference) {
  EXPECT_EQ(SipHash(kKey, 0x0706050403020100), 0x93f5f5799a932462u);
}

// The vectors of no bytes and of bytes 0 to 15.
TEST(SipHashTest, MatchesTheReferenceForOtherLengths) {
  EXPECT_EQ(SipHash(kKey, std::span<const uint64_t>()), 0x726fdb47dd0e0e31u);
  const uint64_t words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(SipHash(kKey, words), 0x3f2acc7f57c29bdbu);
}

TEST(SipHashTest, OneBitOfTheArgumentChangesHalfOfTheValue) {
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t change = SipHash(kKey, 77) ^ SipHash(kKey, 77 ^ 1ull << bit);
    EXPECT_NEAR(std::popcount(change), 32, 20) << bit;
  }
}

class PermutationTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(PermutationTest, GivesEachNumberOnceAndInvertsIt) {
  const uint32_t bits = GetParam();
  const Permutation permutation(kKey, bits);
  std::vector<bool> seen(size_t{1} << bits);
  for (uint32_t i = 0; i >> bits == 0; ++i) {
    const uint32_t value = permutation(i);
    ASSERT_EQ(value >> bits, 0u);
    ASSERT_FALSE(seen[value]);
    seen[value] = true;
    ASSERT_EQ(permutation.Inverse(value), i);
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, PermutationTest,
                         ::testing::Values(2, 3, 8, 11, 15, 16));

TEST(PermutationTest, InvertsIn32Bits) {
  const Permutation permutation(kKey, 32);
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t x = i * 2654435761u;
    EXPECT_EQ(permutation.Inverse(permutation(x)), x);
  }
}

TEST(PermutationTest, AnotherKeyGivesAnotherOrder) {
  const Permutation one(kKey, 21);
  const Permutation other(kKey.For(1), 21);
  int same = 0;
  for (uint32_t i = 0; i < 10000; ++i) same += one(i) == other(i) ? 1 : 0;
  EXPECT_LE(same, 3);
}

// What an observer of the numbers can try: a straight line through pairs of
// successive ones, their common bits, and the most frequent step between them.
TEST(PermutationTest, ANumberRevealsNothingAboutTheNext) {
  constexpr uint32_t kBits = 21;
  constexpr uint32_t kCount = 1 << 16;
  const Permutation permutation(kKey, kBits);
  double sum = 0;
  double squares = 0;
  double products = 0;
  std::vector<uint32_t> steps(size_t{1} << kBits);
  uint32_t most = 0;
  std::vector<uint32_t> same_bit(kBits);
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t at = permutation(i);
    const uint32_t next = permutation(i + 1);
    sum += at;
    squares += static_cast<double>(at) * at;
    products += static_cast<double>(at) * next;
    most = std::max(most, ++steps[(next - at) & ((1u << kBits) - 1)]);
    for (uint32_t bit = 0; bit < kBits; ++bit) {
      same_bit[bit] += (~(at ^ next) >> bit) & 1;
    }
  }
  const double mean = sum / kCount;
  const double correlation =
      (products / kCount - mean * mean) / (squares / kCount - mean * mean);
  // Five standard deviations of chance.
  EXPECT_LT(std::abs(correlation), 5 / std::sqrt(kCount));
  for (const uint32_t count : same_bit) {
    EXPECT_NEAR(count, kCount / 2.0, 5 * std::sqrt(kCount) / 2);
  }
  EXPECT_LE(most, 5u);  // of 65536 draws from 2^21 steps
}

}  // namespace
}  // namespace urnic
