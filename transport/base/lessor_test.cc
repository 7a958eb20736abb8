#include "transport/base/lessor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "transport/base/leased_sequence.h"

namespace urnic {
namespace {

constexpr NumberKey kKey = {{0x1234, 0x5678}};

TEST(LessorTest, ALeasedRangeHasOneOwnerUntilItIsGivenBack) {
  LocalLessor lessor;
  lessor.Offer(NumberSpace::kQpn, {64, 64});
  lessor.Offer(NumberSpace::kQpn, {256, 16});
  lessor.Offer(NumberSpace::kKey, {0, 4});
  EXPECT_EQ(lessor.Lease(NumberSpace::kQpn), (NumberRange{64, 64}));
  EXPECT_EQ(lessor.Lease(NumberSpace::kQpn), (NumberRange{256, 16}));
  EXPECT_EQ(lessor.Lease(NumberSpace::kQpn).count, 0u);
  EXPECT_EQ(lessor.Lease(NumberSpace::kSrqn).count, 0u) << "never offered";
  lessor.GiveBack(NumberSpace::kQpn, {64, 64});
  EXPECT_EQ(lessor.Lease(NumberSpace::kQpn), (NumberRange{64, 64}));
}

TEST(LeasedSequenceTest, EachNumberIsDrawnOnceBeforeAnyIsDrawnAgain) {
  LocalLessor lessor;
  OfferNumbersOf(5, lessor);
  LeasedSequence sequence(&lessor, NumberSpace::kKey, kKey);
  ASSERT_EQ(sequence.held(), kIndexCount);
  std::vector<uint32_t> first(kIndexCount, UINT32_MAX);
  std::vector<uint8_t> variant(kIndexCount);
  for (uint32_t i = 0; i < kIndexCount; ++i) {
    const LeasedSequence::Draw draw = *sequence.Next();
    ASSERT_EQ(draw.number >> kIndexBits, 5u);
    const uint32_t index = IndexOf(draw.number);
    ASSERT_EQ(first[index], UINT32_MAX);
    first[index] = i;
    variant[index] = draw.variant;
  }
  // Then in the same order, with another variant.
  for (uint32_t i = 0; i < 10000; ++i) {
    const LeasedSequence::Draw draw = *sequence.Next();
    const uint32_t index = IndexOf(draw.number);
    ASSERT_EQ(first[index], i);
    ASSERT_EQ(draw.variant, static_cast<uint8_t>(variant[index] + 1));
  }
  // The variants are spread.
  std::vector<uint32_t> counts(kVariantMask + 1);
  for (const uint8_t v : variant) ++counts[v];
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_GT(*least, kIndexCount / 256 * 9 / 10);
  EXPECT_LT(*most, kIndexCount / 256 * 11 / 10);
}

TEST(LeasedSequenceTest, MoreIsLeasedWhenAllNumbersHaveBeenDrawn) {
  LocalLessor lessor;
  lessor.Offer(NumberSpace::kQpn, {64, 16});
  lessor.Offer(NumberSpace::kQpn, {1024, 8});
  LeasedSequence sequence(&lessor, NumberSpace::kQpn, kKey);
  EXPECT_EQ(sequence.held(), 16u);
  const auto draw = [&](int count) {
    std::set<uint32_t> numbers;
    for (int i = 0; i < count; ++i) numbers.insert(sequence.Next()->number);
    return numbers;
  };
  std::set<uint32_t> expected;
  for (uint32_t i = 64; i < 80; ++i) expected.insert(i);
  EXPECT_EQ(draw(16), expected);
  for (uint32_t i = 1024; i < 1032; ++i) expected.insert(i);
  const std::set<uint32_t> further = draw(8);
  EXPECT_EQ(*further.begin(), 1024u);
  EXPECT_EQ(further.size(), 8u);
  EXPECT_EQ(sequence.held(), 24u);
  // Then all numbers again.
  EXPECT_EQ(draw(24), expected);
}

TEST(LeasedSequenceTest, WithoutALeaseThereIsNoNumber) {
  LocalLessor lessor;
  LeasedSequence sequence(&lessor, NumberSpace::kQpn, kKey);
  EXPECT_EQ(sequence.held(), 0u);
  EXPECT_FALSE(sequence.Next().has_value());
  lessor.Offer(NumberSpace::kQpn, {8, 4});
  EXPECT_TRUE(sequence.Next().has_value()) << "it is asked for each time";
}

TEST(LeasedSequenceTest, ItsDestructorGivesTheRangesBack) {
  LocalLessor lessor;
  lessor.Offer(NumberSpace::kQpn, {8, 4});
  { LeasedSequence sequence(&lessor, NumberSpace::kQpn, kKey); }
  EXPECT_EQ(lessor.Lease(NumberSpace::kQpn), (NumberRange{8, 4}));
}

}  // namespace
}  // namespace urnic
