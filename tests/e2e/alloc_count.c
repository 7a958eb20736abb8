// LD_PRELOAD for the end-to-end tests: counts the allocations of a program and
// everything in it (libibverbs, the provider, DPDK), and writes the number to
// the file URNIC_ALLOC_COUNT when the program ends. A program that replaces
// itself by exec writes nothing.

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

static atomic_ulong g_count;

static void count(void) {
  atomic_fetch_add_explicit(&g_count, 1, memory_order_relaxed);
}

void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  count();
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == NULL ? ENOMEM : 0;
}
void* mmap(void* at, size_t bytes, int protection, int flags, int fd,
           off_t offset) {
  count();
  return (void*)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("URNIC_ALLOC_COUNT");
  if (path == NULL) return;
  char text[32];
  const int bytes =
      snprintf(text, sizeof(text), "%lu\n", atomic_load(&g_count));
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, text, (size_t)bytes) != bytes) _exit(99);
  close(fd);
}
