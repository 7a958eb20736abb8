// Enumerates the interleavings of the token protocol (datapath/engine/token.h)
// for up to three threads.

#include "datapath/engine/token.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "datapath/engine/pending_set.h"
#include "tests/support/explorer.h"

namespace urnic {
namespace {

// The release has only release order: the store may still be invisible when the
// marks are read.
struct TokenWithoutFence {
  bool TryTake() { return held.load() == 0 && held.exchange(1) == 0; }
  bool Release(const PendingSet<ModelAtomic, 1>& pending) {
    held.store(0, std::memory_order_release);
    return pending.Any();
  }
  ModelAtomic<uint32_t> held{0};
};

// A release that does not look for marks.
struct TokenWithoutLook {
  bool TryTake() { return held.load() == 0 && held.exchange(1) == 0; }
  bool Release(const PendingSet<ModelAtomic, 1>&) {
    held.exchange(0);
    return false;
  }
  ModelAtomic<uint32_t> held{0};
};

// `threads` threads post `posts` times each. True if every interleaving serves
// every post, and never has two threads inside the engine.
template <typename TokenT>
bool NothingIsLost(int threads, int posts, int preemptions, uint64_t& runs) {
  struct World {
    TokenT token;
    PendingSet<ModelAtomic, 1> pending;
    std::vector<int> posted;
    std::vector<int> served;
    int inside = 0;
    bool overlapped = false;
  };
  std::unique_ptr<World> world;
  const auto serve = [&](uint32_t i) {
    world->overlapped |= ++world->inside > 1;
    world->served[i] = world->posted[i];
    --world->inside;
  };
  Explorer explorer;
  bool good = false;
  runs = explorer.Explore(
      preemptions,
      [&] {
        world = std::make_unique<World>();
        world->posted.assign(static_cast<size_t>(threads), 0);
        world->served.assign(static_cast<size_t>(threads), 0);
        std::vector<std::function<void()>> bodies;
        for (int t = 0; t < threads; ++t) {
          bodies.push_back([&world, &serve, t, posts] {
            for (int i = 0; i < posts; ++i) {
              const auto index = static_cast<uint32_t>(t);
              ++world->posted[index];
              Post(
                  world->token, world->pending, index, [&] { serve(index); },
                  [&] { world->pending.Drain(serve); });
            }
          });
        }
        return bodies;
      },
      [&] { return world->served == world->posted && !world->overlapped; },
      good);
  return good;
}

TEST(TokenTest, TwoPostersLoseNothingInAnyOrder) {
  uint64_t runs = 0;
  EXPECT_TRUE(NothingIsLost<Token<ModelAtomic>>(2, 1, 100, runs));
  EXPECT_GT(runs, 50u);
}

TEST(TokenTest, TwoPostersWithTwoPostsLoseNothing) {
  uint64_t runs = 0;
  EXPECT_TRUE(NothingIsLost<Token<ModelAtomic>>(2, 2, 4, runs));
  EXPECT_GT(runs, 1000u);
}

TEST(TokenTest, ThreePostersLoseNothing) {
  uint64_t runs = 0;
  EXPECT_TRUE(NothingIsLost<Token<ModelAtomic>>(3, 1, 4, runs));
  EXPECT_GT(runs, 1000u);
}

TEST(TokenTest, TheExplorerFindsAMissingFence) {
  uint64_t runs = 0;
  EXPECT_FALSE(NothingIsLost<TokenWithoutFence>(2, 1, 100, runs));
}

TEST(TokenTest, TheExplorerFindsAMissingLook) {
  uint64_t runs = 0;
  EXPECT_FALSE(NothingIsLost<TokenWithoutLook>(2, 1, 100, runs));
}

TEST(PendingSetTest, DrainVisitsEachMarkOnce) {
  PendingSet<std::atomic> set;
  constexpr uint32_t kMost = PendingSet<std::atomic>::kMaxPlaces;
  static_assert(kMost == 1u << 21);
  set.Mark(0);
  set.Reserve(kMost);
  const std::vector<uint32_t> marks = {0,    63,    64,    511,   512,
                                       4095, 32767, 32768, 65535, kMost - 1};
  for (const uint32_t mark : marks) {
    set.Mark(mark);
    set.Mark(mark);
  }
  EXPECT_TRUE(set.Any());
  std::vector<uint32_t> seen;
  set.Drain([&](uint32_t i) { seen.push_back(i); });
  EXPECT_EQ(seen, marks);
  EXPECT_FALSE(set.Any());
}

}  // namespace
}  // namespace urnic
