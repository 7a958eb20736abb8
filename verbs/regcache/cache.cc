#include "verbs/regcache/cache.h"

#include <cerrno>
#include <new>

namespace urnic::regcache {

// --- Life --------------------------------------------------------------------

Cache::Cache(Space& space, const Registrar& registrar,
             const CacheOptions& options)
    : space_(space),
      registrar_(registrar),
      options_(options),
      strict_(options.strict) {}

Cache* Cache::Create(Space& space, const Registrar& registrar,
                     const CacheOptions& options) {
  Arena memory;
  void* at = memory.Allocate(sizeof(Cache));
  if (at == nullptr) return nullptr;
  Cache* cache = new (at) Cache(space, registrar, options);
  cache->entries_ = static_cast<Entry*>(
      memory.Allocate(options.max_registrations * sizeof(Entry)));
  if (cache->entries_ == nullptr) return nullptr;
  // The cache lies in the arena that it owns.
  cache->arena_.Take(memory);
  space.Join(cache);
  return cache;
}

int Cache::Close(Cache* cache, uint64_t* uses) {
  Space& space = cache->space_;
  {
    Lock lock(space);
    const uint64_t count = cache->CountUses();
    if (uses != nullptr) *uses = count;
    if (count != 0) return EBUSY;
    for (uint32_t i = 0; i < cache->touched_; ++i) {
      if (!cache->entries_[i].word.dead()) cache->Retire(cache->entries_[i]);
    }
    while (Entry* entry = Pop(cache->failed_)) Push(cache->ended_, entry);
    while (Entry* entry = cache->TakeEnded()) cache->EndHere(lock, entry);
    while (cache->ending_ != 0) lock.Wait();
    if (cache->failed_ != nullptr) return cache->dereg_error_;
  }
  space.Leave(cache);
  Arena memory;
  memory.Take(cache->arena_);
  cache->~Cache();
  return 0;
}

Entry* Cache::EntryOf(void* registration) const {
  const auto first = reinterpret_cast<uintptr_t>(entries_);
  const auto at = reinterpret_cast<uintptr_t>(registration);
  const bool within = at >= first &&
                      at < first + options_.max_registrations * sizeof(Entry) &&
                      (at - first) % sizeof(Entry) == 0;
  return within ? static_cast<Entry*>(registration) : nullptr;
}

void Cache::EndLast(Entry* entry) {
  Lock lock(space_);
  ++ending_;
  EndHere(lock, entry);
}

// --- Under the lock ----------------------------------------------------------

void Cache::Retired(Entry& entry, bool end) {
  index_.Remove(&entry);
  const uint64_t gets = entry.word.gets();
  stats_.hits += (gets - entry.gets_seen) & Word::kGetsMask;
  entry.gets_seen = gets;
  if (end) Push(ended_, &entry);
}

void Cache::Retire(Entry& entry) { Retired(entry, entry.word.Retire()); }

void Cache::Invalidate(Range range) {
  index_.Visit(range, [this](Entry& entry) {
    ++stats_.invalidations;
    Retire(entry);
  });
  if (ended_ != nullptr) space_.WakeEnder();
}

void Cache::Tick() {
  for (uint32_t i = 0; i < touched_; ++i) {
    Entry& entry = entries_[i];
    if (entry.word.dead() || entry.word.pending()) continue;
    const uint64_t gets = entry.word.gets();
    const bool used = gets != entry.gets_seen || entry.word.uses() != 0;
    stats_.hits += (gets - entry.gets_seen) & Word::kGetsMask;
    entry.gets_seen = gets;
    entry.idle_ticks = used ? 0 : entry.idle_ticks + 1;
    if (entry.idle_ticks >= options_.idle_ticks &&
        entry.word.RetireIfUnused()) {
      ++stats_.idle_ends;
      Retired(entry, true);
    }
  }
  while (Entry* entry = Pop(failed_)) Push(ended_, entry);
}

Entry* Cache::TakeEnded() {
  Entry* entry = Pop(ended_);
  if (entry != nullptr) ++ending_;
  return entry;
}

void Cache::End(Entry* entry) {
  const int error = registrar_.dereg(registrar_.context, entry->mr.load());
  Lock lock(space_);
  --ending_;
  if (error != 0) {
    dereg_error_ = error;
    ++stats_.failed_deregs;
    Push(failed_, entry);
  } else {
    stats_.bytes -= entry->range().bytes();
    --stats_.registrations;
    space_.Unwatch(entry->range());
    Push(free_, entry);
  }
  space_.Settled();
}

void Cache::EndHere(Lock& lock, Entry* entry) {
  lock.Release();
  End(entry);
  lock.Take();
}

uint64_t Cache::CountUses() const {
  uint64_t uses = 0;
  for (uint32_t i = 0; i < touched_; ++i) {
    uses += entries_[i].word.uses() + (entries_[i].word.pending() ? 1 : 0);
  }
  return uses;
}

CacheStats Cache::ReadStats() {
  Lock lock(space_);
  CacheStats stats = stats_;
  stats.uses = CountUses();
  for (uint32_t i = 0; i < touched_; ++i) {
    stats.hits +=
        (entries_[i].word.gets() - entries_[i].gets_seen) & Word::kGetsMask;
  }
  return stats;
}

// --- Room --------------------------------------------------------------------

bool Cache::EvictOne(Lock& lock) {
  Entry* victim = nullptr;
  uint64_t most = 0;
  for (uint32_t i = 0; i < touched_; ++i) {
    Entry& entry = entries_[i];
    if (entry.word.dead() || entry.word.pending() || entry.word.uses() != 0) {
      continue;
    }
    // What was used since the last tick comes last.
    const uint64_t age = 1 + uint64_t{entry.idle_ticks} * 2 +
                         (entry.word.gets() == entry.gets_seen ? 1 : 0);
    if (age > most) {
      most = age;
      victim = &entry;
    }
  }
  if (victim == nullptr) return false;
  // A use that has begun meanwhile keeps it, and the caller tries again.
  if (!victim->word.RetireIfUnused()) return true;
  ++stats_.evictions;
  Retired(*victim, false);
  ++ending_;
  EndHere(lock, victim);
  return true;
}

Entry* Cache::TakeFree(Lock& lock) {
  for (;;) {
    if (Entry* entry = Pop(free_)) return entry;
    if (touched_ < options_.max_registrations) {
      return new (&entries_[touched_++]) Entry;
    }
    if (Entry* entry = TakeEnded()) {
      EndHere(lock, entry);
    } else if (!EvictOne(lock)) {
      if (ending_ == 0) return nullptr;
      lock.Wait();
    }
  }
}

}  // namespace urnic::regcache
