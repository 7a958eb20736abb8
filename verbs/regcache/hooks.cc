#include "verbs/regcache/hooks.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "verbs/regcache/mapped_run.h"
#include "verbs/regcache/space.h"

// Called before the run-time library of a sanitizer is ready, so this file is
// not instrumented (BUILD.bazel).
#define URNIC_EXPORT __attribute__((visibility("default")))

namespace urnic::regcache {

namespace {

// Newer than the headers of Debian 12.
constexpr int kDontneedLocked = 24;
constexpr int kGuardInstall = 102;

// The real functions: of the next library, which may be another that
// intercepts them.
struct NextCalls {
  void* (*mmap)(void*, size_t, int, int, int, off_t);
  int (*munmap)(void*, size_t);
  void* (*mremap)(void*, size_t, size_t, int, ...);
  int (*madvise)(void*, size_t, int);
  int (*mprotect)(void*, size_t, int);
  int (*pkey_mprotect)(void*, size_t, int, int);
  int (*brk)(void*);
  void* (*sbrk)(intptr_t);
  void* (*shmat)(int, const void*, int);
  int (*shmdt)(const void*);
};

constinit NextCalls next_calls = {};
constinit std::atomic<int> look_up{0};  // 1: under way, 2: done

template <typename Function>
void Find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The loader may call mmap while it looks for mmap. Null: not known yet, make
// the system call.
const NextCalls* Next() {
  if (look_up.load(std::memory_order_acquire) != 2) LookUpCalls();
  return look_up.load(std::memory_order_acquire) == 2 ? &next_calls : nullptr;
}

// Tells of a change of `range` for as long as it lives. Keeps errno.
class Change {
 public:
  explicit Change(Range range) : range_(range) {
    if (!Space::Of().has_caches() || range.begin >= range.end) return;
    told_ = true;
    token_ = Space::Of().BeforeChange(range);
  }
  ~Change() {
    if (told_) Space::Of().AfterChange(token_, range_);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  const Range range_;
  bool told_ = false;
  int token_ = 0;
};

// Memory that a call has just given to the program.
void TellNew(const void* address, size_t bytes) {
  if (Space::Of().has_caches() && address != MAP_FAILED) {
    Space::Of().Changed(RangeOf(address, bytes));
  }
}

Range PagesOf(const void* address, size_t bytes) {
  return RangeOf(address, bytes).RoundedOut(kPageBytes);
}

// The mapped memory from an address on, up to the first hole: shmdt() gives no
// length, and a segment of shared memory is not longer than that.
Range MappedBehind(const void* address) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  if (!Space::Of().has_caches()) return {};
  return MappedRun({begin, kAddressEnd}, {begin, begin + kPageBytes}, false);
}

void* Map(void* address, size_t bytes, int prot, int flags, int fd,
          off_t offset) {
  const NextCalls* next = Next();
  const bool replaces = (flags & MAP_FIXED) != 0;
  void* result;
  {
    const Change change(replaces ? PagesOf(address, bytes) : Range{});
    result = next != nullptr
                 ? next->mmap(address, bytes, prot, flags, fd, offset)
                 : reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes,
                                                   prot, flags, fd, offset));
  }
  // If libc has unmapped what was there before, the caches may not know yet.
  if (!replaces) TellNew(result, bytes);
  return result;
}

bool Replaces(int advice) {
  return advice == MADV_DONTNEED || advice == MADV_FREE ||
         advice == MADV_REMOVE || advice == kDontneedLocked ||
         advice == kGuardInstall;
}

size_t SegmentBytes(int id) {
  shmid_ds segment = {};
  return Space::Of().has_caches() && shmctl(id, IPC_STAT, &segment) == 0
             ? segment.shm_segsz
             : 0;
}

}  // namespace

void LookUpCalls() {
  int expected = 0;
  if (!look_up.compare_exchange_strong(expected, 1)) return;
  Find(next_calls.mmap, "mmap");
  Find(next_calls.munmap, "munmap");
  Find(next_calls.mremap, "mremap");
  Find(next_calls.madvise, "madvise");
  Find(next_calls.mprotect, "mprotect");
  Find(next_calls.pkey_mprotect, "pkey_mprotect");
  Find(next_calls.brk, "brk");
  Find(next_calls.sbrk, "sbrk");
  Find(next_calls.shmat, "shmat");
  Find(next_calls.shmdt, "shmdt");
  look_up.store(2, std::memory_order_release);
}

}  // namespace urnic::regcache

extern "C" {

using namespace urnic::regcache;  // NOLINT: only this file's own

URNIC_EXPORT void* mmap(void* address, size_t bytes, int prot, int flags,
                        int fd, off_t offset) noexcept {
  return Map(address, bytes, prot, flags, fd, offset);
}

URNIC_EXPORT void* mmap64(void* address, size_t bytes, int prot, int flags,
                          int fd, off64_t offset) noexcept {
  return Map(address, bytes, prot, flags, fd, offset);
}

URNIC_EXPORT int munmap(void* address, size_t bytes) noexcept {
  const NextCalls* next = Next();
  const Change change(PagesOf(address, bytes));
  return next != nullptr
             ? next->munmap(address, bytes)
             : static_cast<int>(syscall(SYS_munmap, address, bytes));
}

URNIC_EXPORT void* mremap(void* old, size_t old_bytes, size_t bytes, int flags,
                          ...) noexcept {
  void* target = nullptr;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list more;
    va_start(more, flags);
    target = va_arg(more, void*);
    va_end(more);
  }
  const NextCalls* next = Next();
  void* result;
  {
    const Change from(PagesOf(old, old_bytes));
    const Change to(target != nullptr ? PagesOf(target, bytes) : Range{});
    result = next != nullptr
                 ? next->mremap(old, old_bytes, bytes, flags, target)
                 : reinterpret_cast<void*>(syscall(SYS_mremap, old, old_bytes,
                                                   bytes, flags, target));
  }
  TellNew(result, bytes);
  return result;
}

URNIC_EXPORT int madvise(void* address, size_t bytes, int advice) noexcept {
  const NextCalls* next = Next();
  const Change change(Replaces(advice) ? PagesOf(address, bytes) : Range{});
  return next != nullptr
             ? next->madvise(address, bytes, advice)
             : static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

URNIC_EXPORT int mprotect(void* address, size_t bytes, int prot) noexcept {
  const NextCalls* next = Next();
  const Change change(PagesOf(address, bytes));
  return next != nullptr
             ? next->mprotect(address, bytes, prot)
             : static_cast<int>(syscall(SYS_mprotect, address, bytes, prot));
}

URNIC_EXPORT int pkey_mprotect(void* address, size_t bytes, int prot,
                               int key) noexcept {
  const NextCalls* next = Next();
  const Change change(PagesOf(address, bytes));
  return next != nullptr ? next->pkey_mprotect(address, bytes, prot, key)
                         : static_cast<int>(syscall(SYS_pkey_mprotect, address,
                                                    bytes, prot, key));
}

// The loader calls neither of the two while it looks up functions.
URNIC_EXPORT int brk(void* end) noexcept {
  const NextCalls* next = Next();
  if (next == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  const Change change({reinterpret_cast<uint64_t>(end),
                       reinterpret_cast<uint64_t>(next->sbrk(0))});
  return next->brk(end);
}

URNIC_EXPORT void* sbrk(intptr_t bytes) noexcept {
  const NextCalls* next = Next();
  if (next == nullptr) {
    errno = ENOMEM;
    return reinterpret_cast<void*>(-1);
  }
  if (bytes >= 0) return next->sbrk(bytes);
  const auto end = reinterpret_cast<uint64_t>(next->sbrk(0));
  const Change change({end + static_cast<uint64_t>(bytes), end});
  return next->sbrk(bytes);
}

URNIC_EXPORT void* shmat(int id, const void* address, int flags) noexcept {
  const NextCalls* next = Next();
  const size_t bytes = SegmentBytes(id);
  const bool replaces = (flags & SHM_REMAP) != 0;
  void* result;
  {
    const Change change(replaces ? PagesOf(address, bytes) : Range{});
    result =
        next != nullptr
            ? next->shmat(id, address, flags)
            : reinterpret_cast<void*>(syscall(SYS_shmat, id, address, flags));
  }
  if (!replaces) TellNew(result, bytes);
  return result;
}

URNIC_EXPORT int shmdt(const void* address) noexcept {
  const NextCalls* next = Next();
  const Change change(MappedBehind(address));
  return next != nullptr ? next->shmdt(address)
                         : static_cast<int>(syscall(SYS_shmdt, address));
}

}  // extern "C"
