#pragma once

// Tracks whether recent traffic confirms the window. A flow that sends less
// than its window allows keeps the window, so that it is fast when it needs it.
// But after a loss only the part that was really used counts, and after five
// minutes the window shrinks.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

struct WindowValidation {
  //= RFC 7661 4.2: pipeACK samples count for three round trips, at least for
  //= one second
  static constexpr Duration kPeriodMin = Duration::Seconds(1);
  static constexpr int64_t kPeriodRoundTrips = 3;
  //= RFC 7661 5: a window may be kept for five minutes
  static constexpr Duration kPreserve = Duration::Seconds(300);

  void Start(Time now) {
    *this = WindowValidation();
    half_since = validated_at = now;
  }

  //= RFC 7661 4.2: pipeACK is the largest number of bytes acknowledged in one
  //= round trip
  uint32_t pipe_ack() const { return std::max(highest, highest_before); }

  // An acknowledgement outside of a repair. `window`: in bytes.
  void OnAck(uint32_t bytes, bool ends_round, uint64_t window, uint32_t mss,
             Time now, Duration round_trip) {
    round_bytes += std::min(bytes, UINT32_MAX - round_bytes);
    if (!ends_round) return;
    Turn(now, round_trip);
    highest = std::max(highest, round_bytes);
    round_bytes = 0;
    known = true;
    Judge(window, mss, now);
  }
  // Sending begins again after an idle time.
  void OnRestart(uint64_t window, uint32_t mss, Time now, Duration round_trip) {
    if (now - half_since >= HalfPeriod(round_trip) * 2) known = true;
    Turn(now, round_trip);
    Judge(window, mss, now);
  }
  //= RFC 7661 4.4.1: after a repair, pipeACK is undefined
  void OnRecovered(Time now) { Start(now); }

  // True: the window has not been confirmed for five minutes (more), and has
  // to shrink.
  bool TakeExpired(Time now) {
    if (validated || now - validated_at < kPreserve) return false;
    validated_at = validated_at + kPreserve;
    return true;
  }

  uint32_t round_bytes = 0;     // acknowledged in this round
  uint32_t highest = 0;         // of the rounds of this half of the period
  uint32_t highest_before = 0;  // and of the half before
  Time half_since;              // this half began
  bool known = false;           // there was a sample
  bool validated = true;
  Time validated_at;  // when it last was

 private:
  static Duration HalfPeriod(Duration round_trip) {
    return Duration::Nanoseconds(
        std::max(kPeriodMin, round_trip * kPeriodRoundTrips).ns() / 2);
  }
  void Turn(Time now, Duration round_trip) {
    const Duration half = HalfPeriod(round_trip);
    const Duration age = now - half_since;
    if (age < half) return;
    highest_before = age < half * 2 ? highest : 0;
    highest = 0;
    half_since = now;
  }
  void Judge(uint64_t window, uint32_t mss, Time now) {
    //= RFC 7661 4.3: a window is confirmed if pipeACK is undefined or at least
    //= half of the window
    // This is checked at the end of rounds. In the middle of a round, slow
    // start has already grown for acknowledgements that do not belong to a
    // sample. One packet allows for rounding.
    validated = !known || uint64_t{pipe_ack()} * 2 + mss >= window;
    if (validated) validated_at = now;
  }
};

}  // namespace urnic::cc
