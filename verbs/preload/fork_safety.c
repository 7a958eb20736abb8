#include "verbs/preload/fork_safety.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(void (*)(void)) functions[URNIC_FORK_FUNCTIONS];

static void run_in_child(void) {
  for (int i = 0; i < URNIC_FORK_FUNCTIONS; ++i) {
    void (*function)(void) = atomic_load(&functions[i]);
    if (function != NULL) function();
  }
}

void urnic_fork_safety_on(void (*in_child)(void)) {
  for (int i = 0; i < URNIC_FORK_FUNCTIONS; ++i) {
    void (*there)(void) = NULL;
    if (atomic_compare_exchange_strong(&functions[i], &there, in_child)) {
      if (i == 0) pthread_atfork(NULL, NULL, run_in_child);
      return;
    }
    if (there == in_child) return;
  }
}
