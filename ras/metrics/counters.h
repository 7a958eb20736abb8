#pragma once

// Sums since an object was made, one list for each kind of object. Plain data:
// their owner defines who writes them and when they may be read.

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

struct EngineCounters {
#define URNIC_ENGINE_COUNTER(name, text) uint64_t name = 0;
#include "ras/metrics/engine_counters.def"
#undef URNIC_ENGINE_COUNTER
  uint64_t verdicts[kRxVerdictCount] = {};
  RequesterCounters requesters;
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
// Without the requesters' counters and the verdicts, which are separate lists.
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
