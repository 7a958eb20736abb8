#include "ras/marks/marked_block.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace urnic {
namespace {

constexpr size_t kPage = MarkedBlock::kPage;
constexpr Marks kEndpoint = MarksOf("EP");
constexpr Marks kOdd = MarksOf("OD");
constexpr Marks kRing = MarksOf("SQ");

struct Block {
  explicit Block(size_t shift) : plan(shift) {
    control = plan.Add(432, 64, &kEndpoint);
    odd = plan.Add(13, 8, &kOdd);
    ring = plan.Add(1024, kPage, &kRing);
    memory.resize(plan.bytes());
    plan.WriteMarks(memory.data());
  }
  std::string_view Text(size_t at) const {
    return {reinterpret_cast<const char*>(memory.data()) + at, 8};
  }

  MarkedBlock plan;
  size_t control, odd, ring;
  std::vector<uint8_t> memory;
};

TEST(MarkedBlockTest, PartsAreAlignedAndLieBetweenMarks) {
  const Block block(0);
  EXPECT_EQ(block.control, 64u);
  EXPECT_EQ(block.ring, kPage) << "its mark is in the padding before";
  EXPECT_EQ(block.Text(block.control - 8), "uRNIC-EP");
  EXPECT_EQ(block.Text(block.control + 432), "EP-uRNIC");
  EXPECT_EQ(block.Text(block.odd - 8), "uRNIC-OD");
  EXPECT_EQ(block.Text(block.odd + 16), "OD-uRNIC");
  EXPECT_EQ(block.Text(block.ring - 8), "uRNIC-SQ");
  EXPECT_EQ(block.Text(block.ring + 1024), "SQ-uRNIC");
  EXPECT_EQ(block.plan.bytes(), kPage + 1024 + 8);
}

TEST(MarkedBlockTest, AShiftMovesWhatIsInTheFirstPage) {
  const Block block(128);
  EXPECT_EQ(block.control, 64u + 128u);
  EXPECT_EQ(block.ring, kPage);
}

TEST(MarkedBlockTest, EveryChangedBitOfAMarkIsFound) {
  Block block(0);
  EXPECT_EQ(block.plan.FindDamaged(block.memory.data()), nullptr);
  for (const size_t at : {block.control - 8, block.control + 432, block.odd - 8,
                          block.odd + 16, block.ring - 8, block.ring + 1024}) {
    for (size_t bit = 0; bit < 64; ++bit) {
      block.memory[at + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      const auto* const part = block.plan.FindDamaged(block.memory.data());
      ASSERT_NE(part, nullptr) << at << " " << bit;
      EXPECT_LE(part->offset - 8, at);
      EXPECT_GE(part->offset + part->bytes + 8, at);
      block.memory[at + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
  }
}

}  // namespace
}  // namespace urnic
