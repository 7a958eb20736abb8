#include "datapath/engine/fpdu_slab.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace urnic {
namespace {

constexpr uint32_t kPlaces = 5;
constexpr uint32_t kBytes = 1000;

TEST(FpduSlabTest, PlacesDoNotOverlapAndKeepTheirBytes) {
  FpduSlab slab(kPlaces, kBytes);
  std::vector<std::span<uint8_t>> memory(kPlaces);
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    ASSERT_EQ(slab.free(), kPlaces - i);
    numbers.push_back(slab.Take(kBytes, memory[i]));
    ASSERT_EQ(memory[i].size(), kBytes);
    std::memset(memory[i].data(), static_cast<int>(i + 1), kBytes);
  }
  EXPECT_EQ(slab.free(), 0u);
  for (uint32_t i = 0; i < kPlaces; ++i) {
    for (const uint8_t byte : memory[i]) ASSERT_EQ(byte, i + 1);
  }
  for (const uint32_t number : numbers) slab.Release(number);
  EXPECT_EQ(slab.free(), kPlaces);
}

TEST(FpduSlabTest, APlaceHasTheLengthThatWasAskedFor) {
  FpduSlab slab(1, kBytes);
  std::span<uint8_t> memory;
  const uint32_t number = slab.Take(24, memory);
  EXPECT_EQ(memory.size(), 24u);
  slab.Release(number);
}

TEST(FpduSlabTest, TheLastPlaceGivenBackIsTheNextOneTaken) {
  FpduSlab slab(kPlaces, kBytes);
  std::span<uint8_t> memory;
  const uint32_t first = slab.Take(kBytes, memory);
  const uint32_t second = slab.Take(kBytes, memory);
  slab.Release(first);
  EXPECT_EQ(slab.Take(kBytes, memory), first);
  slab.Release(first);
  slab.Release(second);
}

}  // namespace
}  // namespace urnic
