#pragma once

// The snapshot interface of document C: whoever takes something away from the
// RNIC learns, without a lock and without stopping it, when nothing uses it any
// more.
//
// Each task (an engine: one thread at a time runs it) has a bit in the live
// view while it uses what can be taken away. A command first makes the change
// and then takes a snapshot of the live view. A task that ends clears its bit
// in both. When the snapshot is zero, all tasks have seen the change, or will:
//
//     task:     live |= bit; use; live &= ~bit; snapshot &= ~bit
//     command:  change; snapshot |= live; snapshot &= live
//
// The command's last step is for a task that has ended between the reading of
// the live view and the writing of the snapshot: document C has one processor
// there, which does both at once. task_views_test.cc enumerates the
// interleavings of exactly this code, with its own `Atomic`.

#include <atomic>
#include <cstdint>

namespace urnic::rud {

template <template <typename> class Atomic>
class TaskViews {
 public:
  static constexpr uint32_t kTasks = 64;

  // Thread: that of the task.
  void Begin(uint32_t task) { live_.fetch_or(Bit(task)); }
  void End(uint32_t task) {
    live_.fetch_and(~Bit(task));
    if ((snapshot_.load() & Bit(task)) != 0) snapshot_.fetch_and(~Bit(task));
  }

  // Thread: one at a time.
  void TakeSnapshot() {
    snapshot_.fetch_or(live_.load());
    snapshot_.fetch_and(live_.load());
  }
  // Zero: no task uses anything that was taken away before the last snapshot.
  // Any thread.
  uint64_t ReadSnapshot() const { return snapshot_.load(); }

 private:
  static constexpr uint64_t Bit(uint32_t task) { return uint64_t{1} << task; }

  alignas(64) Atomic<uint64_t> live_{0};
  alignas(64) Atomic<uint64_t> snapshot_{0};
};

// A task of a process; without views it is none, and nothing waits for it.
struct Task {
  TaskViews<std::atomic>* views = nullptr;
  uint32_t number = 0;

  // While it exists, the task uses what can be taken away.
  class Use {
   public:
    explicit Use(const Task& task) : task_(task) {
      if (task.views != nullptr) task.views->Begin(task.number);
    }
    ~Use() {
      if (task_.views != nullptr) task_.views->End(task_.number);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Task& task_;
  };
};

}  // namespace urnic::rud
