// The public functions.

#include <cerrno>

#include "verbs/regcache/cache.h"
#include "verbs/regcache/hooks.h"
#include "verbs/regcache/space.h"
#include "verbs/regcache/urnic_regcache.h"

#define URNIC_EXPORT __attribute__((visibility("default")))

using urnic::regcache::Cache;
using urnic::regcache::CacheOptions;
using urnic::regcache::CacheStats;
using urnic::regcache::Entry;
using urnic::regcache::Range;
using urnic::regcache::RangeOf;
using urnic::regcache::Registrar;
using urnic::regcache::Space;

namespace {

constexpr uint32_t kFlags =
    URNIC_REGCACHE_PAGES | URNIC_REGCACHE_KERNEL_WATCH | URNIC_REGCACHE_FAST;
constexpr uint32_t kMaxRegistrations = 1 << 20;

static_assert(urnic::regcache::kRights ==
              (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
               IBV_ACCESS_MW_BIND));

ibv_mr* RegisterByVerbs(void* pd, void* address, size_t bytes, int access) {
  return ibv_reg_mr(static_cast<ibv_pd*>(pd), address, bytes, access);
}

int DeregisterByVerbs(void*, ibv_mr* mr) { return ibv_dereg_mr(mr); }

Cache* From(urnic_regcache* cache) { return reinterpret_cast<Cache*>(cache); }

}  // namespace

extern "C" {

URNIC_EXPORT int urnic_regcache_open(ibv_pd* pd,
                                     const urnic_regcache_options* options,
                                     urnic_regcache** cache) {
  const urnic_regcache_options chosen =
      options != nullptr ? *options : urnic_regcache_options{};
  if (pd == nullptr || cache == nullptr || (chosen.flags & ~kFlags) != 0 ||
      chosen.max_registrations > kMaxRegistrations) {
    return EINVAL;
  }
  CacheOptions how;
  if (chosen.max_bytes != 0) how.max_bytes = chosen.max_bytes;
  if (chosen.max_registrations != 0) {
    how.max_registrations = chosen.max_registrations;
  }
  if (chosen.idle_seconds != 0) how.idle_ticks = chosen.idle_seconds;
  how.pages_only = (chosen.flags & URNIC_REGCACHE_PAGES) != 0;
  const bool needs_kernel = (chosen.flags & URNIC_REGCACHE_KERNEL_WATCH) != 0;

  urnic::regcache::LookUpCalls();
  Space& space = Space::Of();
  if (const int error = space.StartThreads()) return error;
  const Registrar verbs = {pd, &RegisterByVerbs, &DeregisterByVerbs};
  Cache* made = nullptr;
  how.strict = space.watches() && (chosen.flags & URNIC_REGCACHE_FAST) == 0;
  const bool usable = space.watches() || !needs_kernel;
  if (usable) made = Cache::Create(space, verbs, how);
  if (made == nullptr) {
    space.StopThreads();
    return usable ? ENOMEM : EOPNOTSUPP;
  }
  *cache = reinterpret_cast<urnic_regcache*>(made);
  return 0;
}

URNIC_EXPORT int urnic_regcache_close(urnic_regcache* cache, uint64_t* uses) {
  if (cache == nullptr) return EINVAL;
  if (Space::Of().forked()) return EIO;
  const int error = Cache::Close(From(cache), uses);
  if (error == 0) Space::Of().StopThreads();
  return error;
}

URNIC_EXPORT int urnic_regcache_get(urnic_regcache* cache, const void* address,
                                    size_t bytes, int access,
                                    urnic_regcache_use* use) {
  const Range buffer = RangeOf(address, bytes);
  if (cache == nullptr || use == nullptr || bytes == 0 ||
      buffer.end > urnic::regcache::kAddressEnd ||
      (access & IBV_ACCESS_ZERO_BASED) != 0) {
    return EINVAL;
  }
  Entry* entry = nullptr;
  const int error =
      From(cache)->Get(buffer, static_cast<uint32_t>(access), &entry);
  if (error != 0) return error;
  use->mr = entry->mr.load(std::memory_order_relaxed);
  use->registration = entry;
  return 0;
}

URNIC_EXPORT int urnic_regcache_put(urnic_regcache* cache,
                                    urnic_regcache_use* use) {
  if (cache == nullptr || use == nullptr) return EINVAL;
  if (Space::Of().forked()) return EIO;
  Entry* entry = From(cache)->EntryOf(use->registration);
  if (entry == nullptr) return EINVAL;
  const int error = From(cache)->Put(entry);
  if (error == 0) *use = {};
  return error;
}

URNIC_EXPORT void urnic_regcache_invalidate(const void* address, size_t bytes) {
  if (Space::Of().has_caches()) Space::Of().Changed(RangeOf(address, bytes));
}

URNIC_EXPORT int urnic_regcache_read_stats(urnic_regcache* cache,
                                           urnic_regcache_stats* stats) {
  if (cache == nullptr || stats == nullptr) return EINVAL;
  if (Space::Of().forked()) return EIO;
  const CacheStats now = From(cache)->ReadStats();
  *stats = {};
  stats->hits = now.hits;
  stats->misses = now.misses;
  stats->uncached = now.uncached;
  stats->invalidations = now.invalidations;
  stats->evictions = now.evictions;
  stats->idle_ends = now.idle_ends;
  stats->failed_deregs = now.failed_deregs;
  stats->bytes = now.bytes;
  stats->uses = now.uses;
  stats->registrations = now.registrations;
  stats->watch = Space::Of().watches() ? URNIC_REGCACHE_WATCH_KERNEL
                                       : URNIC_REGCACHE_WATCH_CALLS;
  return 0;
}

}  // extern "C"
