#pragma once

// A path: one UDP flow between two windows, with what is known of it. A pair of
// windows has several.
//
//   dead ──── an answer ────► living ── a time-out ──► suspect
//    ▲                          ▲                         │ an answer: living
//    └──── dead_after of silence ──────────────────────────┘
//
// A path is dead at first. One that is not living gets probes, and new units
// only if none lives.

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
  // Round trips that a late packet may come later, in quarters.
  uint8_t reordering = 1;
  bool is_timed_out = false;  // since the last answer
  bool waits = false;         // for an answer, since silent_since
  Time silent_since;
  cc::SharedPath shared;
  LaneList under_way;  // in the order in which their last commands were sent
  uint64_t next_order = 1;
  uint64_t completed_order = 0;  // the latest that is complete
  // What the answers of one Poll() have said; then cc hears it.
  bool is_touched = false;
  bool marked = false;
  uint32_t acked_packets = 0;
  uint32_t acked_bytes = 0;
  Duration sample;

  static constexpr uint8_t kMostReordering = 8;

  //= RFC 6298 2.3, 5.5: the time-out is SRTT + 4 * RTTVAR; it doubles each time
  //= that it ends
  Duration TimeOut(const EndpointConfig& config, uint32_t tries) const {
    const Duration base =
        shared.round_trip.known()
            ? std::max(shared.round_trip.longest(), config.min_time_out)
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
  // When the pacer lets the next unit go.
  Time PacedUntil() const {
    return shared.cc.pacer.active() ? shared.cc.pacer.next_send : Time();
  }
};

}  // namespace urnic::rud::upper
