#include "verbs/preload/event_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DELETED UINT64_MAX

// Handles are addresses of equal structures: their low bits hardly differ.
static uint32_t home_of(const struct urnic_event_set* set, uint64_t handle) {
  return (uint32_t)((handle * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
         (set->capacity - 1);
}

// The slot that holds `handle`, or NULL. At least one slot is always empty.
static uint64_t* find(const struct urnic_event_set* set, uint64_t handle) {
  if (set->capacity == 0) return NULL;
  uint32_t i = home_of(set, handle);
  for (; set->slots[i] != 0; i = (i + 1) & (set->capacity - 1))
    if (set->slots[i] == handle) return &set->slots[i];
  return NULL;
}

static void insert_new(struct urnic_event_set* set, uint64_t handle) {
  uint32_t i = home_of(set, handle);
  while (set->slots[i] != 0) i = (i + 1) & (set->capacity - 1);
  set->slots[i] = handle;
  ++set->used;
  ++set->count;
}

// Makes room for one more at a load of at most one half.
static int make_room(struct urnic_event_set* set) {
  if (2 * (set->used + 1) <= set->capacity) return 0;
  struct urnic_event_set bigger = {.capacity = 64};
  while (bigger.capacity < 4 * (set->count + 1)) bigger.capacity *= 2;
  bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
  if (bigger.slots == NULL) return -ENOMEM;
  for (uint32_t i = 0; i < set->capacity; ++i)
    if (set->slots[i] != 0 && set->slots[i] != DELETED)
      insert_new(&bigger, set->slots[i]);
  free(set->slots);
  *set = bigger;
  return 0;
}

int urnic_event_set_add(struct urnic_event_set* set, uint64_t handle) {
  if (find(set, handle) != NULL) return 0;
  if (make_room(set) != 0) return -ENOMEM;
  insert_new(set, handle);
  return 1;
}

int urnic_event_set_remove(struct urnic_event_set* set, uint64_t handle) {
  uint64_t* slot = find(set, handle);
  if (slot == NULL) return 0;
  *slot = DELETED;
  if (--set->count == 0) {
    memset(set->slots, 0, set->capacity * sizeof(*set->slots));
    set->used = 0;
  }
  return 1;
}

uint32_t urnic_event_set_peek(const struct urnic_event_set* set, uint64_t* out,
                              uint32_t max) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < set->capacity && n < max; ++i)
    if (set->slots[i] != 0 && set->slots[i] != DELETED)
      out[n++] = set->slots[i];
  return n;
}

void urnic_event_set_clear(struct urnic_event_set* set) {
  free(set->slots);
  memset(set, 0, sizeof(*set));
}
