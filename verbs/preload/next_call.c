#define _GNU_SOURCE
#include "verbs/preload/next_call.h"

#include <dlfcn.h>

struct urnic_next_calls urnic_next_table;
atomic_int urnic_next_known;

// Two threads may do this concurrently: both write the same values.
void urnic_next_look_up(void) {
#define URNIC_NEXT(result, name, arguments) \
  *(void**)&urnic_next_table.name = dlsym(RTLD_NEXT, #name);
  URNIC_NEXT_FUNCTIONS(URNIC_NEXT)
#undef URNIC_NEXT
  atomic_store_explicit(&urnic_next_known, 1, memory_order_release);
}
