#include "transport/iwarp/tcp/segment_ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random.h"

namespace urnic::tcp {
namespace {

constexpr uint32_t kBlock = SegmentSlab::kBlockRecords;

TEST(SegmentSlabTest, GivesAllItsBlocksAndTakesThemBack) {
  SegmentSlab slab(7);  // not a power of two
  std::vector<uint32_t> blocks;
  while (true) {
    const uint32_t block = slab.Take(0);
    if (block == SegmentSlab::kNone) break;
    blocks.push_back(block);
  }
  EXPECT_EQ(blocks.size(), 7u);
  EXPECT_EQ(slab.free_blocks(), 0u);
  for (const uint32_t block : blocks) slab.Release(block, 0);
  EXPECT_EQ(slab.free_blocks(), 7u);
  EXPECT_NE(slab.Take(2), SegmentSlab::kNone) << "small blocks were joined";
  EXPECT_NE(slab.Take(1), SegmentSlab::kNone);
  EXPECT_EQ(slab.Take(1), SegmentSlab::kNone);
}

TEST(SegmentSlabTest, BlocksNeverOverlap) {
  testing::Random random(1);
  SegmentSlab slab(61);
  std::vector<bool> used(61);
  std::vector<std::pair<uint32_t, uint8_t>> taken;
  for (int i = 0; i < 20000; ++i) {
    if (random.OneIn(2)) {
      const auto order = static_cast<uint8_t>(random.Below(5));
      const uint32_t block = slab.Take(order);
      if (block == SegmentSlab::kNone) continue;
      for (uint32_t j = block; j < block + (1u << order); ++j) {
        ASSERT_FALSE(used[j]);
        used[j] = true;
      }
      taken.emplace_back(block, order);
    } else if (!taken.empty()) {
      std::swap(taken[random.Below(taken.size())], taken.back());
      const auto [block, order] = taken.back();
      taken.pop_back();
      slab.Release(block, order);
      for (uint32_t j = block; j < block + (1u << order); ++j) used[j] = false;
    }
    ASSERT_EQ(slab.free_blocks(), static_cast<uint32_t>(std::count(
                                      used.begin(), used.end(), false)));
  }
}

class SegmentRingTest : public ::testing::Test {
 protected:
  SegmentRingTest() { ring_.Start(&slab_, 2); }
  bool Push(uint32_t bytes) {
    if (!ring_.MakeRoom()) return false;
    SegmentRecord& record = ring_.Push();
    record.seq = next_;
    record.bytes = static_cast<uint16_t>(bytes);
    next_ = next_ + bytes;
    return true;
  }

  SegmentSlab slab_{16};
  SegmentRing ring_;
  SeqNum next_{0xfffffff0};
};

TEST_F(SegmentRingTest, AnEmptyRingHasNoMemory) {
  EXPECT_EQ(slab_.free_blocks(), 16u);
  ASSERT_TRUE(Push(1));
  EXPECT_EQ(slab_.free_blocks(), 15u);
  ring_.PopFront();
  EXPECT_EQ(slab_.free_blocks(), 16u);
}

TEST_F(SegmentRingTest, GrowsToItsLimitAndKeepsItsRecords) {
  uint32_t pushed = 0;
  while (Push(10)) ++pushed;
  EXPECT_EQ(pushed, kBlock * 4);
  for (uint32_t i = 0; i < pushed; ++i) {
    EXPECT_EQ(ring_.at(ring_.first() + i).seq, SeqNum(0xfffffff0) + i * 10);
  }
  ring_.PopFront();
  EXPECT_TRUE(Push(10));
  EXPECT_FALSE(Push(10));
}

TEST_F(SegmentRingTest, AnExhaustedSlabStopsTheGrowthNotTheRing) {
  std::vector<uint32_t> blocks;
  ASSERT_TRUE(Push(10));
  while (slab_.Take(0) != SegmentSlab::kNone) {
  }
  for (uint32_t i = 1; i < kBlock; ++i) ASSERT_TRUE(Push(10));
  EXPECT_FALSE(Push(10));
  ring_.PopFront();
  EXPECT_TRUE(Push(10));
}

TEST_F(SegmentRingTest, FindsTheRecordOfAByteAlsoWhereNumbersWrap) {
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(Push(1 + i % 7));
  SeqNum at(0xfffffff0);
  for (uint32_t i = 0; i < 100; ++i) {
    for (uint32_t j = 0; j < 1 + i % 7; ++j) {
      EXPECT_EQ(ring_.Find(at + j), ring_.first() + i);
    }
    at = at + (1 + i % 7);
  }
}

}  // namespace
}  // namespace urnic::tcp
