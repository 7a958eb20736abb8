#include "transport/rud/context_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace urnic::rud {
namespace {

constexpr uint32_t kWindow = 5;

TEST(ContextPool, AHundredThousandContextsTakeAtMost16Mb) {
  static_assert(ContextPool::kMaxContexts >= 100000);
  static_assert(sizeof(Context) <= 128);
  static_assert(size_t{ContextPool::kMaxContexts} * sizeof(Context) <=
                size_t{16} << 20);
  std::vector<Context> storage(ContextPool::kMaxContexts);
  ContextPool pool(storage, 1);
  for (uint32_t i = 0; i < ContextPool::kMaxContexts; ++i)
    ASSERT_EQ(pool.Acquire(kWindow)->number, i);
  EXPECT_FALSE(pool.Acquire(kWindow).has_value());
}

TEST(ContextPool, TheOneThatHasBeenFreeForLongestIsAcquired) {
  std::vector<Context> storage(4);
  ContextPool pool(storage, 1);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(pool.Acquire(kWindow)->number, i);
  for (const uint32_t i : {2, 0, 3}) pool.Release(i);
  EXPECT_EQ(pool.free(), 3u);
  for (const uint32_t i : {2, 0}) EXPECT_EQ(pool.Acquire(kWindow)->number, i);
  pool.Release(2);
  for (const uint32_t i : {3, 2}) EXPECT_EQ(pool.Acquire(kWindow)->number, i);
}

TEST(ContextPool, AnEmptyPoolGivesAgainWhatItGetsBack) {
  std::vector<Context> storage(1);
  ContextPool pool(storage, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool.Acquire(kWindow).has_value());
    EXPECT_FALSE(pool.Acquire(kWindow).has_value());
    pool.Release(0);
  }
}

TEST(ContextPool, OnlyTheOwnerFindsIt) {
  std::vector<Context> storage(2);
  ContextPool pool(storage, 1);
  EXPECT_EQ(pool.Find({0, storage[0].key}, kWindow), nullptr);
  const ContextId id = pool.Acquire(kWindow).value();
  EXPECT_NE(pool.Find(id, kWindow), nullptr);
  EXPECT_EQ(pool.Find(id, kWindow + 1), nullptr);
  EXPECT_EQ(pool.Find({2, id.key}, kWindow), nullptr);
  EXPECT_EQ(pool.Find({UINT32_MAX, id.key}, kWindow), nullptr);
  pool.Release(id.number);
  EXPECT_EQ(pool.Find(id, kWindow), nullptr);
}

TEST(ContextPool, NothingOfTheFormerOwnerRemains) {
  std::vector<Context> storage(1);
  ContextPool pool(storage, 1);
  ASSERT_TRUE(pool.Acquire(kWindow).has_value());
  pool.At(0).tid = 99;
  pool.At(0).arrived = 1;
  pool.At(0).is_own = true;
  pool.At(0).state = ContextState::kReceived;
  pool.Release(0);
  ASSERT_TRUE(pool.Acquire(kWindow + 1).has_value());
  EXPECT_EQ(pool.At(0).tid, 0u);
  EXPECT_EQ(pool.At(0).arrived, 0u);
  EXPECT_FALSE(pool.At(0).is_own);
  EXPECT_EQ(pool.At(0).state, ContextState::kIdle);
}

TEST(ContextPool, EachOwnerHasAnotherKey) {
  std::vector<Context> storage(3);
  ContextPool pool(storage, 1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const ContextId id = pool.Acquire(kWindow).value();
    EXPECT_TRUE(seen.insert(id.value()).second);
    EXPECT_EQ(ContextId::Of(id.value()), id);
    pool.Release(id.number);
  }
}

// The number of acquisitions has 24 bits. When it wraps, the recoveries in the
// key do not change.
TEST(ContextPool, AKeyThatWrapsKeepsItsRecoveries) {
  std::vector<Context> storage(1);
  ContextPool pool(storage, 1);
  const uint32_t recoveries = pool.Acquire(kWindow)->key >> 24;
  pool.At(0).key |= 0xffffff;
  pool.Release(0);
  EXPECT_EQ(pool.Acquire(kWindow)->key, recoveries << 24);
}

TEST(ContextPool, ARecoveryFreesAllAndChangesAllKeys) {
  std::vector<Context> storage(4);
  ContextPool pool(storage, 1);
  std::set<uint64_t> seen;
  // More recoveries than a key has bits for.
  for (int recovery = 0; recovery < 300; ++recovery) {
    for (uint32_t i = 0; i < 4; ++i)
      EXPECT_TRUE(seen.insert(pool.Acquire(kWindow)->value()).second);
    EXPECT_FALSE(pool.Acquire(kWindow).has_value());
    pool.OnRecovery();
    EXPECT_EQ(pool.free(), 4u);
  }
}

TEST(ContextPool, ARecoveryLeavesFreeContextsInTheirOrder) {
  std::vector<Context> storage(4);
  ContextPool pool(storage, 1);
  ASSERT_EQ(pool.Acquire(kWindow)->number, 0u);
  ASSERT_EQ(pool.Acquire(kWindow)->number, 1u);
  pool.OnRecovery();
  for (const uint32_t i : {2, 3, 0, 1})
    EXPECT_EQ(pool.Acquire(kWindow)->number, i);
}

TEST(ContextPool, KeysOfTwoIncarnationsDiffer) {
  std::vector<Context> first_storage(1000);
  std::vector<Context> second_storage(1000);
  ContextPool first(first_storage, 1);
  ContextPool second(second_storage, 2);
  uint32_t same = 0;
  for (int i = 0; i < 1000; ++i)
    same += first.Acquire(kWindow) == second.Acquire(kWindow);
  EXPECT_EQ(same, 0u);
}

// The free list and the list of contexts that send use the same field.
TEST(ContextPoolDeathTest, AContextThatSendsIsNotReleased) {
  std::vector<Context> storage(1);
  ContextPool pool(storage, 1);
  ASSERT_TRUE(pool.Acquire(kWindow).has_value());
  pool.At(0).state = ContextState::kSending;
  EXPECT_DEATH(pool.Release(0), "kSending");
}

}  // namespace
}  // namespace urnic::rud
