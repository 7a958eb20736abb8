// Enumerates the interleavings of wake-ups (transport/rud/wake.h): the RNIC
// publishes entries while handlers become ready, look, and sleep.

#include "transport/rud/wake.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/explorer.h"

namespace urnic::rud {
namespace {

// Sets with release order: the store may be invisible when the next word is
// read.
struct ClaimWithoutFence {
  void Set() { value.store(1, std::memory_order_release); }
  bool IsSet() const { return value.load() != 0; }
  bool Take() { return value.exchange(0) != 0; }
  ModelAtomic<uint32_t> value{0};
};

// Sets `pending` again if the handler is taken, but does not look once more.
struct WithoutAnotherLook {
  template <typename PendingT, typename Handlers, typename HasUnread>
  static void Call(PendingT& pending, const Handlers& handlers,
                   HasUnread&& has_unread) {
    auto* const handler = FirstReady(handlers);
    if (handler == nullptr || !pending.Take() || !has_unread()) return;
    if (handler->ready.Take()) return handler->Wake();
    pending.Set();
  }
};

struct AsBuilt {
  template <typename... Args>
  static void Call(Args&&... args) {
    Deliver(std::forward<Args>(args)...);
  }
};

// What a handler does apart from the protocol.
enum class Habit {
  kLooksOnceMore,
  kLooksBefore,  // becomes ready, but does not look again
};

template <typename ClaimT>
struct HandlerModel {
  ClaimT ready;
  int told = 0;
  void Wake() { ++told; }
};

template <typename ClaimT>
struct WindowModel {
  ClaimT pending;
  std::vector<HandlerModel<ClaimT>*> handlers;
  ModelAtomic<uint32_t> producer{0};
  ModelAtomic<uint32_t> consumer{0};
  uint32_t published = 0;
  bool HasUnread() const { return producer.load() != consumer.load(); }
};

struct Scene {
  int windows = 1;
  int handlers = 1;
  int entries = 1;  // per window
  int preemptions = 4;
};

// One interleaving, with a thread for each window and for each handler.
template <typename ClaimT, typename DeliverT>
class Play {
 public:
  Play(const Scene& scene, Habit habit)
      : habit_(habit),
        windows_(static_cast<size_t>(scene.windows)),
        handlers_(static_cast<size_t>(scene.handlers)) {
    for (WindowModel<ClaimT>& window : windows_) {
      for (HandlerModel<ClaimT>& handler : handlers_)
        window.handlers.push_back(&handler);
      bodies_.push_back([this, &window, &scene] {
        for (int i = 0; i < scene.entries; ++i) Publish(window);
      });
    }
    for (HandlerModel<ClaimT>& handler : handlers_)
      bodies_.push_back([this, &handler] { Handle(handler); });
  }

  const std::vector<std::function<void()>>& bodies() const { return bodies_; }
  // False if there are unread entries although nobody was woken, or a window
  // waits for a handler although one is ready. Call this after all threads have
  // ended: then their stores are visible.
  bool IsGood() const {
    bool told = false;
    bool ready = false;
    for (const auto& handler : handlers_) {
      told |= handler.told != 0;
      ready |= handler.ready.IsSet();
    }
    for (const auto& window : windows_) {
      if (!window.HasUnread()) continue;
      if (!told || (ready && window.pending.IsSet())) return false;
    }
    return true;
  }

 private:
  static void CallDeliver(WindowModel<ClaimT>& window) {
    DeliverT::Call(window.pending, window.handlers,
                   [&window] { return window.HasUnread(); });
  }
  static void Publish(WindowModel<ClaimT>& window) {
    window.producer.store(++window.published, std::memory_order_release);
    window.pending.Set();
    CallDeliver(window);
  }
  // Takes all entries. True: there were some.
  bool Look() {
    bool found = false;
    for (WindowModel<ClaimT>& window : windows_) {
      const uint32_t end = window.producer.load();
      if (end == window.consumer.load()) continue;
      window.consumer.store(end);
      found = true;
    }
    return found;
  }
  void BecomeReady(HandlerModel<ClaimT>& handler) {
    handler.told = 0;  // as arming clears the descriptor
    handler.ready.Set();
    for (WindowModel<ClaimT>& window : windows_) CallDeliver(window);
  }
  // Its end means that it sleeps. If it was woken, it would look again.
  void Handle(HandlerModel<ClaimT>& handler) {
    if (habit_ == Habit::kLooksOnceMore) {
      do BecomeReady(handler);
      while (Look());
      return;
    }
    for (int i = 0; i < 2; ++i) {
      Look();
      BecomeReady(handler);
    }
  }

  const Habit habit_;
  std::vector<WindowModel<ClaimT>> windows_;
  std::vector<HandlerModel<ClaimT>> handlers_;
  std::vector<std::function<void()>> bodies_;
};

// True if all interleavings are good.
template <typename ClaimT, typename DeliverT = AsBuilt>
bool NobodySleepsOverAnEntry(const Scene& scene, uint64_t& runs,
                             Habit habit = Habit::kLooksOnceMore) {
  std::unique_ptr<Play<ClaimT, DeliverT>> play;
  Explorer explorer;
  bool good = false;
  runs = explorer.Explore(
      scene.preemptions,
      [&] {
        play = std::make_unique<Play<ClaimT, DeliverT>>(scene, habit);
        return play->bodies();
      },
      [&] { return play->IsGood(); }, good);
  return good;
}

using Built = Claim<ModelAtomic>;

TEST(WakeTest, AnEntryIsSeenInAnyOrder) {
  uint64_t runs = 0;
  EXPECT_TRUE(NobodySleepsOverAnEntry<Built>({.preemptions = 100}, runs));
  EXPECT_GT(runs, 50u);
}

TEST(WakeTest, SeveralEntriesAreSeen) {
  uint64_t runs = 0;
  EXPECT_TRUE(
      NobodySleepsOverAnEntry<Built>({.entries = 3, .preemptions = 3}, runs));
  EXPECT_GT(runs, 1000u);
}

TEST(WakeTest, SeveralHandlersOfAWindow) {
  uint64_t runs = 0;
  EXPECT_TRUE(NobodySleepsOverAnEntry<Built>(
      {.handlers = 2, .entries = 2, .preemptions = 2}, runs));
  EXPECT_GT(runs, 1000u);
}

TEST(WakeTest, OneHandlerOfTwoWindows) {
  uint64_t runs = 0;
  EXPECT_TRUE(
      NobodySleepsOverAnEntry<Built>({.windows = 2, .preemptions = 2}, runs));
  EXPECT_GT(runs, 1000u);
}

TEST(WakeTest, TwoHandlersOfTwoWindows) {
  uint64_t runs = 0;
  EXPECT_TRUE(NobodySleepsOverAnEntry<Built>(
      {.windows = 2, .handlers = 2, .preemptions = 2}, runs));
  EXPECT_GT(runs, 1000u);
}

TEST(WakeTest, TheExplorerFindsAMissingFence) {
  uint64_t runs = 0;
  EXPECT_FALSE(
      NobodySleepsOverAnEntry<ClaimWithoutFence>({.preemptions = 100}, runs));
}

TEST(WakeTest, TheExplorerFindsAHandlerThatDoesNotLookOnceMore) {
  uint64_t runs = 0;
  EXPECT_FALSE(NobodySleepsOverAnEntry<Built>({}, runs, Habit::kLooksBefore));
}

TEST(WakeTest, TheExplorerFindsAnEntryThatIsPutBackUnseen) {
  uint64_t runs = 0;
  EXPECT_FALSE((NobodySleepsOverAnEntry<Built, WithoutAnotherLook>(
      {.windows = 2, .handlers = 2, .preemptions = 2}, runs)));
}

}  // namespace
}  // namespace urnic::rud
