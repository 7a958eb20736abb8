#pragma once

// A completion queue of a program in the simulator, with its ring.

#include <cstdint>
#include <vector>

#include "datapath/engine/completion_queue.h"

namespace urnic::sim {

struct ProgramCq {
  static constexpr uint32_t kEntries = 64;
  ProgramCq(EngineEvents* events, void* owner)
      : ring(kEntries), queue(ring.data(), &indices, kEntries, events, owner) {}
  bool Poll(urnic_cqe& out) {
    if (indices.consumer == indices.producer) return false;
    out = ring[indices.consumer++ % kEntries];
    return true;
  }
  std::vector<urnic_cqe> ring;
  urnic_queue_indices indices = {};
  CompletionQueue queue;
};

}  // namespace urnic::sim
