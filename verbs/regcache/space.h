#pragma once

// The address space of the process, as all its caches see it: what changes, who
// is told, and the two threads that serve the caches. One object, never
// destroyed.
//
// Its lock guards all that caches change. Under it, nobody may call malloc,
// libibverbs, or anything that unmaps: an intercepted call takes the lock, and
// the kernel makes a thread that unmaps wait for Monitor(), which takes it,
// too.

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbs/regcache/kernel_watch.h"
#include "verbs/regcache/range.h"

namespace urnic::regcache {

class Cache;

class Space {
 public:
  constexpr Space() = default;
  static Space& Of();

  class Lock {
   public:
    explicit Lock(Space& space) : space_(space) { Take(); }
    ~Lock() { Release(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void Take() { pthread_mutex_lock(&space_.mutex_); }
    void Release() { pthread_mutex_unlock(&space_.mutex_); }
    // Until something that another thread was about to do is done.
    void Wait() { pthread_cond_wait(&space_.settled_, &space_.mutex_); }

   private:
    Space& space_;
  };

  // A get may use no lock. False while events of the kernel are taken out: the
  // thread that made the change may continue, but the caches do not know yet.
  bool calm() const { return state_.load(std::memory_order_acquire) == 0; }
  // In a child of the process that opened the caches.
  bool forked() const {
    return (state_.load(std::memory_order_relaxed) & kForked) != 0;
  }
  // Whether changes are of interest to anybody.
  bool has_caches() const {
    return open_caches_.load(std::memory_order_relaxed) != 0;
  }
  bool watches() const { return kernel_.is_open(); }
  KernelWatch& kernel() { return kernel_; }
  // What a get asks that shall not miss a report. A system call.
  bool IsChanging() const { return kernel_.IsChanging(); }

  // Around a change. What is registered while it goes on leaves its range out,
  // if it can. Takes the lock.
  int BeforeChange(Range range);
  void AfterChange(int token, Range range);
  // A change that is already complete. Takes the lock.
  void Changed(Range range);

  void Join(Cache* cache);  // takes the lock, as Leave
  void Leave(Cache* cache);
  // The two threads, for as many callers as have called it. 0 or an errno.
  int StartThreads();
  void StopThreads();
  // A second has passed: idle counts. What threads do; tests call it.
  void Tick();
  // Deregisters what has ended. Not under the lock.
  void EndAll();

  // Under the lock:
  uint64_t ticks() const { return ticks_; }
  // What of `run` around `want` is not being changed.
  Range Calm(Range run, Range want) const;
  // A registration is there, or has failed, or was ended.
  void Settled() { pthread_cond_broadcast(&settled_); }
  void WakeEnder() {
    work_wanted_ = true;
    pthread_cond_signal(&work_);
  }
  // Stops watching the fragments of a range in which nothing is registered.
  void Unwatch(Range range);

 private:
  static constexpr uint32_t kReading = 1;
  static constexpr uint32_t kForked = 2;

  // A range that is being changed.
  struct Hazard {
    Range range;
    bool is_call = false;     // until AfterChange(); otherwise
    uint64_t until_tick = 0;  // until this tick
    bool InForce(uint64_t tick) const { return is_call || tick < until_tick; }
  };
  static constexpr int kMaxHazards = 64;
  static constexpr int kNoToken = -1;    // nothing was told
  static constexpr int kUncounted = -2;  // no place was free

  int AddHazard(const Hazard& hazard);
  void InvalidateAll(Range range);
  void ReadEvents();
  bool EndOne();

  static void* RunTicks(void* self);
  static void* RunMonitor(void* self);
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();
  int StartFirst();
  bool StartThread(pthread_t* thread, void* (*run)(void*), const char* name);
  void TickUntilStopped();
  void Monitor();

  std::atomic<uint32_t> state_{0};
  std::atomic<uint32_t> open_caches_{0};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t settled_ = PTHREAD_COND_INITIALIZER;
  pthread_cond_t work_ = PTHREAD_COND_INITIALIZER;
  bool work_wanted_ = false;
  Cache* caches_ = nullptr;
  uint64_t ticks_ = 0;
  std::array<Hazard, kMaxHazards> hazards_{};
  // Calls without a place among the hazards, and until when there may be other
  // such changes: meanwhile everything may be changing.
  uint32_t calls_without_place_ = 0;
  uint64_t everything_until_tick_ = 0;

  // Starting and stopping, which may wait for the threads.
  pthread_mutex_t threads_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  uint32_t thread_users_ = 0;
  bool prepared_ = false;
  bool stop_ticks_ = false;
  pthread_t ticker_{};
  pthread_t monitor_{};
  KernelWatch kernel_;
  int stop_monitor_ = -1;  // an eventfd
};

}  // namespace urnic::regcache
