// A get that finds nothing: what is registered, and how it gets into the index.
//
// The entry is in the index before anything is asked about its memory. So a
// change that comes at any later moment finds it, and it is then used this once
// and not kept.

#include <time.h>

#include <cerrno>

#include "verbs/regcache/cache.h"
#include "verbs/regcache/mapped_run.h"

namespace urnic::regcache {

namespace {

// IBV_ACCESS_LOCAL_WRITE. Remote writes and atomics need it, too.
constexpr uint32_t kLocalWrite = 1;
// Between two looks at a change of the kernel that takes microseconds.
constexpr long kPauseNs = 20'000;

// Errors that fewer registrations may cure.
bool IsShortage(int error) {
  return error == ENOMEM || error == EAGAIN || error == ENOSPC ||
         error == EMFILE;
}

}  // namespace

int Cache::GetSlowly(Range buffer, uint32_t access, Entry** use) {
  if (space_.forked()) return EIO;
  while (strict_ && space_.IsChanging()) {
    const timespec pause = {0, kPauseNs};
    nanosleep(&pause, nullptr);
  }
  Attempt attempt;
  int error = Begin(buffer, access, &attempt, use);
  if (error != 0 || attempt.entry == nullptr) return error;
  if (space_.watches() || attempt.run != attempt.want) {
    attempt.mapped = MappedRun(attempt.want.RoundedOut(kFragmentBytes),
                               attempt.want, (access & kLocalWrite) != 0);
  }
  {
    Lock lock(space_);
    error = MakeRoom(lock, attempt);
  }
  if (error == 0) error = Register(attempt, access);
  if (error != 0) {
    GiveUp(attempt);
    return error;
  }
  *use = attempt.entry;
  return 0;
}

bool Cache::PagesOnly(Range scope) const {
  if (options_.pages_only) return true;
  for (uint64_t f = scope.begin >> kFragmentBits;
       f < scope.end >> kFragmentBits; ++f) {
    if (index_.pages_until(f) > space_.ticks()) return true;
  }
  return false;
}

bool Cache::IsOnItsWay(Range buffer, uint32_t access) {
  bool found = false;
  index_.Visit(buffer, [&](Entry& entry) {
    found |= entry.word.pending() && entry.Serves(buffer, access);
  });
  return found;
}

// Leaves attempt->entry null if `*use` was found after all.
int Cache::Begin(Range buffer, uint32_t access, Attempt* attempt, Entry** use) {
  Lock lock(space_);
  Entry* entry = nullptr;
  for (;;) {
    const Index::Found found = index_.Find(buffer, access, use);
    if (found != Index::Found::kNothing) {
      if (entry != nullptr) Push(free_, entry);
      return found == Index::Found::kUse ? 0 : EOVERFLOW;
    }
    if (IsOnItsWay(buffer, access)) {
      lock.Wait();
    } else if (entry != nullptr) {
      break;
    } else if ((entry = TakeFree(lock)) == nullptr) {
      return ENOMEM;
    }
  }
  ++stats_.misses;
  attempt->want = buffer.RoundedOut(kPageBytes);
  attempt->run = attempt->want.RoundedOut(kFragmentBytes);
  if (PagesOnly(attempt->run)) attempt->run = attempt->want;
  entry->set_range(attempt->run);
  entry->access.store(access, std::memory_order_relaxed);
  entry->idle_ticks = 0;
  entry->gets_seen = 0;
  if (!index_.Insert(entry)) {
    Push(free_, entry);
    return ENOMEM;
  }
  entry->word.Start();
  ++stats_.registrations;
  attempt->entry = entry;
  return 0;
}

int Cache::MakeRoom(Lock& lock, Attempt& attempt) {
  if (attempt.run != attempt.want) attempt.run = attempt.mapped;
  for (;;) {
    attempt.run = space_.Calm(attempt.run, attempt.want);
    if (attempt.run.bytes() <= options_.max_bytes &&
        stats_.bytes <= options_.max_bytes - attempt.run.bytes()) {
      break;
    }
    if (Entry* entry = TakeEnded()) {
      EndHere(lock, entry);
    } else if (attempt.want.bytes() <= options_.max_bytes && EvictOne(lock)) {
      continue;
    } else if (attempt.run != attempt.want) {
      attempt.run = attempt.want;
    } else if (ending_ != 0) {
      lock.Wait();
    } else {
      attempt.run = {};
      return ENOMEM;
    }
  }
  index_.Narrow(attempt.entry, attempt.run);
  stats_.bytes += attempt.run.bytes();
  return 0;
}

void Cache::Shrink(Attempt& attempt) {
  Lock lock(space_);
  stats_.bytes -= attempt.run.bytes() - attempt.want.bytes();
  attempt.run = attempt.want;
  index_.Narrow(attempt.entry, attempt.run);
}

bool Cache::Watch(const Attempt& attempt) {
  if (!space_.watches()) return true;
  KernelWatch& kernel = space_.kernel();
  return (kernel.Watch(attempt.mapped) || kernel.Watch(attempt.want)) &&
         kernel.IsWatched(attempt.run);
}

int Cache::Register(Attempt& attempt, uint32_t access) {
  for (;;) {
    attempt.keep = Watch(attempt);
    if (!attempt.keep && attempt.run != attempt.want) {
      Shrink(attempt);
      continue;
    }
    ibv_mr* mr = registrar_.reg(registrar_.context,
                                reinterpret_cast<void*>(attempt.run.begin),
                                attempt.run.bytes(), static_cast<int>(access));
    if (mr != nullptr) {
      Publish(attempt, mr);
      return 0;
    }
    const int error = errno;
    if (attempt.run != attempt.want) {
      Shrink(attempt);
      // The next buffers of these fragments would fail in the same way.
      Lock lock(space_);
      const Range all = attempt.want.RoundedOut(kFragmentBytes);
      for (uint64_t at = all.begin; at < all.end; at += kFragmentBytes) {
        index_.set_pages_until(at >> kFragmentBits,
                               space_.ticks() + options_.idle_ticks);
      }
      continue;
    }
    if (!IsShortage(error)) return error;
    Lock lock(space_);
    if (Entry* entry = TakeEnded()) {
      EndHere(lock, entry);
    } else if (!EvictOne(lock)) {
      return error;
    }
  }
}

void Cache::Publish(Attempt& attempt, ibv_mr* mr) {
  Lock lock(space_);
  Entry& entry = *attempt.entry;
  entry.mr.store(mr);
  if (!attempt.keep && !entry.word.dead()) Retire(entry);
  entry.word.Publish();
  --stats_.hits;  // the word counts this use among them
  if (entry.word.dead()) {
    ++stats_.uncached;
  } else {
    // Those that it can stand in for.
    index_.Visit(attempt.run, [&](Entry& other) {
      if (&other != &entry && !other.word.pending() &&
          entry.Serves(other.range(),
                       other.access.load(std::memory_order_relaxed))) {
        Retire(other);
      }
    });
    if (ended_ != nullptr) space_.WakeEnder();
  }
  space_.Settled();
}

void Cache::GiveUp(Attempt& attempt) {
  Lock lock(space_);
  stats_.bytes -= attempt.run.bytes();
  --stats_.registrations;
  index_.Remove(attempt.entry);
  attempt.entry->word.Abandon();
  space_.Unwatch(attempt.want);
  Push(free_, attempt.entry);
  space_.Settled();
}

}  // namespace urnic::regcache
