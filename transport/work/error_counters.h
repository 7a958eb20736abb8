#pragma once

// Counts completions with an error, where a core makes them. `status` is not
// URNIC_WC_SUCCESS.

#include <cstdint>

#include "ras/metrics/counters.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

inline void CountSendError(uint8_t status, RoceCounters& counters) {
  ++counters.req_cqe_error;
  if (status == URNIC_WC_WR_FLUSH_ERR) ++counters.req_cqe_flush_error;
}

inline void CountReceiveError(uint8_t status, RoceCounters& counters) {
  ++counters.resp_cqe_error;
  if (status == URNIC_WC_WR_FLUSH_ERR) ++counters.resp_cqe_flush_error;
}

}  // namespace urnic
