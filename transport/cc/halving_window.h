#pragma once

// The first algorithm: additive increase, multiplicative decrease of a window
// that starts full. It knows the limit of its path (window_max, from the
// configuration) and does not probe beyond it. It paces only if the path has a
// static rate.
//
//   a loss, a time-out, a mark, a CNP   half, but two packets stay
//   a window acknowledged               a sixteenth of window_max more
//
// Marks and CNPs count once per round trip: a congested queue marks every
// packet of a flight, and those packets left before the last decision. Every
// loss counts: the transport reports at most one per round trip, and a loss
// after a repair is new information.

#include <algorithm>
#include <cstdint>

#include "transport/cc/congestion_control.h"

namespace urnic::cc {

struct HalvingWindow {
  // Two packets: a responder may delay the acknowledgement of a single packet
  // until more packets arrive.
  static constexpr uint32_t kFloor = 2;
  static constexpr uint32_t kGrowthSteps = 16;

  // Restarts the flow. `bits_per_second`: the highest rate that the flow may
  // ever use; 0: no limit. REQUIRES: max >= 1.
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
    before_cut = packets;  // this cut is never undone
  }

  Pacer pacer;
  uint32_t packets = 0;
  uint32_t packets_max = 0;
  uint32_t acked = 0;       // toward the next growth step
  uint32_t before_cut = 0;  // OnUndo() restores this
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
