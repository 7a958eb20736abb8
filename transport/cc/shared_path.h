#pragma once

// What all flows to one destination share: the window, the knowledge about the
// path, and the count of their packets in flight. So a thousand queue pairs
// load a path as one does, and each learns from the packets of all.
//
//   flow ── wants to send ──► Room() != 0, nobody waits ──► sends
//                        └──► waits, in the caller's list
//   Account() of any flow ──► LetsGo() ──► the caller takes the first that
//                                          waits, and gives it NextGrant()
//
// The caller keeps the list (datapath/engine/path_table.h), because the engine
// must run a flow that may send.
//
// All paths of a port also share its ring (PortRoom).
//
// Plain values. Thread: one at a time (the holder of the engine's token).

#include <algorithm>
#include <cstdint>

#include "transport/base/mutation.h"
#include "transport/base/time.h"
#include "transport/cc/delay_window.h"
#include "transport/cc/round_trip_counts.h"
#include "transport/cc/round_trip_estimate.h"

namespace urnic::cc {

// How many frames a port and its peer can hold. More frames in flight would be
// lost if no back-pressure stops them. Each path may use as much as it leaves
// for the others. So a single path gets half, and two paths get a third each.
struct PortRoom {
  uint32_t packets = 1024;
  uint32_t under_way = 0;

  // How many more packets a path with `mine` packets in flight may send. At
  // least one if it has none in flight, because then no acknowledgement would
  // tell it that there is room again.
  uint32_t RoomFor(uint32_t mine) const {
    const uint32_t left = packets > under_way ? packets - under_way : 0;
    if (left > mine)
      return MUTATION(fills_the_port_with_one_path, (left - mine + 1) / 2,
                      left);
    return mine == 0 ? 1 : 0;
  }
};

struct SharedPath {
  // How many packets a flow that had to wait may send at a time. With more,
  // small messages would wait longer; fewer would need more acknowledgements.
  static constexpr uint32_t kGrant = 16;

  bool started() const { return cc.most != 0; }

  // How many more packets may be in flight.
  uint32_t Room() const { return std::min(RoomInWindow(), RoomInPort()); }
  // A flow has more to send than there is room for.
  void OnFull(Time now) {
    MUTATION_SKIPS(never_finds_its_window_full)
    if (RoomInPort() >= RoomInWindow()) cc.OnFull(now);
  }
  // Whether a waiting flow may send now. There must be room for at least half
  // of the packets per acknowledgement, or of a grant. Otherwise turns would
  // become shorter and shorter.
  bool LetsGo() const {
    if (waiting == 0) return false;
    const uint32_t room = Room();
    return room >= MUTATION(lets_turns_become_short,
                            std::clamp(cc.AckEvery() / 2, 1u, kGrant), 1u) ||
           (under_way == 0 && room != 0);
  }
  // How many packets it may send. REQUIRES: LetsGo()
  uint32_t NextGrant() const { return std::min(Room(), kGrant); }

  // The part of a flow in `under_way` has changed.
  void Account(uint32_t before, uint32_t after) {
    under_way += after - before;
    if (port != nullptr) CountInPort(under_way >> cc.wire_shift);
  }
  // From now on the path belongs to this port; null: to none.
  void Use(PortRoom* other) {
    if (port != nullptr) CountInPort(0);
    port = other;
    if (port != nullptr) CountInPort(under_way >> cc.wire_shift);
  }

  // A round trip was measured. If there are several samples within a round
  // trip, only those count that took longer than expected. Otherwise the
  // estimate would forget within a round trip that some samples are long.
  void OnRoundTrip(Time now, Duration sample) {
    round_trips.Add(sample);
    if (now - estimated_at < round_trip.smoothed() &&
        sample <= round_trip.longest() && round_trip.known()) {
      return;
    }
    estimated_at = now;
    round_trip.OnSample(sample);
  }

  // A peer has reported that it holds `packets` packets of a flow behind gaps.
  void OnHeld(uint32_t packets) { most_held = std::max(most_held, packets); }
  // The peer could not hold all packets that arrived. If several flows share
  // its memory, one of them does not show how much the whole window may be, so
  // a small value is ignored.
  void OnNotHeld() {
    if (most_held * DelayWindow::kPacket > cc.quiet) cc.Tighten(most_held);
    most_held = 0;
  }

  // A path that was not used yet takes over what another path knows about the
  // same destination.
  void Adopt(const SharedPath& other) {
    if (started()) return;
    const Duration wall = cc.to_wall;
    cc = other.cc;
    cc.to_wall = wall;
    round_trip = other.round_trip;
    reordering_ns = other.reordering_ns;
    answered_at = other.answered_at;
  }

  uint32_t RoomInWindow() const {
    const uint32_t window = cc.window();
    return MUTATION(fills_the_path_each_for_itself,
                    under_way < window ? window - under_way : 0, window);
  }
  uint32_t RoomInPort() const {
    return port == nullptr ? UINT32_MAX
                           : port->RoomFor(in_port) << cc.wire_shift;
  }
  // Sets how many of the packets in flight may be in the port and in its peer.
  void CountInPort(uint32_t now_in_port) {
    MUTATION_SKIPS(counts_nothing_in_the_port)
    port->under_way += now_in_port - in_port;
    in_port = now_in_port;
  }

  DelayWindow cc;
  RoundTripEstimate round_trip;
  RoundTripCounts round_trips;
  // How long a gap waits before it is resent: as long as the path reorders.
  uint32_t reordering_ns = 0;
  uint32_t most_held = 0;  // of one flow, since the last OnNotHeld()
  uint32_t under_way = 0;  // packets in flight, and unused grants
  PortRoom* port = nullptr;
  uint32_t in_port = 0;  // our part of port->under_way
  uint32_t users = 0;    // flows that have joined
  uint32_t waiting = 0;  // flows in the caller's lists
  Time estimated_at;     // the last sample in `round_trip`
  Time answered_at;      // the last acknowledgement of new packets
};

}  // namespace urnic::cc
