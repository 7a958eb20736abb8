#pragma once

// A set of CQ handles (neither 0 nor UINT64_MAX), in no order. One thread at a
// time; memory comes from malloc and is bounded by the most handles ever held.

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct urnic_event_set {
  uint64_t* slots;    // open addressing; 0 is empty, UINT64_MAX deleted
  uint32_t capacity;  // power of two, or 0
  uint32_t used;      // slots that are not empty, including deleted ones
  uint32_t count;     // handles held
};

// 1 added, 0 was there already, -ENOMEM.
int urnic_event_set_add(struct urnic_event_set* set, uint64_t handle);
// 1 removed, 0 was not there.
int urnic_event_set_remove(struct urnic_event_set* set, uint64_t handle);
// Copies up to `max` handles and returns how many; they stay in the set.
uint32_t urnic_event_set_peek(const struct urnic_event_set* set, uint64_t* out,
                              uint32_t max);
// Frees the memory; the set is empty and usable.
void urnic_event_set_clear(struct urnic_event_set* set);

#ifdef __cplusplus
}
#endif
