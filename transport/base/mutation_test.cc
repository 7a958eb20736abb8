#include "transport/base/mutation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace urnic {
namespace {

int Value() { return MUTATION(test_gives_two, 1, 2); }

int Skip(int value) {
  MUTATION_SKIPS(test_skips)
  if (value > 0) return value;
  return 0;
}

template <typename T>
T Add(T value) {
  MUTATION_ADDS(test_adds, value += 1; value *= 2;)
  return value;
}

// What Value(), Skip(3) and Add(5) return.
std::vector<int> All() { return {Value(), Skip(3), Add(5)}; }

TEST(MutationTest, ChoosesOne) {
  EXPECT_EQ(All(), std::vector({1, 3, 5}));
  EXPECT_TRUE(mutation::Choose("test_gives_two"));
  EXPECT_EQ(All(), std::vector({2, 3, 5}));
  EXPECT_TRUE(mutation::Choose("test_skips"));
  EXPECT_EQ(All(), std::vector({1, 0, 5}));
  EXPECT_TRUE(mutation::Choose("test_adds"));
  EXPECT_EQ(All(), std::vector({1, 3, 12}));
}

TEST(MutationTest, RefusesWhatTheProgramDoesNotHave) {
  EXPECT_FALSE(mutation::Choose("test_add"));
  EXPECT_FALSE(mutation::Choose(""));
  EXPECT_EQ(All(), std::vector({1, 3, 5}));
}

}  // namespace
}  // namespace urnic
