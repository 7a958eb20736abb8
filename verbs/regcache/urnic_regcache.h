#pragma once

// A registration cache for verbs programs (lazy deregistration): a buffer is
// registered at its first use, and stays registered for the next ones. On any
// RNIC: of libibverbs it calls ibv_reg_mr and ibv_dereg_mr only. C and C++.
//
//   struct urnic_regcache_use use;
//   int error = urnic_regcache_get(cache, buffer, bytes, access, &use);
//   ... post a request with use.mr->lkey or ->rkey, and wait for its end ...
//   urnic_regcache_put(cache, &use);
//
// What is registered. The address space is divided into fragments of 16 MB. A
// miss registers all fragments that the buffer touches, as one memory region:
// of them, the part around the buffer that is mapped without a hole and has the
// rights that `access` needs. If that fails, only the buffer's pages. So the
// region may be larger than the buffer, on both sides, and every page of it is
// allocated and pinned by the RNIC. A peer that has the rkey reaches all of it:
// URNIC_REGCACHE_PAGES is for peers that are trusted with a buffer only.
//
// When it ends. A region that is not in use is deregistered when it has been
// idle for a number of seconds; when a limit is reached, or a registration
// fails for lack of memory (the least recently used one first); and when its
// memory changes: munmap, mmap over it, mremap, madvise (DONTNEED, FREE, REMOVE
// and their variants), mprotect, brk, shmdt. A region in use whose memory
// changes is never found again, and is deregistered at its last put.
//
// What is guaranteed. A get that begins after a change of its memory has
// returned never gives a region that was registered before it. How a change is
// seen, urnic_regcache_stats.watch tells:
// - URNIC_REGCACHE_WATCH_KERNEL: the kernel reports changes (userfaultfd, Linux
//   6.7 or later, if the process may use it), also those by libc itself (free,
//   the end of a thread) and by direct system calls. Calls of the functions
//   above are intercepted in addition. Memory that the kernel does not let us
//   watch (that another userfaultfd watches; files that the process may not
//   write, mapped MAP_SHARED) is registered for each use and not kept.
// - URNIC_REGCACHE_WATCH_CALLS: only calls are intercepted. Not seen are what
//   libc does itself (free and realloc of large blocks, malloc_trim, the end of
//   a thread, dlclose) and system calls by other means. A program may tell of
//   these by urnic_regcache_invalidate.
// In neither case seen: that a mapped file becomes shorter or gets a hole
// (ftruncate, fallocate); only in calls, not by direct system calls: mprotect,
// shmat with SHM_REMAP, shmdt. URNIC_REGCACHE_FAST leaves one more gap: see
// there.
//
// Calls are intercepted where the dynamic linker finds this library before
// libc: if the program is linked with it, or with a library that is, not if it
// is loaded by dlopen. Nothing is intercepted before the first open, and two
// threads exist while a cache is open: one counts seconds and deregisters, one
// reads what the kernel reports (URNIC_REGCACHE_WATCH_KERNEL only).
//
// Threads: all functions may be called from any thread, except close, which
// must be the last call on its cache. A get that hits takes no lock; with
// URNIC_REGCACHE_WATCH_KERNEL and without URNIC_REGCACHE_FAST it makes one
// system call. None may be called in a signal handler.
//
// Fork: the cache belongs to the process that opened it. In a child every
// function gives EIO. With ibv_fork_init on a kernel that needs it
// (ibv_is_fork_initialized gives IBV_FORK_ENABLED), a child does not have the
// memory that its parent registered: use URNIC_REGCACHE_PAGES there.
//
// Errors are errno values, returned, not stored in errno.
//
// Source: the rules of lazy deregistration in docs/design/
// 0015-registration-cache.md; ibv_reg_mr(3); userfaultfd(2).

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A cache, of one protection domain. Owned by the caller of open, until close.
struct urnic_regcache;

enum urnic_regcache_flag {
  // Registers the pages of each buffer, and not the rest of their fragments.
  URNIC_REGCACHE_PAGES = 1,
  // open fails with EOPNOTSUPP if the kernel does not report changes.
  URNIC_REGCACHE_KERNEL_WATCH = 2,
  // Gets that hit do not ask the kernel, which costs several times as much as
  // the rest of a hit, and only matters with URNIC_REGCACHE_WATCH_KERNEL. The
  // kernel reports an unmapping a few microseconds after it is done, later on a
  // busy machine. If libc itself unmaps in one thread, libc maps the same
  // addresses in another, and that one calls get, all within that time, it may
  // find the old region. For programs whose large blocks do not go from thread
  // to thread, or that keep malloc from unmapping.
  URNIC_REGCACHE_FAST = 4,
};

// 0 in a member: its default.
struct urnic_regcache_options {
  uint64_t max_bytes;          // registered at most; default: no limit
  uint32_t max_registrations;  // at most 1048576; default 4096. 64 bytes each
  uint32_t idle_seconds;       // until an unused region ends; default 60
  uint32_t flags;              // urnic_regcache_flag
};

// A buffer in use. Filled by get, and cleared by put; may be copied, but only
// one copy may be given back.
struct urnic_regcache_use {
  struct ibv_mr* mr;   // covers the buffer; the cache's: do not deregister it
  void* registration;  // the cache's
};

enum urnic_regcache_watch {
  URNIC_REGCACHE_WATCH_CALLS = 1,
  URNIC_REGCACHE_WATCH_KERNEL = 2,
};

struct urnic_regcache_stats {
  uint64_t hits;
  uint64_t misses;         // gets that registered, or tried to
  uint64_t uncached;       // of them: regions that were not kept
  uint64_t invalidations;  // regions whose memory changed
  uint64_t evictions;      // regions that made room for others
  uint64_t idle_ends;      // regions that were idle for too long
  uint64_t failed_deregs;  // ibv_dereg_mr failed: tried again each second
  uint64_t bytes;          // registered now
  uint64_t uses;           // not given back yet
  uint32_t registrations;  // now, with those that wait for their last put
  uint32_t watch;          // urnic_regcache_watch
};

// Opens a cache. `options` may be null. The domain must outlive the cache.
// Errors: EINVAL (a null pointer, an unknown flag, max_registrations too
// large), EOPNOTSUPP (the flags need reports of the kernel), ENOMEM, EAGAIN (no
// thread), EIO (a child).
int urnic_regcache_open(struct ibv_pd* pd,
                        const struct urnic_regcache_options* options,
                        struct urnic_regcache** cache);

// Deregisters all, and frees the cache. With uses outstanding: EBUSY, `*uses`
// says how many (`uses` may be null), and the cache stays open and as it was.
// Another error of ibv_dereg_mr: it stays open, too. EIO (a child).
int urnic_regcache_close(struct urnic_regcache* cache, uint64_t* uses);

// Gives a region that covers the buffer and has the rights `access`
// (ibv_access_flags) or more. Each needs a put, when the last request that
// uses it is complete. One region covers the whole buffer, however many
// fragments it spans. Until the put, the caller must not unmap the buffer.
// Errors: EINVAL (`bytes` is 0, the end of the buffer overflows, access has
// IBV_ACCESS_ZERO_BASED), ENOMEM (limits are reached, and all regions are in
// use), EOVERFLOW (2^26 - 1 uses of one region), EIO (a child), and those of
// ibv_reg_mr: EFAULT if the buffer is not mapped or not writable.
int urnic_regcache_get(struct urnic_regcache* cache, const void* address,
                       size_t bytes, int access,
                       struct urnic_regcache_use* use);

// Gives back what get has given. Errors: EINVAL (not in use), EIO (a child).
int urnic_regcache_put(struct urnic_regcache* cache,
                       struct urnic_regcache_use* use);

// Tells all caches of the process that the memory of this range changes, or
// has changed. For programs that know of changes that are not seen. No region
// that overlaps it is found by a get that begins later. Takes a lock, calls
// neither malloc nor libibverbs: allocators may call it. Call it after the
// change, and if other threads may use the cache meanwhile, also before.
void urnic_regcache_invalidate(const void* address, size_t bytes);

// Fills `*stats`. Counts of hits are exact only while no get is under way.
// Errors: EINVAL (null), EIO (a child).
int urnic_regcache_read_stats(struct urnic_regcache* cache,
                              struct urnic_regcache_stats* stats);

#ifdef __cplusplus
}  // extern "C"
#endif
