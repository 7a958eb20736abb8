#pragma once

// The word that decides who may use a registration, and who ends it. The only
// thing that the users of a registration share; all its operations are lock-
// free. Templated on its atomic, so that a test can enumerate interleavings.
//
// A registration is ended exactly once, by whoever makes it both dead and
// unused: Retire() or Drop() returns true to that caller alone. Dead is final
// until Start().
//
// The upper bits count uses since Start(), so that a tick sees whether there
// was one (and statistics how many) at no cost to the user.

#include <atomic>
#include <cstdint>

namespace urnic::regcache {

template <typename AtomicWord>
class UseWord {
 public:
  static constexpr uint64_t kUses = (uint64_t{1} << 26) - 1;
  static constexpr uint64_t kDead = uint64_t{1} << 26;
  static constexpr uint64_t kPending = uint64_t{1} << 27;
  static constexpr uint64_t kOneGet = uint64_t{1} << 28;

  enum class Get { kDone, kUnusable, kFull };
  enum class Put { kDone, kLast, kNotInUse };

  // Not usable yet. Only for a registration that is dead and unused.
  void Start() { word_.store(kPending); }

  // Usable from now on, unless it was retired meanwhile; the caller has a use
  // in either case.
  void Publish() {
    uint64_t old = word_.load();
    while (!word_.compare_exchange_weak(old, (old & ~kPending) + kOneGet + 1)) {
    }
  }

  // A registration that never came about.
  void Abandon() { word_.store(kDead); }

  Get TryUse() {
    uint64_t old = word_.load(std::memory_order_acquire);
    do {
      if ((old & (kDead | kPending)) != 0) return Get::kUnusable;
      if ((old & kUses) == kUses) return Get::kFull;
    } while (!word_.compare_exchange_weak(old, old + kOneGet + 1));
    return Get::kDone;
  }

  // kLast: the caller must end the registration.
  Put Drop() {
    uint64_t old = word_.load(std::memory_order_relaxed);
    do {
      if ((old & kUses) == 0) return Put::kNotInUse;
    } while (!word_.compare_exchange_weak(old, old - 1));
    return (old & (kUses | kDead)) == (kDead | 1) ? Put::kLast : Put::kDone;
  }

  // No use can begin any more. True: the caller must end the registration.
  bool Retire() {
    const uint64_t old = word_.fetch_or(kDead);
    return (old & (kUses | kDead | kPending)) == 0;
  }

  // The same, but does nothing (and returns false) while it is in use.
  bool RetireIfUnused() {
    uint64_t old = word_.load();
    do {
      if ((old & (kUses | kDead | kPending)) != 0) return false;
    } while (!word_.compare_exchange_weak(old, old | kDead));
    return true;
  }

  bool dead() const { return (word_.load() & kDead) != 0; }
  bool pending() const { return (word_.load() & kPending) != 0; }
  uint64_t uses() const { return word_.load() & kUses; }
  // Modulo 2^36.
  uint64_t gets() const { return word_.load() / kOneGet; }
  static constexpr uint64_t kGetsMask = (uint64_t{1} << 36) - 1;

 private:
  AtomicWord word_{kDead};
};

}  // namespace urnic::regcache
