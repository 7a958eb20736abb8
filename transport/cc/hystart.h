#pragma once

// HyStart++: leaves the first slow start before it overfills the queue of the
// path. The sign is a round trip that takes longer than in the round before.
// Because noise looks the same, it does not stop at once, but grows at a
// quarter of the speed for some rounds; if the time falls again, it was noise.
//
// It needs many measurements in a round: the transport must measure a round
// trip with each acknowledgement, not one in a round.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

struct HyStart {
  //= RFC 9406 4.3: HyStart++ uses the recommended constants
  static constexpr Duration kThresholdMin = Duration::Milliseconds(4);
  static constexpr Duration kThresholdMax = Duration::Milliseconds(16);
  static constexpr int64_t kThresholdDivisor = 8;
  static constexpr uint32_t kSamples = 8;
  static constexpr uint32_t kGrowthDivisor = 4;
  static constexpr uint32_t kConservativeRounds = 5;
  // A sender that does not pace counts at most so many packets for one
  // acknowledgement, so that its bursts stay short.
  static constexpr uint32_t kBurst = 8;

  // The factor by which the window grows more slowly now.
  uint32_t divisor() const { return conservative ? kGrowthDivisor : 1; }

  // With each acknowledgement in the first slow start. `round_trip`: zero if
  // nothing was measured. Returns true when slow start has to end.
  bool OnAck(Duration round_trip, bool ends_round) {
    if (round_trip.ns() != 0) {
      shortest = samples == 0 ? round_trip : std::min(shortest, round_trip);
      if (samples < kSamples) ++samples;
      if (samples == kSamples) Judge();
    }
    if (!ends_round) return false;
    if (conservative && ++rounds >= kConservativeRounds) {
      //= RFC 9406 4.2: conservative slow start lasts five rounds, the one in
      //= which it began included; then slow start ends
      *this = HyStart();
      return true;
    }
    shortest_before = samples != 0 ? shortest : Duration();
    samples = 0;
    return false;
  }

  bool conservative = false;
  uint8_t samples = 0;       // in this round, counted up to kSamples
  uint8_t rounds = 0;        // ends of rounds since conservative
  Duration shortest;         // in this round, if samples != 0
  Duration shortest_before;  // in the round before; zero: none
  Duration baseline;         // `shortest` when conservative growth began

 private:
  void Judge() {
    if (conservative) {
      //= RFC 9406 4.2: if the round trip falls below the baseline, the rise was
      //= noise, and slow start continues
      if (shortest < baseline) conservative = false;
      return;
    }
    if (shortest_before.ns() == 0) return;
    //= RFC 9406 4.2: the queue grows if the round trip is longer than in the
    //= last round by an eighth (at least 4 ms, at most 16 ms)
    const Duration rise = std::clamp(
        Duration::Nanoseconds(shortest_before.ns() / kThresholdDivisor),
        kThresholdMin, kThresholdMax);
    if (shortest < shortest_before + rise) return;
    conservative = true;
    baseline = shortest;
    rounds = 0;
  }
};

}  // namespace urnic::cc
