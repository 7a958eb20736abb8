// The containers, compared with simple ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/random.h"
#include "transport/base/deadline_heap.h"
#include "transport/base/hash_index.h"

namespace urnic {
namespace {

using ::urnic::testing::Random;

TEST(DeadlineHeapTest, GivesTheSoonestLikeASearchOfAMap) {
  constexpr uint32_t kItems = 50;
  Random random(1);
  DeadlineHeap heap;
  heap.Grow(kItems);
  std::map<uint32_t, int64_t> model;
  for (int step = 0; step < 20000; ++step) {
    const uint32_t item = static_cast<uint32_t>(random.Below(kItems));
    if (random.OneIn(3)) {
      heap.Clear(item);
      model.erase(item);
    } else {
      model[item] = static_cast<int64_t>(random.Below(1000));
      heap.Set(item, Time::FromNs(model[item]));
    }
    ASSERT_EQ(heap.Has(item), model.count(item) != 0);
    int64_t soonest = Time::Infinite().ns();
    for (const auto& [i, when] : model) soonest = std::min(soonest, when);
    ASSERT_EQ(heap.next().ns(), soonest);
    if (!model.empty()) {
      ASSERT_EQ(model[heap.next_item()], soonest);
    }
  }
}

TEST(HashIndexTest, FindsWhatAMapFinds) {
  constexpr uint32_t kItems = 40;
  Random random(2);
  HashIndex index(4);  // crowded on purpose
  index.Grow(kItems);
  std::map<uint32_t, uint64_t> keys;  // by item
  for (int step = 0; step < 20000; ++step) {
    const uint32_t item = static_cast<uint32_t>(random.Below(kItems));
    if (const auto it = keys.find(item); it != keys.end()) {
      index.Remove(HashKey(7, it->second, 0), item);
      keys.erase(it);
    } else {
      keys[item] = random.Below(20);
      index.Insert(HashKey(7, keys[item], 0), item);
    }
    const uint64_t wanted = random.Below(20);
    const uint32_t found = index.Find(
        HashKey(7, wanted, 0), [&](uint32_t i) { return keys[i] == wanted; });
    size_t count = 0;
    for (const auto& [i, key] : keys) count += key == wanted ? 1 : 0;
    ASSERT_EQ(found != HashIndex::kNone, count != 0);
    if (count != 0) {
      ASSERT_EQ(keys[found], wanted);
    }
  }
}

}  // namespace
}  // namespace urnic
