#include "transport/rc/gaps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "transport/base/random.h"

namespace urnic::rc {
namespace {

constexpr Duration kRoundTrip = Duration::Microseconds(100);
constexpr Duration kShortest = Duration::Microseconds(50);

Time At(int64_t us) { return Time() + Duration::Microseconds(us); }

class GapsTest : public ::testing::Test {
 protected:
  GapsTest() { gaps_.Start(Psn(100)); }

  // The PSNs from `first` up to `end`, but for those in `held`, are missing.
  ClosedGaps Report(uint32_t first, uint32_t end, std::vector<uint32_t> held,
                    Time now, uint32_t sent = 1000) {
    uint8_t bitmap[256] = {};
    for (const uint32_t psn : held) {
      const uint32_t bit = psn - first - 1;
      bitmap[bit / 8] |= static_cast<uint8_t>(1 << bit % 8);
    }
    return gaps_.OnReport({Psn(first), Psn(end), bitmap}, Psn(sent), now,
                          kRoundTrip, kShortest);
  }
  void Resend(uint32_t end, Time now, uint32_t sent = 0) {
    gaps_.OnResent(Psn(end), Psn(sent), now);
  }
  // "begin+packets" of each gap, and a letter for its state.
  std::string Show() const {
    std::string text;
    for (uint32_t i = 0; i < gaps_.count(); ++i) {
      const Gap& gap = gaps_.at(i);
      if (!text.empty()) text += " ";
      text += std::to_string(gap.begin.value()) + "+" +
              std::to_string(gap.packets) + "wdr"[static_cast<int>(gap.state)];
    }
    return text;
  }

  Gaps gaps_;
};

TEST_F(GapsTest, FindsTheRunsOfMissingPackets) {
  (void)Report(100, 110, {102, 103, 107}, At(0));
  EXPECT_EQ(Show(), "100+2w 104+3w 108+2w");
  EXPECT_EQ(gaps_.NotUnderWay(Psn(100)), 10u);
}

TEST_F(GapsTest, ReportsNothingThatWasNotSent) {
  (void)Report(100, 163, {}, At(0), /*sent=*/105);
  EXPECT_EQ(Show(), "100+5w");
}

TEST_F(GapsTest, WaitsForReordering) {
  (void)Report(100, 101, {}, At(0));
  EXPECT_EQ(gaps_.MakeDue(At(5), Duration::Microseconds(20)), At(20));
  EXPECT_FALSE(gaps_.any_due());
  EXPECT_TRUE(gaps_.MakeDue(At(20), Duration::Microseconds(20)).IsInfinite());
  EXPECT_TRUE(gaps_.any_due());
}

TEST_F(GapsTest, WhatWasSentAgainIsUnderWay) {
  (void)Report(100, 110, {103}, At(0));
  (void)gaps_.MakeDue(At(0), Duration());
  Resend(103, At(1));
  EXPECT_EQ(Show(), "100+3r 104+6d");
  EXPECT_EQ(gaps_.NotUnderWay(Psn(100)), 7u);
  // As far as there was room.
  Resend(106, At(1));
  EXPECT_EQ(Show(), "100+3r 104+2r 106+4d");
}

TEST_F(GapsTest, AReportSoonAfterTheRepairIsAboutTheFirstLoss) {
  (void)Report(100, 102, {}, At(0));
  (void)gaps_.MakeDue(At(0), Duration());
  Resend(102, At(0));
  (void)Report(100, 102, {}, At(100));
  EXPECT_EQ(Show(), "100+2r");
  (void)Report(100, 102, {}, At(101));
  EXPECT_EQ(Show(), "100+2d");
}

TEST_F(GapsTest, AGapThatClosesByItselfWasReordering) {
  (void)Report(100, 102, {}, At(0));
  EXPECT_EQ(gaps_.OnAcked(Psn(105), At(30), kShortest).reordered,
            Duration::Microseconds(30));
  EXPECT_TRUE(gaps_.empty());
  EXPECT_EQ(gaps_.NotUnderWay(Psn(105)), 0u);
}

TEST_F(GapsTest, AnAnswerThatComesTooSoonShowsANeedlessRepair) {
  for (const int64_t answer : {20, 80}) {
    gaps_.Start(Psn(100));
    (void)Report(100, 102, {}, At(0));
    (void)gaps_.MakeDue(At(0), Duration());
    Resend(102, At(0));
    const ClosedGaps closed = gaps_.OnAcked(Psn(102), At(answer), kShortest);
    EXPECT_TRUE(closed.repaired);
    EXPECT_EQ(closed.needless, answer < 50);
    EXPECT_EQ(closed.reordered, Duration());
  }
}

TEST_F(GapsTest, MoreGapsThanThereIsRoomForAreReportedAgain) {
  std::vector<uint32_t> held;
  for (uint32_t psn = 101; psn < 400; psn += 2) held.push_back(psn);
  (void)Report(100, 400, held, At(0));
  EXPECT_EQ(gaps_.count(), Gaps::kMax);
  EXPECT_EQ(gaps_.NotUnderWay(Psn(100)), 300u);
  (void)gaps_.OnAcked(Psn(200), At(10), kShortest);
  std::erase_if(held, [](uint32_t psn) { return psn <= 200; });
  (void)Report(200, 400, held, At(10));
  EXPECT_EQ(gaps_.at(gaps_.count() - 1).begin, Psn(326));
}

TEST_F(GapsTest, PartOfAGapIsSentAgainAlthoughThereIsNoRoomForAnother) {
  std::vector<uint32_t> held;
  for (uint32_t psn = 102; psn < 400; psn += 3) held.push_back(psn);
  (void)Report(100, 400, held, At(0));
  ASSERT_EQ(gaps_.count(), Gaps::kMax);
  (void)gaps_.MakeDue(At(0), Duration());
  Resend(101, At(1));
  EXPECT_EQ(Show().substr(0, 20), "100+1r 101+1d 103+2d");
  // And of the last.
  Resend(287, At(1));
  EXPECT_EQ(gaps_.count(), Gaps::kMax);
  EXPECT_EQ(gaps_.at(Gaps::kMax - 1).end(), Psn(287));
  EXPECT_FALSE(gaps_.any_due());
}

TEST_F(GapsTest, WhatWasSentBeforeARepairThatArrivedIsMissingToo) {
  (void)Report(100, 101, {}, At(0));
  (void)gaps_.MakeDue(At(0), Duration());
  Resend(101, At(1), /*sent=*/110);
  // It has arrived: of the others, only 105 have.
  (void)Report(104, 106, {105}, At(60));
  EXPECT_EQ(Show(), "104+1w 106+4w");
  EXPECT_EQ(gaps_.NotUnderWay(Psn(104)), 6u);
}

TEST_F(GapsTest, WhatWasSentTwiceDoesNotTellWhichArrived) {
  (void)Report(100, 101, {}, At(0));
  for (const int64_t time : {0, 200}) {
    (void)gaps_.MakeDue(At(time), Duration());
    if (time != 0) (void)Report(100, 101, {}, At(time));
    Resend(101, At(time), /*sent=*/110 + static_cast<uint32_t>(time));
  }
  (void)Report(104, 106, {105}, At(260));
  EXPECT_EQ(Show(), "104+1w 106+4w");
}

TEST_F(GapsTest, LossesOfOneOverflowCountOnce) {
  (void)Report(100, 103, {}, At(0));
  (void)gaps_.MakeDue(At(0), Duration());
  EXPECT_EQ(gaps_.TakeLost(), 3u);
  gaps_.Forgive(Psn(200));
  Resend(103, At(0));
  // More of what was sent before, and something that was sent later.
  (void)Report(100, 202, {150}, At(10));
  (void)gaps_.MakeDue(At(10), Duration());
  EXPECT_EQ(gaps_.TakeLost(), 0u);
  (void)Report(100, 210, {150, 201}, At(20));
  (void)gaps_.MakeDue(At(20), Duration());
  EXPECT_EQ(gaps_.TakeLost(), 8u);
  // What is lost again was sent later, too.
  (void)Report(100, 210, {150, 201}, At(200));
  (void)gaps_.MakeDue(At(200), Duration());
  EXPECT_EQ(gaps_.TakeLost(), 3u);
}

// The same as a map of PSNs.
struct Model {
  struct Missing {
    Gap::State state;
    Time since;
  };

  // PSNs from `una` up to `end` are missing, in runs; the others are returned.
  std::vector<uint32_t> Report(Random& random, uint32_t una, uint32_t end,
                               Time now) {
    std::vector<uint32_t> held;
    std::map<uint32_t, Missing> next;
    bool arrived = false;
    for (uint32_t psn = una; psn < end; ++psn) {
      if (random.OneIn(6)) arrived = !arrived;
      if (psn != una && arrived) {
        held.push_back(psn);
        continue;
      }
      const auto known = missing.find(psn);
      Missing m{Gap::State::kWaits, now};
      if (known != missing.end()) m = known->second;
      if (m.state == Gap::State::kResent && now - m.since > kRoundTrip) {
        m.state = Gap::State::kDue;
      }
      next[psn] = m;
    }
    next.insert(missing.lower_bound(end), missing.end());
    missing = std::move(next);
    return held;
  }
  void MakeDue(Time now, Duration wait) {
    for (auto& [psn, m] : missing) {
      if (m.state == Gap::State::kWaits && m.since + wait <= now) {
        m.state = Gap::State::kDue;
      }
    }
  }
  void OnResent(uint32_t begin, uint32_t end, Time now) {
    for (uint32_t psn = begin; psn < end; ++psn) {
      missing[psn] = {Gap::State::kResent, now};
    }
  }
  uint32_t FirstDue() const {
    for (const auto& [psn, m] : missing) {
      if (m.state == Gap::State::kDue) return psn;
    }
    return UINT32_MAX;
  }
  void ExpectSame(const Gaps& gaps) const {
    auto next = missing.begin();
    for (uint32_t i = 0; i < gaps.count(); ++i) {
      const Gap& gap = gaps.at(i);
      for (uint32_t k = 0; k < gap.packets; ++k, ++next) {
        ASSERT_NE(next, missing.end());
        ASSERT_EQ(next->first, gap.begin.value() + k);
        ASSERT_EQ(next->second.state, gap.state);
        if (gap.state != Gap::State::kDue) {
          ASSERT_EQ(next->second.since, gap.since);
        }
      }
    }
    ASSERT_EQ(next, missing.end());
  }

  std::map<uint32_t, Missing> missing;
};

// Random reports, acknowledgements and repairs, of few gaps at a time: there is
// always room.
TEST_F(GapsTest, AgreesWithAModel) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto below = [&](uint32_t n) {
      return static_cast<uint32_t>(random.Below(n));
    };
    gaps_.Start(Psn(0));
    Model model;
    uint32_t una = 0;
    Time now;
    for (int step = 0; step < 60; ++step) {
      now = now + Duration::Microseconds(below(60));
      const uint32_t action = below(4);
      if (action == 0) {
        const uint32_t end = una + 2 + below(60);
        (void)Report(una, end, model.Report(random, una, end, now), now,
                     1u << 20);
      } else if (action == 1) {
        una += below(20);
        model.missing.erase(model.missing.begin(),
                            model.missing.lower_bound(una));
        (void)gaps_.OnAcked(Psn(una), now, kShortest);
      } else if (action == 2) {
        const Duration wait = Duration::Microseconds(below(80));
        model.MakeDue(now, wait);
        (void)gaps_.MakeDue(now, wait);
      } else if (gaps_.any_due()) {
        const Gap due = gaps_.FirstDue();
        ASSERT_EQ(due.begin.value(), model.FirstDue());
        const uint32_t end = due.begin.value() + 1 + below(due.packets);
        Resend(end, now);
        model.OnResent(due.begin.value(), end, now);
      }
      model.ExpectSame(gaps_);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace urnic::rc
