#pragma once

// The lock of a queue that makes verbs thread-safe. It is held for some tens of
// nanoseconds, and programs that care about speed do not contend for it.

#include <atomic>

#include "datapath/guest/give_way.h"

namespace urnic::control {

class SpinLock {
 public:
  void Lock() {
    while (held_.exchange(true, std::memory_order_acquire)) Wait();
  }
  bool TryLock() { return !held_.exchange(true, std::memory_order_acquire); }
  void Unlock() { held_.store(false, std::memory_order_release); }

 private:
  // Spins, and then yields, because the holder may have been preempted.
  void Wait() {
    for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
      if (spins < 100) {
        __builtin_ia32_pause();
      } else {
        GiveWay();
      }
    }
  }

  std::atomic<bool> held_{false};
};

// Holds the lock for a scope. A null lock (the program uses a thread domain,
// and so promises one thread at a time) costs a branch.
class OptionalLock {
 public:
  explicit OptionalLock(SpinLock* lock) : lock_(lock) {
    if (lock_ != nullptr) lock_->Lock();
  }
  ~OptionalLock() {
    if (lock_ != nullptr) lock_->Unlock();
  }
  OptionalLock(const OptionalLock&) = delete;
  OptionalLock& operator=(const OptionalLock&) = delete;

 private:
  SpinLock* lock_;
};

}  // namespace urnic::control
