#include "tests/support/alloc_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace {
// Initial-exec, so that the first use in a thread does not itself allocate.
__attribute__((tls_model("initial-exec"))) thread_local uint64_t g_allocations =
    0;
}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The sanitizer replaces malloc, but reports each use.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
    void (*on_malloc)(const volatile void*, size_t),
    void (*on_free)(const volatile void*));

namespace {
[[maybe_unused]] const int g_installed =
    __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void*, size_t) { ++g_allocations; },
        [](const volatile void*) {});
}  // namespace

#else

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++g_allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++g_allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++g_allocations;
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++g_allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, size_t bytes, int protection, int flags, int fd,
           off_t offset) noexcept {
  ++g_allocations;
  const long result =
      syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
  return reinterpret_cast<void*>(result);
}

}  // extern "C"

#endif

namespace urnic::testing {
uint64_t AllocationCount() { return g_allocations; }
}  // namespace urnic::testing
