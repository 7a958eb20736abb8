#define _GNU_SOURCE
#include "verbs/preload/libc_call.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

// From libc_call.S: zero-terminated names, and one slot for each in their
// order.
extern const char urnic_libc_names[];
extern const char urnic_libc_names_end[];
extern void* urnic_libc_slots[];

static void* open_libc(void) {
  if (HAS_SANITIZER) return RTLD_DEFAULT;
  void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (libc == NULL) abort();  // we are linked to it
  return libc;
}

// Two threads may do this concurrently: both write the same values.
void urnic_libc_look_up(void) {
  int saved_errno = errno;
  void* libc = open_libc();
  void** slot = urnic_libc_slots;
  for (const char* name = urnic_libc_names; name < urnic_libc_names_end;
       name += strlen(name) + 1, ++slot) {
    void* address = dlsym(libc, name);
    if (address == NULL) abort();  // libc has no function of this name
    __atomic_store_n(slot, address, __ATOMIC_RELEASE);
  }
  if (libc != RTLD_DEFAULT) dlclose(libc);
  errno = saved_errno;
}
