#include "ras/history/history.h"

#include <gtest/gtest.h>

#include <vector>

namespace urnic {
namespace {

class HistoryTest : public ::testing::Test {
 protected:
  std::vector<uint32_t> Qpns(uint64_t from, size_t step) {
    std::vector<uint32_t> qpns;
    std::optional<uint64_t> next = from;
    while (next.has_value()) {
      next = history_.Visit(*next, step, [&](const Happening& happening) {
        qpns.push_back(happening.qpn);
      });
    }
    return qpns;
  }

  Time now_;
  History history_{&now_};
};

TEST_F(HistoryTest, EventsComeInOrderWithTheirTime) {
  history_.Add(HistoryEvent::kTimeout, 17, 1000, 6);
  now_ = now_ + Duration::Milliseconds(3);
  history_.Add(HistoryEvent::kState, 18, 3, 6, /*iwarp=*/true);
  std::vector<Happening> seen;
  EXPECT_FALSE(
      history_.Visit(0, 10, [&](const Happening& h) { seen.push_back(h); }));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].qpn, 17u);
  EXPECT_EQ(seen[0].a, 1000u);
  EXPECT_EQ((seen[1].at - seen[0].at).ns(), 3'000'000);
  EXPECT_TRUE(seen[1].iwarp);
}

TEST_F(HistoryTest, AReaderTakesSomeAtATime) {
  for (uint32_t i = 0; i < 10; ++i)
    history_.Add(HistoryEvent::kTimeout, i, 0, 0);
  EXPECT_EQ(Qpns(0, 3), Qpns(0, 100));
  EXPECT_EQ(Qpns(8, 3), std::vector<uint32_t>({8, 9}));
  EXPECT_TRUE(Qpns(10, 3).empty());
}

TEST_F(HistoryTest, TheNewestReplaceTheOldest) {
  for (uint32_t i = 0; i < History::kEntries + 5; ++i)
    history_.Add(HistoryEvent::kTimeout, i, 0, 0);
  EXPECT_EQ(history_.added(), History::kEntries + 5);
  const auto left = Qpns(0, 1000);
  ASSERT_EQ(left.size(), History::kEntries);
  EXPECT_EQ(left.front(), 5u);
  EXPECT_EQ(left.back(), History::kEntries + 4);
}

TEST_F(HistoryTest, EveryEventHasWords) {
  EXPECT_EQ(WordsOf(HistoryEvent::kTimeout).name, "timeout");
  EXPECT_EQ(WordsOf(HistoryEvent::kState).b, "to");
  EXPECT_EQ(WordsOf(HistoryEvent::kTerminateSent).b, "");
}

}  // namespace
}  // namespace urnic
