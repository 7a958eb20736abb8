#pragma once

// Which threads are inside the RNIC, and in which object (document E 5.1.2).
// Whoever ends an object waits until nobody is inside it, without a lock; a
// thread that enters while it is inside already, from a signal handler, is
// found out.
//
//   enter:  mine = object; LightFence(); if (the object has ended) ...
//   end:    the object has ended; HeavyFence(); wait until no `mine` is the
//           object
//
// So either the thread sees that the object has ended, or the one that ends it
// sees the thread. presence_protocol_test.cc enumerates the interleavings of
// exactly this code, with its own `Atomic` and fences.

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "datapath/guest/asymmetric_fence.h"
#include "datapath/guest/monotonic_clock.h"
#include "transport/base/time.h"

namespace urnic {

// A thread has a place only where the light fence is free, so it need not be
// asked for each time: see EnterSlowly().
struct RealFences {
  static void Light() {
#ifdef __SANITIZE_THREAD__
    LightFence();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  }
  static void Heavy() { HeavyFence(); }
};

// Where one thread is. Only that thread enters and leaves; any thread reads.
template <template <typename> class Atomic, typename Fences = RealFences>
class PresenceOf {
 public:
  constexpr explicit PresenceOf(const void* object = nullptr)
      : object_(object) {}

  // False: it is inside something already.
  bool Enter(const void* object) {
    if (object_.load(std::memory_order_relaxed) != nullptr) return false;
    object_.store(object, std::memory_order_relaxed);
    Fences::Light();
    return true;
  }
  void Leave() { object_.store(nullptr, std::memory_order_release); }

  // Null: it is outside.
  const void* object() const { return object_.load(std::memory_order_acquire); }

 private:
  Atomic<const void*> object_;
};

// This thread, as no other that lives: what the thread pointer of the ABI
// (x86-64: at %fs:0) points to. One instruction. The plugin cannot have
// thread-local variables of the fast kind: what a program loads at run time has
// no room for those of DPDK.
inline uintptr_t ThisThread() {
  uintptr_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

// The place of a thread in the table of all. When the thread ends, another one
// may take it over.
struct alignas(64) ThreadPlace {
  // ThisThread(); 0: free; an odd one: the thread before it, which takes the
  // slow way because it needs full fences.
  std::atomic<uintptr_t> owner = 0;
  PresenceOf<std::atomic> presence;
  // The verb, for people; null: one that posts or polls.
  std::atomic<const char*> verb = nullptr;
  // Calls that were refused because the thread was inside, and the last one.
  std::atomic<uint32_t> nested = 0;
  std::atomic<const char*> nested_verb = nullptr;
  std::atomic<pid_t> thread = 0;  // of the owner
  std::atomic<bool> listed = false;
  ThreadPlace* next = nullptr;  // in the list of those that were ever used
};

// So many threads at once may use verbs; those of another are refused.
inline constexpr uint32_t kPlaceBits = 13;
inline constexpr uint32_t kThreadsMax = 1u << kPlaceBits;

namespace internal {
extern ThreadPlace g_places[kThreadsMax];
// Where a thread's place is, unless another one had it already.
inline ThreadPlace* HomeOf(uintptr_t thread) {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  return &g_places[(thread * kSpread) >> (64 - kPlaceBits)];
}
// For a thread that did not enter at its home: finds its place or gives it one,
// and enters. Null: it is inside already, which is noted; or there is no place
// for it, in a forked child or with too many threads.
ThreadPlace* EnterSlowly(const void* object, const char* verb);
// The place of this thread; null: it has none yet.
ThreadPlace* MyPlace();
// The first of all places; null: there is none.
ThreadPlace* FirstPlace();
// Waits a moment. False: `patience` has passed since `begin`.
bool WaitOn(Time begin, Duration patience);
}  // namespace internal

// This thread is inside `object` while this exists: for verbs that post or
// poll. False: it has been inside something before, or the process is a forked
// child, and it must be refused. Safe in signal handlers.
class Presence {
 public:
  explicit Presence(const void* object) {
    const uintptr_t thread = ThisThread();
    place_ = internal::HomeOf(thread);
    if (__builtin_expect(
            place_->owner.load(std::memory_order_relaxed) != thread ||
                !place_->presence.Enter(object),
            0)) {
      place_ = internal::EnterSlowly(object, nullptr);
    }
  }
  ~Presence() {
    if (__builtin_expect(place_ != nullptr, 1)) place_->presence.Leave();
  }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;
  explicit operator bool() const { return place_ != nullptr; }

 private:
  ThreadPlace* place_;
};

// The same for other verbs, which have a name that lives as long as the
// program.
class NamedPresence {
 public:
  NamedPresence(const void* object, const char* verb)
      : place_(internal::EnterSlowly(object, verb)) {
    if (place_ != nullptr) place_->verb.store(verb, std::memory_order_relaxed);
  }
  ~NamedPresence() {
    if (place_ == nullptr) return;
    place_->verb.store(nullptr, std::memory_order_relaxed);
    place_->presence.Leave();
  }
  NamedPresence(const NamedPresence&) = delete;
  NamedPresence& operator=(const NamedPresence&) = delete;
  explicit operator bool() const { return place_ != nullptr; }

 private:
  ThreadPlace* const place_;
};

// In a forked child: nobody enters any more. Only the thread that forked is
// there.
void CloseAllPlaces();

// While this exists, its thread counts as outside although it is inside a verb:
// it waits for the program, or runs the program's code. It uses nothing that
// another thread may end meanwhile.
class Absence {
 public:
  Absence();
  ~Absence();
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

 private:
  ThreadPlace* const place_;
  const void* object_ = nullptr;  // null: the thread was outside
  const char* verb_ = nullptr;
};

// Waits until no other thread is inside an object for which `meant` is true,
// and which nobody can enter any more. For each thread that is still inside
// after `patience` it calls late(thread, verb) once, and goes on waiting. The
// verb is null for one that posts or polls. Any thread.
template <typename Meant, typename Late>
void AwaitOthersOutside(Meant&& meant, Duration patience, Late&& late) {
  HeavyFence();
  const Time begin = MonotonicNow();
  const uintptr_t self = ThisThread();
  for (ThreadPlace* p = internal::FirstPlace(); p != nullptr; p = p->next) {
    if ((p->owner.load(std::memory_order_relaxed) & ~uintptr_t{1}) == self)
      continue;
    bool told = false;
    for (;;) {
      const void* const object = p->presence.object();
      if (object == nullptr || !meant(object)) break;
      if (internal::WaitOn(begin, patience) || told) continue;
      told = true;
      late(p->thread.load(), p->verb.load());
    }
  }
}

// Calls visit(thread, verb, times) for each thread that has called a verb
// inside a verb since the last call of this. Any thread.
template <typename F>
void TakeNested(F&& visit) {
  for (ThreadPlace* p = internal::FirstPlace(); p != nullptr; p = p->next) {
    if (const uint32_t times = p->nested.exchange(0)) {
      visit(p->thread.load(), p->nested_verb.load(), times);
    }
  }
}

}  // namespace urnic
