// Enumerates the interleavings of the snapshot interface: two tasks, and a
// command that takes something away.

#include "transport/rud/task_views.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/explorer.h"

namespace urnic::rud {
namespace {

// The same code with public members, for the mistakes below.
struct OpenViews {
  void Begin(uint32_t task) { live.fetch_or(uint64_t{1} << task); }
  void End(uint32_t task) {
    live.fetch_and(~(uint64_t{1} << task));
    snapshot.fetch_and(~(uint64_t{1} << task));
  }
  void TakeSnapshot() {
    snapshot.fetch_or(live.load());
    snapshot.fetch_and(live.load());
  }
  uint64_t ReadSnapshot() const { return snapshot.load(); }
  ModelAtomic<uint64_t> live{0};
  ModelAtomic<uint64_t> snapshot{0};
};
// As on the single processor of document C.
struct ViewsWithoutSecondLook : OpenViews {
  void TakeSnapshot() { snapshot.fetch_or(live.load()); }
};
// The bit may still be invisible when the task reads the state.
struct ViewsWithoutFence : OpenViews {
  void Begin(uint32_t task) {
    live.store(live.load() | uint64_t{1} << task, std::memory_order_release);
  }
};
struct ViewsWithoutSnapshot : OpenViews {
  void TakeSnapshot() {}
};

struct Outcome {
  bool is_safe = true;   // nobody used what was gone
  bool is_clean = true;  // at the end, the snapshot is zero
  uint64_t runs = 0;
};

template <typename Views>
Outcome Explore(int rounds) {
  struct World {
    Views views;
    ModelAtomic<uint32_t> is_there{1};
    uint32_t users = 0;  // tasks that use it now
    bool used_gone = false;
  };
  std::unique_ptr<World> world;
  Outcome outcome;
  const auto task = [&](uint32_t number) {
    for (int i = 0; i < rounds; ++i) {
      world->views.Begin(number);
      if (world->is_there.load() != 0) {
        ++world->users;
        static_cast<void>(world->is_there.load());  // other threads may run
                                                    // here
        --world->users;
      }
      world->views.End(number);
    }
  };
  Explorer explorer;
  bool good = false;
  outcome.runs = explorer.Explore(
      3,
      [&] {
        world = std::make_unique<World>();
        return std::vector<std::function<void()>>{
            [&] { task(0); }, [&] { task(1); },
            [&] {
              world->is_there.store(0);
              world->views.TakeSnapshot();
              if (world->views.ReadSnapshot() == 0)
                world->used_gone |= world->users != 0;
            }};
      },
      [&] {
        outcome.is_safe &= !world->used_gone;
        outcome.is_clean &= world->views.ReadSnapshot() == 0;
        return outcome.is_safe && outcome.is_clean;
      },
      good);
  return outcome;
}

TEST(TaskViewsTest, NobodyUsesWhatIsGoneAndNobodyIsWaitedForInVain) {
  for (const int rounds : {1, 2}) {
    const Outcome outcome = Explore<TaskViews<ModelAtomic>>(rounds);
    EXPECT_TRUE(outcome.is_safe);
    EXPECT_TRUE(outcome.is_clean);
    EXPECT_GT(outcome.runs, 1000u);
  }
}

TEST(TaskViewsTest, MistakesAreFound) {
  EXPECT_FALSE(Explore<ViewsWithoutSecondLook>(1).is_clean);
  EXPECT_FALSE(Explore<ViewsWithoutFence>(1).is_safe);
  EXPECT_FALSE(Explore<ViewsWithoutSnapshot>(1).is_safe);
}

}  // namespace
}  // namespace urnic::rud
