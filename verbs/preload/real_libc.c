#define _GNU_SOURCE
#include "verbs/preload/real_libc.h"

#include <dlfcn.h>

struct urnic_real_libc urnic_real_libc_table;
atomic_int urnic_real_libc_known;

// Two threads may do this at once: both write the same values.
void urnic_real_libc_look_up(void) {
#define URNIC_REAL(result, name, arguments) \
  *(void**)&urnic_real_libc_table.name = dlsym(RTLD_NEXT, #name);
  URNIC_REAL_FUNCTIONS(URNIC_REAL)
#undef URNIC_REAL
  atomic_store_explicit(&urnic_real_libc_known, 1, memory_order_release);
}
