// The protocol of presence.h, in every order. Not under TSan, which cannot
// follow the explorer's fibres.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ras/presence/presence.h"
#include "tests/support/explorer.h"

namespace urnic {
namespace {

struct ModelFences {
  static void Light() {}
  static void Heavy() { Explorer::current->FlushAll(); }
};
struct NoFences {
  static void Light() {}
  static void Heavy() {}
};

// Threads use an object, and one more ends it. True if in no order a thread
// used it after its end.
template <typename Fences>
bool NobodyUsesWhatHasEnded(int users, int preemptions, uint64_t& runs) {
  struct World {
    std::vector<std::unique_ptr<PresenceOf<ModelAtomic, Fences>>> threads;
    ModelAtomic<uint32_t> intact{1};
    bool freed = false;
    bool used_freed = false;
  };
  std::unique_ptr<World> world;
  Explorer explorer;
  bool good = false;
  runs = explorer.Explore(
      preemptions,
      [&] {
        world = std::make_unique<World>();
        std::vector<std::function<void()>> bodies;
        for (int i = 0; i < users; ++i) {
          world->threads.push_back(
              std::make_unique<PresenceOf<ModelAtomic, Fences>>());
          bodies.push_back([&world, i] {
            auto& self = *world->threads[static_cast<size_t>(i)];
            self.Enter(&*world);
            if (world->intact.load(std::memory_order_relaxed) != 0) {
              world->used_freed |= world->freed;
            }
            self.Leave();
          });
        }
        bodies.push_back([&world] {
          world->intact.store(0, std::memory_order_relaxed);
          Fences::Heavy();
          for (auto& thread : world->threads) {
            // A real one waits here. The explorer would wait forever in the
            // orders in which nobody else moves; what ends then is not freed.
            if (thread->object() != nullptr) return;
          }
          world->freed = true;
        });
        return bodies;
      },
      [&] { return !world->used_freed; }, good);
  return good;
}

TEST(PresenceProtocolTest, NobodyUsesWhatHasEndedInAnyOrder) {
  uint64_t runs = 0;
  EXPECT_TRUE(NobodyUsesWhatHasEnded<ModelFences>(1, 100, runs));
  EXPECT_GT(runs, 20u);
  EXPECT_TRUE(NobodyUsesWhatHasEnded<ModelFences>(2, 2, runs));
  EXPECT_GT(runs, 500u);
}

TEST(PresenceProtocolTest, TheExplorerFindsAMissingFence) {
  uint64_t runs = 0;
  EXPECT_FALSE(NobodyUsesWhatHasEnded<NoFences>(1, 100, runs));
}

}  // namespace
}  // namespace urnic
