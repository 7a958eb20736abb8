#pragma once

// The lock that the thread safety of verbs needs around a queue: held for some
// tens of nanoseconds, and not contended in programs that care about speed.

#include <atomic>

#include "datapath/guest/give_way.h"

namespace urnic::control {

class SpinLock {
 public:
  void Lock() {
    while (held_.exchange(true, std::memory_order_acquire)) Wait();
  }
  void Unlock() { held_.store(false, std::memory_order_release); }

 private:
  // A holder that was preempted needs the CPU more than we do.
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

// Holds the lock for a scope; a null lock (the program promised one thread at
// a time, by a thread domain) costs a branch.
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
