#pragma once

// The snapshot interface of document C. Somebody who takes a resource away from
// the RNIC, such as memory, learns when the RNIC no longer uses it. This needs
// no lock and does not stop the RNIC.
//
// Each task has a bit in the live view while it uses such resources. (A task is
// an engine, which one thread at a time runs.) A command first makes the
// change, and then takes a snapshot of the live view. A task that stops using
// resources clears its bit in both. When the snapshot is zero, no task uses
// what it had before the change:
//
//     task:     live |= bit; use; live &= ~bit; snapshot &= ~bit
//     command:  change; snapshot |= live; snapshot &= live
//
// The last step of the command is for a task that ends after the command has
// read the live view and before it has written the snapshot. (Document C has
// one processor there, which does both in one step.) task_views_test.cc
// enumerates the interleavings of exactly this code, with an `Atomic` of its
// own.

#include <atomic>
#include <cstdint>

namespace urnic::rud {

template <template <typename> class Atomic>
class TaskViews {
 public:
  static constexpr uint32_t kTasks = 64;

  // Thread: the task's.
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
  // Zero: no task uses anything that was taken away before the last
  // TakeSnapshot(). Any thread.
  uint64_t ReadSnapshot() const { return snapshot_.load(); }

 private:
  static constexpr uint64_t Bit(uint32_t task) { return uint64_t{1} << task; }

  alignas(64) Atomic<uint64_t> live_{0};
  alignas(64) Atomic<uint64_t> snapshot_{0};
};

// A task of a process. Without `views`, nobody waits for it.
struct Task {
  TaskViews<std::atomic>* views = nullptr;
  uint32_t number = 0;

  // While this exists, the task may use what can be taken away.
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
