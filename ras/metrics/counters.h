#pragma once

// Sums since an object was made, one list for each kind of object. Plain data:
// their owner defines who writes them and when they may be read.

#include <cstddef>
#include <cstdint>

#include "ras/metrics/rx_verdict.h"

namespace urnic {

struct RequesterCounters {
#define URNIC_REQUESTER_COUNTER(name, text) uint64_t name = 0;
#include "ras/metrics/requester_counters.def"
#undef URNIC_REQUESTER_COUNTER

  void Add(const RequesterCounters& other) {
#define URNIC_REQUESTER_COUNTER(name, text) name += other.name;
#include "ras/metrics/requester_counters.def"
#undef URNIC_REQUESTER_COUNTER
  }
};

// Those that a verdict tells are zero until AddVerdicts().
struct RoceCounters {
#define URNIC_ROCE_COUNTER(name, text) uint64_t name = 0;
#include "ras/metrics/roce_counters.def"
#undef URNIC_ROCE_COUNTER

  // REQUIRES: called once.
  void AddVerdicts(const uint64_t (&verdicts)[kRxVerdictCount]) {
    const auto count = [&verdicts](RxVerdict verdict) {
      return verdicts[static_cast<size_t>(verdict)];
    };
    duplicate_request +=
        count(RxVerdict::kDuplicate) + count(RxVerdict::kDuplicateGone);
    out_of_buffer += count(RxVerdict::kRnrNak) + count(RxVerdict::kNoReceive);
    // Of RC, the responder counts these two: not every one has a verdict of its
    // own.
    resp_local_length_error += count(RxVerdict::kTooLong);
    resp_remote_access_errors += count(RxVerdict::kRefusedWrite);
    rp_cnp_handled += count(RxVerdict::kCnp);
    rp_cnp_ignored += count(RxVerdict::kCnpIgnored);
    rx_icrc_encapsulated += count(RxVerdict::kBadIcrc);
  }
};

struct IwarpCounters {
#define URNIC_IWARP_COUNTER(name, text) uint64_t name = 0;
#include "ras/metrics/iwarp_counters.def"
#undef URNIC_IWARP_COUNTER
};

// Terminates of iWARP by their errors: layer, type and code, as on the wire.
struct TerminateCounts {
  struct Entry {
    uint16_t error = 0;
    uint64_t count = 0;  // 0: this entry and those behind it are free
  };
  static constexpr size_t kErrors = 16;  // a peer can name many more
  Entry entries[kErrors] = {};
  uint64_t others = 0;  // there was no entry left

  void Count(uint16_t error) {
    for (Entry& entry : entries) {
      if (entry.count != 0 && entry.error != error) continue;
      entry.error = error;
      ++entry.count;
      return;
    }
    ++others;
  }
};

struct EngineCounters {
#define URNIC_ENGINE_COUNTER(name, text) uint64_t name = 0;
#include "ras/metrics/engine_counters.def"
#undef URNIC_ENGINE_COUNTER
  uint64_t verdicts[kRxVerdictCount] = {};
  RequesterCounters requesters;
  RoceCounters roce;
  IwarpCounters iwarp;
  TerminateCounts terminates_sent;
  TerminateCounts terminates_received;
};

struct PortCounters {
#define URNIC_PORT_COUNTER(name, text) uint64_t name = 0;
#include "ras/metrics/port_counters.def"
#undef URNIC_PORT_COUNTER
};

// Calls show(name, value, text) for each counter of a list, in its order.
template <typename Show>
void ForEachCounter(const RequesterCounters& c, Show&& show) {
#define URNIC_REQUESTER_COUNTER(name, text) show(#name, c.name, text);
#include "ras/metrics/requester_counters.def"
#undef URNIC_REQUESTER_COUNTER
}
template <typename Show>
void ForEachCounter(const RoceCounters& c, Show&& show) {
#define URNIC_ROCE_COUNTER(name, text) show(#name, c.name, text);
#include "ras/metrics/roce_counters.def"
#undef URNIC_ROCE_COUNTER
}
template <typename Show>
void ForEachCounter(const IwarpCounters& c, Show&& show) {
#define URNIC_IWARP_COUNTER(name, text) show(#name, c.name, text);
#include "ras/metrics/iwarp_counters.def"
#undef URNIC_IWARP_COUNTER
}
// Only the engine's own: the others are separate lists.
template <typename Show>
void ForEachCounter(const EngineCounters& c, Show&& show) {
#define URNIC_ENGINE_COUNTER(name, text) show(#name, c.name, text);
#include "ras/metrics/engine_counters.def"
#undef URNIC_ENGINE_COUNTER
}
template <typename Show>
void ForEachCounter(const PortCounters& c, Show&& show) {
#define URNIC_PORT_COUNTER(name, text) show(#name, c.name, text);
#include "ras/metrics/port_counters.def"
#undef URNIC_PORT_COUNTER
}

}  // namespace urnic
