#pragma once

// Pairs of rings inside this process, by name: `ring:NAME:a` sends to
// `ring:NAME:b`, and the reverse. A pair lives as long as the process; each end
// may be opened and closed repeatedly.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

struct rte_ring;

namespace urnic {

class DeviceGate;

struct RingEnd {
  rte_ring* rx = nullptr;
  rte_ring* tx = nullptr;
};

// Any thread. REQUIRES: EalUsable().
absl::StatusOr<RingEnd> RingEndOf(const std::string& name, int side);

// Starts or stops serving an end of a pair. The gates of both ends have a
// carrier while both are served, and each change is written to their eventfds.
// UnserveRing() frees the frames that will not be received now. REQUIRES: at
// most one gate per end at a time.
void ServeRing(const std::string& name, int side, DeviceGate* gate,
               int event_fd);
void UnserveRing(const std::string& name, int side);

}  // namespace urnic
