#pragma once

#include <cstdint>

#include "ras/metrics/rx_verdict.h"

namespace urnic {

// Sums since the start, written by the token holder; reading them without the
// token gives values that may be a moment old.
struct EngineCounters {
  uint64_t verdicts[kRxVerdictCount] = {};
  uint64_t iterations = 0;
  uint64_t rx_packets = 0;
  uint64_t tx_packets = 0;
  uint64_t tx_no_mbuf = 0;
  uint64_t ce_received = 0;  // ECN congestion experienced
  uint64_t placement_faults = 0;
  uint64_t loopback_packets = 0;
  uint64_t tx_source_gone = 0;  // lost: from an address that was removed
  // Of the requesters of queue pairs that are gone (transport/rc keeps those
  // of the living): request packets, those among them that were sent before,
  // and why.
  uint64_t requests_sent = 0;
  uint64_t requests_resent = 0;
  uint64_t timeouts = 0;
  uint64_t sequence_naks = 0;
  uint64_t rnr_naks = 0;
};

}  // namespace urnic
