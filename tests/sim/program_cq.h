#pragma once

// A completion queue of a program in the simulator, with its ring.

#include <cstdint>
#include <vector>

#include "datapath/engine/completion_queue.h"

namespace urnic::sim {

struct ProgramCq {
  // REQUIRES: `entries` is a power of two.
  ProgramCq(EngineEvents* events, void* owner, uint32_t entries = 64)
      : ring(entries), queue(ring.data(), &indices, entries, events, owner) {}
  bool Poll(urnic_cqe& out) {
    if (indices.consumer == indices.producer) return false;
    out = ring[indices.consumer++ % ring.size()];
    return true;
  }
  std::vector<urnic_cqe> ring;
  urnic_queue_indices indices = {};
  CompletionQueue queue;
};

}  // namespace urnic::sim
