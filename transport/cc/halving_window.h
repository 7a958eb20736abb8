#pragma once

// The first algorithm: additive increase, multiplicative decrease of a window
// that starts full. It knows its path's limit (window_max, from the
// configuration) and seeks nothing beyond. It paces only where the path's
// static rate asks for it.
//
//   a loss, a time-out, a mark, a CNP   half, but two packets stay
//   a window acknowledged               a sixteenth of window_max more
//
// Marks and CNPs count once in a round trip: a congested queue marks each
// packet of a flight, and the flight is from before the last decision. A loss
// counts each time: the transport reports one only once in a round trip, and
// what is lost after a repair is news.

#include <algorithm>
#include <cstdint>

#include "transport/cc/congestion_control.h"

namespace urnic::cc {

struct HalvingWindow {
  // Half of the smallest window would be one packet, whose acknowledgement a
  // responder may hold back for company.
  static constexpr uint32_t kFloor = 2;
  static constexpr uint32_t kGrowthSteps = 16;

  // A new life of the flow. REQUIRES: max >= 1. `bits_per_second`: what it may
  // take of the path whatever happens; 0: no limit.
  void Start(uint32_t max, uint64_t bits_per_second) {
    *this = HalvingWindow();
    pacer.SetRate(bits_per_second);
    packets = packets_max = before_cut = max;
  }

  uint32_t window() const { return packets; }

  void OnAck(const AckSample& sample) {
    if (sample.round_trip.ns() != 0) round_trip = sample.round_trip;
    acked += sample.packets;
    if (acked >= packets) {
      acked = 0;
      packets = std::min(packets_max,
                         packets + std::max(1u, packets_max / kGrowthSteps));
    }
    if (__builtin_expect(sample.marked, 0)) OnCnp(sample.now);
  }

  void OnLoss(Time now) { Cut(now); }
  void OnRto(Time now) { Cut(now); }

  void OnUndo() { packets = std::max(packets, before_cut); }

  void OnCnp(Time now) {
    if (cut && now - last_cut < round_trip) return;
    Cut(now);
    before_cut = packets;  // it is no mistake
  }

  Pacer pacer;
  uint32_t packets = 0;
  uint32_t packets_max = 0;
  uint32_t acked = 0;       // toward the next growth step
  uint32_t before_cut = 0;  // what OnUndo() goes back to
  bool cut = false;         // last_cut is known
  Time last_cut;
  Duration round_trip;  // the latest; zero: not known yet

 private:
  void Cut(Time now) {
    before_cut = packets;
    packets = std::max(std::min(kFloor, packets_max), packets / 2);
    acked = 0;
    cut = true;
    last_cut = now;
  }
};
static_assert(CongestionControl<HalvingWindow>);

}  // namespace urnic::cc
