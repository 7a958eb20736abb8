#include "verbs/preload/event_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace urnic {
namespace {

TEST(EventSetTest, BehavesLikeASetUnderRandomUse) {
  urnic_event_set set = {};
  std::set<uint64_t> model;
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    // Few different handles, so that they recur; multiples of a structure's
    // size.
    const uint64_t handle = 192 * (1 + random() % 300);
    if (random() % 2 == 0)
      ASSERT_EQ(urnic_event_set_add(&set, handle),
                model.insert(handle).second ? 1 : 0);
    else
      ASSERT_EQ(urnic_event_set_remove(&set, handle),
                static_cast<int>(model.erase(handle)));
    ASSERT_EQ(set.count, model.size());
  }
  EXPECT_LE(set.capacity, 4096u);
  uint64_t out[512];
  const uint32_t n = urnic_event_set_peek(&set, out, 512);
  EXPECT_EQ(std::set<uint64_t>(out, out + n), model);
  EXPECT_EQ(urnic_event_set_peek(&set, out, 3), 3u);
  urnic_event_set_clear(&set);
  EXPECT_EQ(set.count, 0u);
}

TEST(EventSetTest, EmptySetHoldsNothing) {
  urnic_event_set set = {};
  uint64_t out[1];
  EXPECT_EQ(urnic_event_set_remove(&set, 5), 0);
  EXPECT_EQ(urnic_event_set_peek(&set, out, 1), 0u);
}

}  // namespace
}  // namespace urnic
