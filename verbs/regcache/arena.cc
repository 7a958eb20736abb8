#include "verbs/regcache/arena.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "verbs/regcache/range.h"

namespace urnic::regcache {

void* Arena::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  if (end_ - next_ < bytes && !Grow(bytes)) return nullptr;
  void* at = reinterpret_cast<void*>(next_);
  next_ += bytes;
  return at;
}

bool Arena::Grow(size_t bytes) {
  const size_t usable =
      (std::max(kChunkBytes, bytes + kAlignment) + kPageBytes - 1) &
      ~(kPageBytes - 1);
  const size_t all = usable + 2 * kPageBytes;
  const long at = syscall(SYS_mmap, nullptr, all, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == -1) return false;
  const auto begin = static_cast<uintptr_t>(at) + kPageBytes;
  if (syscall(SYS_mprotect, begin, usable, PROT_READ | PROT_WRITE) != 0) {
    syscall(SYS_munmap, at, all);
    return false;
  }
  chunks_ = new (reinterpret_cast<void*>(begin)) Chunk{chunks_, all};
  next_ = begin + kAlignment;
  end_ = begin + usable;
  return true;
}

Arena::~Arena() {
  while (chunks_ != nullptr) {
    Chunk* chunk = chunks_;
    chunks_ = chunk->next;
    syscall(SYS_munmap, reinterpret_cast<uintptr_t>(chunk) - kPageBytes,
            chunk->bytes);
  }
}

}  // namespace urnic::regcache
