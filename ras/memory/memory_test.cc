#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ras/memory/memory_tracker.h"

namespace urnic {
namespace {

struct Small : Tracked<Small> {
  int value = 1;
};
struct alignas(64) Wide : Tracked<Wide> {
  char bytes[100] = {};
  virtual ~Wide() = default;
};
struct Wider : Wide {
  char more[200] = {};
};

TEST(MemoryTest, TypeSizeAndPlaceAreKnown) {
  MemoryTracker tracker;
  const int line = __LINE__ + 1;
  const std::unique_ptr<Small> small(new (&tracker) Small);
  const auto uses = tracker.Uses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_STREQ(uses[0].type, "Small");
  EXPECT_EQ(uses[0].place.line, line);
  EXPECT_TRUE(std::string_view(uses[0].place.file).ends_with("memory_test.cc"));
  EXPECT_STREQ(uses[0].place.function, "TestBody");
  EXPECT_EQ(uses[0].bytes, sizeof(Small));
  EXPECT_EQ(tracker.footprint().count, 1u);
}

TEST(MemoryTest, UsesAreSumsWithTheMostBytesFirst) {
  MemoryTracker tracker;
  std::vector<std::unique_ptr<Small>> many;
  for (int i = 0; i < 1000; ++i) many.emplace_back(new (&tracker) Small);
  const std::unique_ptr<Wide> one(new (&tracker) Wider);
  const auto uses = tracker.Uses();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].count, 1000u);
  EXPECT_EQ(uses[0].bytes, 1000 * sizeof(Small));
  EXPECT_STREQ(uses[1].type, "Wide") << "the tracked base";
  EXPECT_EQ(uses[1].bytes, sizeof(Wider));
  EXPECT_EQ(uses[1].alignment, 64u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one.get()) % 64, 0u);
}

TEST(MemoryTest, TheFootprintFallsAndTheMostStays) {
  MemoryTracker tracker;
  { const std::unique_ptr<Wide> wider(new (&tracker) Wider); }
  EXPECT_EQ(tracker.footprint().count, 0u);
  EXPECT_EQ(tracker.footprint().bytes, 0u);
  EXPECT_EQ(tracker.footprint().bytes_most, sizeof(Wider));
  EXPECT_TRUE(tracker.Uses().empty());
}

TEST(MemoryTest, EveryFlippedBitBehindAnAllocationIsFoundWhenItIsFreed) {
  MemoryTracker other;
  MemoryTracker tracker;
  constexpr size_t kBytes = 50;
  constexpr size_t kMarkBytes = 8;
  for (size_t bit = 0; bit < kMarkBytes * 8; ++bit) {
    void* const memory = MemoryTracker::Allocate(&tracker, kBytes, 8, "test",
                                                 TracePlace::Here());
    auto* const behind = static_cast<uint8_t*>(memory) + 56;
    EXPECT_EQ(std::memcmp(behind, "uRNIC-MM", kMarkBytes), 0);
    behind[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    MemoryTracker::Free(memory, kBytes);
    const auto damaged = tracker.TakeDamaged();
    ASSERT_EQ(damaged.size(), 1u) << bit;
    EXPECT_EQ(damaged[0].bytes, kBytes);
    EXPECT_STREQ(damaged[0].type, "test");
  }
  EXPECT_EQ(tracker.footprint().count, 0u) << "found by the address";
  EXPECT_TRUE(tracker.TakeDamaged().empty()) << "reported once";
  EXPECT_TRUE(other.TakeDamaged().empty());
}

TEST(MemoryTest, WithoutATrackerMemoryIsPlainMemory) {
  const std::unique_ptr<Small> small(new (nullptr) Small);
  EXPECT_EQ(small->value, 1);
}

TEST(MemoryTest, ThreadsAllocateAtTheSameTime) {
  MemoryTracker tracker;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<std::unique_ptr<Small>> own;
      for (int i = 0; i < 2000; ++i) {
        own.emplace_back(new (&tracker) Small);
        if (i % 3 == 0) own.erase(own.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tracker.footprint().count, 0u);
}

}  // namespace
}  // namespace urnic
