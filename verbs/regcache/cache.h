#pragma once

// A cache of the registrations of one domain: urnic_regcache.h has the rules.
// The public functions are a thin layer over this class, whose tests give it
// another registrar.
//
// Get() and Put() of what is registered use no lock (use_word.h, index.h). All
// else is under the lock of Space, except the calls of the registrar.

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "verbs/regcache/arena.h"
#include "verbs/regcache/entry.h"
#include "verbs/regcache/index.h"
#include "verbs/regcache/range.h"
#include "verbs/regcache/registrar.h"
#include "verbs/regcache/space.h"

namespace urnic::regcache {

struct CacheOptions {
  uint64_t max_bytes = UINT64_MAX;
  uint32_t max_registrations = 4096;
  uint32_t idle_ticks = 60;
  bool pages_only = false;
  bool strict = false;  // needs a Space that watches
};

struct CacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t uncached = 0;
  uint64_t invalidations = 0;
  uint64_t evictions = 0;
  uint64_t idle_ends = 0;
  uint64_t failed_deregs = 0;
  uint64_t bytes = 0;
  uint64_t uses = 0;
  uint32_t registrations = 0;
};

class Cache {
 public:
  // Null if there is no memory. The cache is a member of `space`, whose threads
  // run if they shall.
  static Cache* Create(Space& space, const Registrar& registrar,
                       const CacheOptions& options);
  // Deregisters all and deletes `cache`: 0. EBUSY, with the number of uses, or
  // the error of a deregistration: the cache is as it was.
  static int Close(Cache* cache, uint64_t* uses);

  // 0 or an errno. `bytes` is not 0, and the end does not overflow.
  int Get(Range buffer, uint32_t access, Entry** use) {
    if (space_.calm() && !(strict_ && space_.IsChanging())) {
      switch (index_.Find(buffer, access, use)) {
        case Index::Found::kUse:
          // Between the look and the use it may have become another.
          if ((*use)->Serves(buffer, access)) return 0;
          Put(*use);
          break;
        case Index::Found::kFull:
        case Index::Found::kNothing:
          break;
      }
    }
    return GetSlowly(buffer, access, use);
  }
  // 0, or EINVAL: not in use.
  int Put(Entry* use) {
    switch (use->word.Drop()) {
      case Word::Put::kDone:
        return 0;
      case Word::Put::kNotInUse:
        return EINVAL;
      case Word::Put::kLast:
        EndLast(use);
        return 0;
    }
    return EINVAL;
  }
  // Whether it may be one of the cache's. Null if not.
  Entry* EntryOf(void* registration) const;

  CacheStats ReadStats();

  // For Space; under its lock.
  void Invalidate(Range range);
  void Tick();
  bool HasNothingIn(uint64_t fragment) const {
    return index_.IsEmpty(fragment);
  }
  // One that must be ended, or null. For each, call End() without the lock.
  Entry* TakeEnded();
  void End(Entry* entry);
  Cache* next = nullptr;

 private:
  using Lock = Space::Lock;
  using Word = UseWord<std::atomic<uint64_t>>;
  // A registration on its way.
  struct Attempt {
    Entry* entry = nullptr;
    Range want;    // the pages of the buffer
    Range run;     // what is to be registered
    Range mapped;  // what is to be watched
    bool keep = true;
  };

  Cache(Space& space, const Registrar& registrar, const CacheOptions& options);

  void EndLast(Entry* entry);
  int GetSlowly(Range buffer, uint32_t access, Entry** use);
  // The parts of it. Those with a lock may release and take it again.
  int Begin(Range buffer, uint32_t access, Attempt* attempt, Entry** use);
  bool PagesOnly(Range scope) const;
  bool IsOnItsWay(Range buffer, uint32_t access);
  Entry* TakeFree(Lock& lock);
  bool EvictOne(Lock& lock);
  void EndHere(Lock& lock, Entry* entry);
  int MakeRoom(Lock& lock, Attempt& attempt);
  void Shrink(Attempt& attempt);
  bool Watch(const Attempt& attempt);
  int Register(Attempt& attempt, uint32_t access);
  void Publish(Attempt& attempt, ibv_mr* mr);
  void GiveUp(Attempt& attempt);

  // Under the lock.
  void Retire(Entry& entry);
  void Retired(Entry& entry, bool end);
  uint64_t CountUses() const;

  Space& space_;
  const Registrar registrar_;
  const CacheOptions options_;
  const bool strict_;
  Arena arena_;
  Index index_{arena_};
  Entry* entries_ = nullptr;

  // Under the lock. Entries up to `touched_` have been used at some time.
  uint32_t touched_ = 0;
  Entry* free_ = nullptr;
  Entry* ended_ = nullptr;
  Entry* failed_ = nullptr;  // to be deregistered again
  int dereg_error_ = 0;
  uint32_t ending_ = 0;  // calls of End() under way
  CacheStats stats_;     // without the hits of entries since the last tick
};

}  // namespace urnic::regcache
