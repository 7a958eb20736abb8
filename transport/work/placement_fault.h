#pragma once

// What a fault of a placement does to the receives of its burst.

#include <cstdint>
#include <span>

#include "ras/metrics/counters.h"
#include "ras/metrics/rx_verdict.h"
#include "transport/base/mutation.h"
#include "transport/work/error_counters.h"
#include "transport/work/types.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

// `placement` has failed. The receives that its packet and later ones have
// completed end with an error: the first with URNIC_WC_LOC_PROT_ERR if a
// receive named the memory, all others as flushed. Returns the status of the
// next receive, which is not completed yet.
inline uint8_t FailReceives(const Placement& placement, RxVerdict cause,
                            std::span<RecvCompletion> completions) {
  uint8_t status =
      placement.to_receive ? URNIC_WC_LOC_PROT_ERR : URNIC_WC_WR_FLUSH_ERR;
  for (RecvCompletion& done : completions) {
    MUTATION_ADDS(keeps_faulted_completions, continue;)
    if (done.packet < placement.packet) continue;
    done = RecvCompletion{.packet = done.packet,
                          .status = status,
                          .cause = cause,
                          .sends_before = done.sends_before,
                          .wr_id = done.wr_id};
    status = URNIC_WC_WR_FLUSH_ERR;
  }
  return status;
}

// Counts those that FailReceives() has changed: nothing else makes errors of a
// burst's completions.
inline void CountFailedReceives(std::span<const RecvCompletion> completions,
                                RoceCounters& counters) {
  for (const RecvCompletion& done : completions) {
    if (done.status != URNIC_WC_SUCCESS) {
      CountReceiveError(done.status, counters);
    }
  }
}

}  // namespace urnic
