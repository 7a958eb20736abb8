#pragma once

// A path: a UDP flow between two windows, with its round trip, its congestion
// window and its state. A pair of windows has several paths.
//
//   dead ──── an answer ────► living ── a time-out ──► suspect
//    ▲                          ▲                         │ an answer: living
//    └──── dead_after of silence ──────────────────────────┘
//
// A path begins as dead. A dead path gets only probes. A suspect path gets
// probes, and new units only if no path lives.

#include <algorithm>
#include <cstdint>

#include "transport/cc/shared_path.h"
#include "transport/rud/upper/lane.h"
#include "transport/rud/upper/types.h"

namespace urnic::rud::upper {

enum class PathState : uint8_t { kLiving, kSuspect, kDead };

struct Path {
  Pair* pair = nullptr;
  uint8_t number = 0;
  PathState state = PathState::kDead;
  // How much later a reordered packet may arrive, in quarters of a round trip.
  uint8_t reordering = 1;
  bool is_timed_out = false;  // since the last answer
  bool waits = false;         // for an answer, since silent_since
  Time silent_since;
  cc::SharedPath shared;
  LaneList under_way;  // in the order of their last commands
  uint64_t next_order = 1;
  uint64_t completed_order = 0;  // the latest complete one
  // What the answers of one Poll() have said. At its end, cc is told.
  bool is_touched = false;
  bool marked = false;
  uint32_t acked_packets = 0;
  uint32_t acked_bytes = 0;
  Duration sample;
  // Packets of the larger units on this path. The last packet of such a unit
  // leaves later than the first, which makes its round trip longer.
  uint8_t usual_packets = 1;
  uint8_t losses = 0;  // true ones, since `reordering` has changed

  // The round trip of a command with this number of packets. Commands with far
  // fewer packets than usual do not count: compared with their short round
  // trips, those of the others would seem to have a queue.
  void OnSample(uint32_t packets, Duration round_trip) {
    if (packets * 2 >= usual_packets) sample = round_trip;
    if (packets >= usual_packets) {
      usual_packets = static_cast<uint8_t>(packets);
    } else {
      // Moves by a sixteenth of the difference.
      usual_packets = static_cast<uint8_t>(usual_packets -
                                           (usual_packets - packets + 15) / 16);
    }
  }
  //= RFC 8985 6.2.4: each time that a loss was none, the window for reordering
  //= grows; after 16 losses that were some it shrinks
  void OnEarly() {
    losses = 0;
    if (reordering != kMostReordering) ++reordering;
  }
  void OnLost() {
    if (++losses != 16) return;
    losses = 0;
    if (reordering != 1) --reordering;
  }

  static constexpr uint8_t kMostReordering = 8;

  //= RFC 6298 2.3, 5.5: the time-out is SRTT + 4 * RTTVAR; it doubles each time
  //= that it ends
  // But it is at least two round trips: a variation that was small for a long
  // time does not predict the next burst.
  Duration TimeOut(const EndpointConfig& config, uint32_t tries) const {
    const cc::RoundTripEstimate& trip = shared.round_trip;
    const Duration base = trip.known()
                              ? std::max(trip.longest(), trip.smoothed() * 2) +
                                    config.min_time_out
                              : config.first_time_out;
    return std::min(base * (int64_t{1} << std::min<uint32_t>(tries, 20)),
                    config.max_time_out);
  }
  //= RFC 8985 6.2: a packet is lost if one that was sent later was delivered,
  //= and a round trip and a part of it for reordering have passed since it was
  //= sent
  Time LostAt(const Lane& lane) const {
    const Duration round_trip = shared.round_trip.smoothed();
    return lane.sent + Duration::Nanoseconds(round_trip.ns() +
                                             round_trip.ns() / 4 * reordering);
  }
  bool WasPassed(const Lane& lane) const {
    return lane.order < completed_order;
  }
  // When the lane's last command counts as lost.
  Time DueAt(const EndpointConfig& config, const Lane& lane) const {
    const Time end = lane.sent + TimeOut(config, lane.tries);
    return WasPassed(lane) ? std::min(end, LostAt(lane)) : end;
  }

  bool HasRoom() const { return shared.under_way < shared.cc.window(); }
  // When the pacer allows the next unit.
  Time PacedUntil() const {
    return shared.cc.pacer.active() ? shared.cc.pacer.next_send : Time();
  }
};

}  // namespace urnic::rud::upper
