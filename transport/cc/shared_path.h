#pragma once

// What all flows to one destination share: the window, what is known of the
// path, and the count of their packets under way. So a thousand queue pairs
// load a path as one does, and each learns from the packets of all.
//
//   flow ── wants to send ──► Room() != 0, nobody waits ──► sends
//                        └──► waits, in the caller's list
//   Account() of any flow ──► LetsGo() ──► the caller takes the first that
//                                          waits, and gives it NextGrant()
//
// The caller keeps the list (datapath/engine/path_table.h): a flow that may
// send is a flow that the engine must run.
//
// Plain values. Thread: one at a time (the holder of the engine's token).

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"
#include "transport/cc/delay_window.h"
#include "transport/cc/round_trip_estimate.h"

namespace urnic::cc {

struct SharedPath {
  // A flow that had to wait may send so many packets at a time: more would let
  // a small message wait longer, fewer would need more acknowledgements.
  static constexpr uint32_t kGrant = 16;

  bool started() const { return cc.most != 0; }

  // How many more packets may be under way.
  uint32_t Room() const {
    const uint32_t window = cc.window();
    return under_way < window ? window - under_way : 0;
  }
  // Whether a flow that waits may send now. Not for less than half of what an
  // acknowledgement is asked for, or a grant: turns would become ever shorter.
  bool LetsGo() const {
    return waiting != 0 && Room() >= std::clamp(cc.AckEvery() / 2, 1u, kGrant);
  }
  // How many packets it may send. REQUIRES: LetsGo()
  uint32_t NextGrant() const { return std::min(Room(), kGrant); }

  // The part of a flow in `under_way` has changed.
  void Account(uint32_t before, uint32_t after) { under_way += after - before; }

  // A round trip was measured. Of several in the time of one, only those count
  // that took longer than was expected: the others would make the estimate
  // forget in one round trip that some are long (RFC 7323, appendix G).
  void OnRoundTrip(Time now, Duration sample) {
    if (now - estimated_at < round_trip.smoothed() &&
        sample <= round_trip.longest() && round_trip.known()) {
      return;
    }
    estimated_at = now;
    round_trip.OnSample(sample);
  }

  // A path that nobody has used yet takes over what another knew of the same
  // destination.
  void Adopt(const SharedPath& other) {
    if (started()) return;
    const Duration wall = cc.to_wall;
    cc = other.cc;
    cc.to_wall = wall;
    round_trip = other.round_trip;
    reordering_ns = other.reordering_ns;
    answered_at = other.answered_at;
  }

  DelayWindow cc;
  RoundTripEstimate round_trip;
  // How long a gap waits before it is sent again: the path reorders so much.
  uint32_t reordering_ns = 0;
  uint32_t under_way = 0;  // packets, and grants that were not used yet
  uint32_t users = 0;      // flows that have joined
  uint32_t waiting = 0;    // those in the caller's lists
  Time estimated_at;       // the last sample in `round_trip`
  Time answered_at;        // the last acknowledgement of something new
};

}  // namespace urnic::cc
