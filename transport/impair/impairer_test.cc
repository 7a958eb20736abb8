// The rule of a faulty wire, in virtual time. Draws replay from a seed, so the
// counts are always the same. They are expected within five standard deviations
// of their shares.

#include "transport/impair/impairer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace urnic::impair {
namespace {

constexpr Time kStart = Time::FromNs(5'000'000'000);
constexpr size_t kBytes = 1000;

Time At(Duration age) { return kStart + age; }
Duration Us(int64_t us) { return Duration::Microseconds(us); }
Duration Ms(int64_t ms) { return Duration::Milliseconds(ms); }

// The counts of a million frames, a microsecond apart.
CountValues Million(const Config& config, uint64_t seed) {
  Impairer impairer(config, seed, kStart);
  for (int64_t i = 0; i < 1'000'000; ++i) {
    impairer.Offer(At(Us(i)), kBytes, false);
  }
  return impairer.counts().Read();
}

void ExpectShare(uint64_t count, double ppm) {
  const double sigma = std::sqrt(ppm * (1 - ppm / 1e6));
  EXPECT_NEAR(static_cast<double>(count), ppm, 5 * sigma + 1);
}

TEST(ImpairerTest, WithoutFaultsAFrameLeavesImmediately) {
  Impairer impairer({}, 1, kStart);
  const Fate fate = impairer.Offer(At(Us(3)), kBytes, true);
  EXPECT_EQ(fate.leaves, At(Us(3)));
  EXPECT_TRUE(fate.copy_leaves.IsInfinite());
  EXPECT_FALSE(fate.corrupt || fate.mark);
}

TEST(ImpairerTest, SharesAreMetAndReplayFromTheSeed) {
  Config config;
  config.loss_ppm = 10'000;
  config.duplicate_ppm = 1000;
  config.corrupt_ppm = 100;
  config.reorder_ppm = 20'000;
  const CountValues counts = Million(config, 7);
  ExpectShare(counts.of(Count::k_lost), 10'000);
  ExpectShare(counts.of(Count::k_duplicated), 990);
  ExpectShare(counts.of(Count::k_corrupted), 99);
  ExpectShare(counts.of(Count::k_reordered), 19'800);
  EXPECT_EQ(counts.of(Count::k_offered), 1'000'000u);
  EXPECT_EQ(counts.values, Million(config, 7).values);
  EXPECT_NE(counts.values, Million(config, 8).values);
}

TEST(ImpairerTest, AShareOfAllHitsAllAndAShareOfNoneHitsNone) {
  Config config;
  config.loss_ppm = kAll;
  EXPECT_EQ(Million(config, 1).of(Count::k_lost), 1'000'000u);
  config.loss_ppm = 0;
  EXPECT_EQ(Million(config, 1).of(Count::k_lost), 0u);
}

TEST(ImpairerTest, BurstsHaveTheExpectedLengthAndShare) {
  Config config;
  config.bursts = {.enter_ppm = 2000, .leave_ppm = 200'000};
  Impairer impairer(config, 3, kStart);
  uint64_t bursts = 0;
  bool lost_before = false;
  for (int64_t i = 0; i < 1'000'000; ++i) {
    const bool lost =
        impairer.Offer(At(Us(i)), kBytes, false).leaves.IsInfinite();
    bursts += lost && !lost_before;
    lost_before = lost;
  }
  const double lost =
      static_cast<double>(impairer.counts().Read().of(Count::k_burst_lost));
  // The mean length is 1 / 20 %; the share is 5 of (1 / 0.2 % - 1) + 5 frames.
  EXPECT_NEAR(lost / static_cast<double>(bursts), 5, 0.3);
  EXPECT_NEAR(lost / 1e6, 5.0 / 504, 0.0008);
  EXPECT_EQ(impairer.counts().Read().of(Count::k_lost), 0u);
}

TEST(ImpairerTest, ABurstMayLetSomeFramesPass) {
  Config config;
  config.bursts = {.enter_ppm = kAll, .leave_ppm = 1, .loss_ppm = 250'000};
  ExpectShare(Million(config, 5).of(Count::k_burst_lost), 250'000);
}

TEST(ImpairerTest, DelayIsExactAndJitterIsBoundedAndInOrder) {
  Config config;
  config.delay = Ms(1);
  Impairer exact(config, 1, kStart);
  EXPECT_EQ(exact.Offer(kStart, kBytes, false).leaves, At(Ms(1)));
  config.jitter = Us(200);
  Impairer jitter(config, 1, kStart);
  Time last;
  bool varies = false;
  for (int64_t i = 0; i < 10'000; ++i) {
    const Time now = At(Us(10 * i));
    const Time leaves = jitter.Offer(now, kBytes, false).leaves;
    EXPECT_GE(leaves, last);
    EXPECT_GE(leaves - now, Ms(1));
    EXPECT_LT(leaves - now, Ms(1) + Us(200));
    varies |= leaves - now > Ms(1) + Us(150);
    last = leaves;
  }
  EXPECT_TRUE(varies);
}

TEST(ImpairerTest, FramesOvertakeByReorderAndIfAllowedByJitter) {
  for (const bool by_jitter : {true, false}) {
    Config config;
    config.delay = Ms(1);
    if (by_jitter) {
      config.jitter = Us(200);
      config.jitter_reorders = true;
    } else {
      config.reorder_ppm = 100'000;
      config.reorder_by = Us(200);
    }
    Impairer impairer(config, 1, kStart);
    Time last;
    int overtaken = 0;
    for (int64_t i = 0; i < 1000; ++i) {
      const Time now = At(Us(10 * i));
      const Time leaves = impairer.Offer(now, kBytes, false).leaves;
      overtaken += leaves < last;
      EXPECT_LT(leaves - now, Ms(1) + Us(200));
      last = leaves;
    }
    EXPECT_GT(overtaken, 50);
  }
}

TEST(ImpairerTest, ACopyLeavesWithinItsTime) {
  Config config;
  config.delay = Us(10);
  config.duplicate_ppm = kAll;
  Impairer impairer(config, 1, kStart);
  Fate fate = impairer.Offer(kStart, kBytes, false);
  EXPECT_EQ(fate.leaves, At(Us(10)));
  EXPECT_EQ(fate.copy_leaves, At(Us(10)));
  config.duplicate_by = Us(50);
  impairer.Reconfigure(config);
  for (int i = 0; i < 100; ++i) {
    fate = impairer.Offer(kStart, kBytes, false);
    EXPECT_GE(fate.copy_leaves, At(Us(10)));
    EXPECT_LT(fate.copy_leaves, At(Us(60)));
  }
}

TEST(ImpairerTest, CorruptionFlipsOneToThreeBits) {
  Impairer impairer({}, 1, kStart);
  std::vector<int> seen(4);
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> frame(64);
    impairer.Corrupt(frame);
    int bits = 0;
    for (const uint8_t byte : frame) bits += __builtin_popcount(byte);
    ASSERT_GE(bits, 1);
    ASSERT_LE(bits, 3);
    ++seen[static_cast<size_t>(bits)];
  }
  for (size_t bits = 1; bits <= 3; ++bits) EXPECT_GT(seen[bits], 250);
  std::vector<uint8_t> tiny(1);
  impairer.Corrupt(tiny);
  EXPECT_NE(tiny[0], 0);
}

// 1 Gbit/s: 1000 bytes and 24 of overhead take 8192 ns.
Config Gigabit(uint64_t buffer_bytes) {
  Config config;
  config.bits_per_second = 1'000'000'000;
  config.buffer_bytes = buffer_bytes;
  return config;
}
constexpr Duration kOnWire = Duration::Nanoseconds(8192);

//= IEEE 802.3 4.4.2
TEST(ImpairerTest, FramesQueueUpBeforeASlowWire) {
  Impairer impairer(Gigabit(100'000), 1, kStart);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(impairer.Offer(kStart, kBytes, false).leaves, At(kOnWire * i));
  }
  // After an idle time, a frame takes the same time.
  EXPECT_EQ(impairer.Offer(At(Ms(1)), kBytes, false).leaves,
            At(Ms(1) + kOnWire));
}

TEST(ImpairerTest, AFullBufferDropsTheTail) {
  // Room for four frames, and a byte.
  Impairer impairer(Gigabit(4 * 1024 + 1), 1, kStart);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(impairer.Offer(kStart, kBytes, false).leaves.IsInfinite(), i >= 4)
        << i;
  }
  EXPECT_EQ(impairer.counts().Read().of(Count::k_overflowed), 6u);
  // One frame has left: there is room for one.
  EXPECT_EQ(impairer.Offer(At(kOnWire), kBytes, false).leaves, At(kOnWire * 5));
  EXPECT_TRUE(impairer.Offer(At(kOnWire), kBytes, false).leaves.IsInfinite());
}

TEST(ImpairerTest, RedMarksBetweenItsLimitsAndAlwaysAbove) {
  Config config = Gigabit(1024 * 1000);
  config.red = {.min_bytes = 1024 * 10, .max_bytes = 1024 * 20};
  std::vector<int> marks(30);
  constexpr int kRounds = 10'000;
  Impairer impairer(config, 1, kStart);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < marks.size(); ++i) {
      // The i-th frame finds i frames of 1024 bytes before it.
      marks[i] += impairer.Offer(At(Ms(round)), kBytes, true).mark;
    }
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    const double share = i <= 10   ? 0
                         : i >= 20 ? 1
                                   : static_cast<double>(i - 10) / 10;
    EXPECT_NEAR(marks[i], share * kRounds, share == 0 || share == 1 ? 0 : 250)
        << i;
  }
  EXPECT_EQ(impairer.counts().Read().of(Count::k_red_dropped), 0u);
}

//= RFC 3168 5
TEST(ImpairerTest, RedDropsFramesWithoutEcn) {
  Config config = Gigabit(1024 * 1000);
  config.red = {.min_bytes = 1024, .max_bytes = 1024 * 2};
  Impairer impairer(config, 1, kStart);
  for (int i = 0; i < 10; ++i) impairer.Offer(kStart, kBytes, false);
  // A dropped frame takes no room: the queue stays at its limit.
  const CountValues counts = impairer.counts().Read();
  EXPECT_EQ(counts.of(Count::k_red_dropped), 8u);
  EXPECT_EQ(counts.of(Count::k_marked), 0u);
  EXPECT_FALSE(impairer.Offer(kStart, kBytes, true).leaves.IsInfinite());
}

TEST(ImpairerTest, AStallHoldsFramesAndThenReleasesThem) {
  Config config;
  config.delay = Us(5);
  config.stall = {.after = Ms(10), .length = Ms(3)};
  Impairer impairer(config, 1, kStart);
  const auto leaves = [&](Duration age) {
    return impairer.Offer(At(age), kBytes, false).leaves;
  };
  EXPECT_EQ(leaves(Ms(9)), At(Ms(9) + Us(5)));
  EXPECT_EQ(leaves(Ms(10)), At(Ms(13) + Us(5)));
  EXPECT_EQ(leaves(Ms(12)), At(Ms(13) + Us(5)));
  EXPECT_EQ(leaves(Ms(13)), At(Ms(13) + Us(5)));
  EXPECT_EQ(leaves(Ms(30)), At(Ms(30) + Us(5)));
  EXPECT_EQ(impairer.counts().Read().of(Count::k_stalled), 2u);
}

TEST(ImpairerTest, AStallRepeats) {
  Config config;
  config.stall = {.after = Ms(10), .length = Ms(3), .every = Ms(5)};
  Impairer impairer(config, 1, kStart);
  for (int64_t us = 0; us < 40'000; us += 100) {
    const int64_t into = us < 10'000 ? -1 : (us - 10'000) % 5000;
    const int64_t wait = into >= 0 && into < 3000 ? 3000 - into : 0;
    ASSERT_EQ(impairer.Offer(At(Us(us)), kBytes, false).leaves,
              At(Us(us + wait)))
        << us;
  }
}

TEST(ImpairerTest, AStalledWireFillsItsBuffer) {
  Config config = Gigabit(4 * 1024);
  config.stall = {.after = Ms(10), .length = Ms(3)};
  Impairer impairer(config, 1, kStart);
  // Half of the frame is on the wire when it stalls.
  EXPECT_EQ(
      impairer.Offer(At(Ms(10) - Duration::Nanoseconds(4096)), kBytes, false)
          .leaves,
      At(Ms(13) + Duration::Nanoseconds(4096)));
  for (int i = 0; i < 5; ++i) impairer.Offer(At(Ms(11)), kBytes, false);
  EXPECT_EQ(impairer.counts().Read().of(Count::k_overflowed), 2u);
  EXPECT_EQ(impairer.Offer(At(Ms(14)), kBytes, false).leaves,
            At(Ms(14) + kOnWire));
}

// The queue is measured in unstalled time, which other stalls change. The end
// of the queue must not move with it.
TEST(ImpairerTest, AnotherStallDoesNotMoveQueuedFrames) {
  Config with;
  with.bits_per_second = 8'000'000;  // a byte takes a microsecond
  with.buffer_bytes = 1 << 20;
  with.stall = {.after = Ms(100), .length = Ms(100), .every = Ms(200)};
  Config without = with;
  without.stall = {};
  const Duration wire = Us(kBytes + kWireOverheadBytes);
  // Stalls end in the middle of one, or begin when one would have passed.
  for (const bool stalls_end : {true, false}) {
    Impairer impairer(stalls_end ? with : without, 1, kStart);
    const Time now = At(stalls_end ? Ms(350) : Ms(250));
    const Time first = impairer.Offer(now, kBytes, false).leaves;
    EXPECT_EQ(first, stalls_end ? At(Ms(400)) + wire : now + wire);
    impairer.Reconfigure(stalls_end ? without : with);
    EXPECT_EQ(impairer.Offer(now, kBytes, false).leaves, first + wire);
  }
}

TEST(ImpairerTest, AnotherRateAppliesToLaterFrames) {
  Config config;
  config.stall = {.after = Ms(100), .length = Ms(100), .every = {}};
  config.bits_per_second = 8'000'000;
  config.buffer_bytes = 1 << 20;
  Impairer impairer(config, 1, kStart);
  const Duration wire = Us(kBytes + kWireOverheadBytes);
  EXPECT_EQ(impairer.Offer(At(Ms(150)), kBytes, false).leaves,
            At(Ms(200)) + wire);
  config.bits_per_second *= 2;
  impairer.Reconfigure(config);
  EXPECT_EQ(impairer.Offer(At(Ms(151)), kBytes, false).leaves,
            At(Ms(200)) + wire + Us((kBytes + kWireOverheadBytes) / 2));
}

TEST(ImpairerTest, ADeadWireTakesNothing) {
  Config config;
  config.die_after = Ms(10);
  Impairer impairer(config, 1, kStart);
  EXPECT_FALSE(impairer.Offer(At(Ms(9)), kBytes, false).leaves.IsInfinite());
  EXPECT_TRUE(impairer.Offer(At(Ms(10)), kBytes, false).leaves.IsInfinite());
  EXPECT_TRUE(impairer.Offer(At(Ms(99)), kBytes, false).leaves.IsInfinite());
  EXPECT_EQ(impairer.counts().Read().of(Count::k_dead), 2u);
}

}  // namespace
}  // namespace urnic::impair
