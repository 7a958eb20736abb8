#include "transport/base/numbers.h"

#include <gtest/gtest.h>

#include <vector>

namespace urnic {
namespace {

TEST(NumbersTest, EveryBitHasOneMeaning) {
  EXPECT_EQ(NumberOf(7, kIndexMask), 0xffffffu);
  EXPECT_EQ(KeyOf(NumberOf(7, kIndexMask), 0xff), 0xffffffffu);
  EXPECT_EQ(KeyOf(NumberOf(5, 3), 9), 0xa0000309u);
  EXPECT_EQ(IndexOf(NumberOf(7, 77)), 77u);
  EXPECT_EQ(IndexOf(NumberOfKey(KeyOf(NumberOf(7, 77), 9))), 77u);
  EXPECT_EQ(EngineOf(NumberOf(7, 77), 4), 77u % 4);
}

TEST(GrowingSlotsTest, ANewSlotTakesIndicesOnlyFromItsParent) {
  GrowingSlots slots(4, 64);
  std::vector<uint32_t> before(256);
  const auto update = [&] {
    for (uint32_t i = 0; i < 256; ++i) {
      before[i] = slots.Of(i);
      ASSERT_LT(before[i], slots.count());
    }
  };
  update();
  while (slots.count() < slots.most()) {
    const GrowingSlots::Split split = slots.Grow();
    uint32_t moved = 0;
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t now = slots.Of(i);
      if (now == before[i]) continue;
      ++moved;
      ASSERT_EQ(before[i], split.from);
      ASSERT_EQ(now, split.to);
    }
    ASSERT_GT(moved, 0u);
    update();
  }
  for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(slots.Of(i), i % 64);
}

}  // namespace
}  // namespace urnic
