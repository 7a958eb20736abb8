#pragma once

#include "tests/support/rud_rings.h"
#include "transport/rud/upper/rings.h"

namespace urnic::testing {

// The rings, in the form that the upper layer needs.
inline rud::upper::RingMemory RingMemoryOf(RudRings& rings) {
  return {.sends = rings.sends.data(),
          .send_indices = &rings.send_indices,
          .send_slots = rings.send_slots.data(),
          .receives = rings.receives.data(),
          .receive_indices = &rings.receive_indices,
          .receive_slots = rings.receive_slots.data(),
          .send_count = static_cast<uint32_t>(rings.sends.size()),
          .send_slot_bytes = rings.slot_bytes,
          .receive_count = static_cast<uint32_t>(rings.receives.size()),
          .receive_slot_bytes = rings.slot_bytes};
}

}  // namespace urnic::testing
