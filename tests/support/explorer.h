#pragma once

// Enumerates the interleavings of lock-free code: every order in which the
// atomic operations of a few threads can take effect, with stores weaker than
// sequentially consistent delayed in a store buffer, as on x86. TSan cannot
// find a missing fence; this can.
//
// The code under test takes its atomics as a template parameter, and is given
// ModelAtomic.

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace urnic {

// Runs fibres one atomic operation at a time, in the order that `choices`
// gives, and records how many choices there were at each step.
class Explorer {
 public:
  static inline Explorer* current = nullptr;

  struct Fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStack]};
    std::function<void()> body;
    bool done = false;
    // Stores that other threads do not see yet, oldest first.
    std::deque<std::function<void()>> buffer;
  };

  // Runs all interleavings with at most `preemptions` switches away from a
  // thread that could continue; `start` makes the threads, `check` judges the
  // result. Returns how many were run; stops at the first that fails `check`.
  uint64_t Explore(
      int preemptions,
      const std::function<std::vector<std::function<void()>>()>& start,
      const std::function<bool()>& check, bool& all_good) {
    uint64_t runs = 0;
    std::vector<Step> path;
    all_good = true;
    current = this;
    do {
      ++runs;
      preemptions_left_ = preemptions;
      RunOnce(start(), path);
      if (!check()) {
        all_good = false;
        break;
      }
      while (!path.empty() && path.back().taken + 1 == path.back().options) {
        path.pop_back();
      }
      if (!path.empty()) ++path.back().taken;
    } while (!path.empty());
    current = nullptr;
    return runs;
  }

  // Called by an atomic before each operation. `check` runs after all threads.
  void Yield() {
    if (runs_fibre_) swapcontext(&fibres_[running_]->context, &main_);
  }
  Fibre& running() { return *fibres_[running_]; }
  // A full fence of the running thread.
  void Flush() { Flush(running()); }
  // Of all threads, as membarrier(2).
  void FlushAll() {
    for (auto& fibre : fibres_) Flush(*fibre);
  }

 private:
  static void Flush(Fibre& fibre) {
    for (auto& store : fibre.buffer) store();
    fibre.buffer.clear();
  }

  static constexpr size_t kStack = 64 * 1024;
  struct Step {
    uint32_t taken;
    uint32_t options;
  };

  static void Entry() {
    Explorer* self = current;
    Fibre& fibre = self->running();
    fibre.body();
    fibre.done = true;
    swapcontext(&fibre.context, &self->main_);
  }

  // An action is "run thread i" or "make thread i's oldest store visible".
  struct Action {
    size_t fibre;
    bool flush;
  };

  void RunOnce(std::vector<std::function<void()>> bodies,
               std::vector<Step>& path) {
    fibres_.clear();
    for (auto& body : bodies) {
      auto fibre = std::make_unique<Fibre>();
      fibre->body = std::move(body);
      getcontext(&fibre->context);
      fibre->context.uc_stack.ss_sp = fibre->stack.get();
      fibre->context.uc_stack.ss_size = kStack;
      fibre->context.uc_link = nullptr;
      makecontext(&fibre->context, &Explorer::Entry, 0);
      fibres_.push_back(std::move(fibre));
    }
    size_t step = 0;
    running_ = 0;
    for (;;) {
      std::vector<Action> actions = Actions();
      if (actions.empty()) return;
      if (step == path.size()) {
        path.push_back({0, static_cast<uint32_t>(actions.size())});
      }
      const Action action = actions[path[step++].taken];
      Fibre& fibre = *fibres_[action.fibre];
      if (action.flush) {
        fibre.buffer.front()();
        fibre.buffer.pop_front();
        continue;
      }
      if (action.fibre != running_ && !fibres_[running_]->done)
        --preemptions_left_;
      running_ = action.fibre;
      runs_fibre_ = true;
      swapcontext(&main_, &fibre.context);
      runs_fibre_ = false;
    }
  }

  std::vector<Action> Actions() const {
    std::vector<Action> actions;
    if (!fibres_[running_]->done) actions.push_back({running_, false});
    for (size_t i = 0; i < fibres_.size(); ++i) {
      if (i != running_ && !fibres_[i]->done &&
          (preemptions_left_ > 0 || fibres_[running_]->done)) {
        actions.push_back({i, false});
      }
    }
    // These come last, so that a store stays invisible as long as possible.
    for (size_t i = 0; i < fibres_.size(); ++i) {
      if (!fibres_[i]->buffer.empty()) actions.push_back({i, true});
    }
    return actions;
  }

  ucontext_t main_;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  size_t running_ = 0;
  bool runs_fibre_ = false;
  int preemptions_left_ = 0;
};

// The part of std::atomic that the protocol uses, under the explorer.
template <typename T>
class ModelAtomic {
 public:
  ModelAtomic() = default;
  ModelAtomic(T value) : value_(value) {}  // NOLINT: as std::atomic
  T load(std::memory_order = std::memory_order_seq_cst) const {
    Explorer::current->Yield();
    const auto own = pending_.find(&Explorer::current->running());
    return own != pending_.end() && !own->second.empty() ? own->second.back()
                                                         : value_;
  }
  T exchange(T value) {
    return Modify([&](T) { return value; });
  }
  T fetch_or(T bits) {
    return Modify([&](T old) { return static_cast<T>(old | bits); });
  }
  T fetch_and(T bits) {
    return Modify([&](T old) { return static_cast<T>(old & bits); });
  }
  bool compare_exchange_weak(T& expected, T desired) {
    const T old =
        Modify([&](T now) { return now == expected ? desired : now; });
    if (old == expected) return true;
    expected = old;
    return false;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    if (order == std::memory_order_seq_cst) {
      exchange(value);
      return;
    }
    Explorer::current->Yield();
    auto* fibre = &Explorer::current->running();
    pending_[fibre].push_back(value);
    fibre->buffer.push_back([this, fibre] {
      value_ = pending_[fibre].front();
      pending_[fibre].pop_front();
    });
  }

 private:
  template <typename F>
  T Modify(F&& change) {
    Explorer::current->Yield();
    Explorer::current->Flush();
    const T old = value_;
    value_ = change(old);
    return old;
  }
  T value_{};
  std::map<const void*, std::deque<T>> pending_;
};

}  // namespace urnic
