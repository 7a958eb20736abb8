#pragma once

// Spaces packets at a rate: says when the next one may leave.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

struct Pacer {
  // Timers fire late (the engine's by up to 16 us, those of a busy thread by
  // more). A burst makes up for a delay of at most this.
  static constexpr Duration kCatchUp = Duration::Microseconds(20);
  // The most that a transport may choose instead.
  static constexpr Duration kCatchUpMax = Duration::Milliseconds(1);

  // 0: no limit.
  void SetRate(uint64_t bits_per_second) {
    constexpr uint64_t kNsOfABytePerBit = 8'000'000'000;
    cost = bits_per_second == 0
               ? 0
               : (kNsOfABytePerBit << kFraction) / bits_per_second;
  }
  // Sets the rate to `bytes` per `time`, such as a window per round trip.
  // REQUIRES: bytes != 0 and 0 <= time <= 1 minute
  void SetRate(uint64_t bytes, Duration time) {
    const auto ns = static_cast<uint64_t>(time.ns());
    cost = std::max<uint64_t>((ns << kFraction) / bytes, 1);
  }
  bool active() const { return cost != 0; }

  // How many packets of up to `bytes` may leave now; 0 before next_send.
  // REQUIRES: active()
  uint64_t Allowed(Time now, uint32_t bytes,
                   Duration catch_up = kCatchUp) const {
    if (now < next_send) return 0;
    const Duration behind = std::min(now - next_send, catch_up);
    return 1 + (static_cast<uint64_t>(behind.ns()) << kFraction) /
                   std::max<uint64_t>(cost * bytes, 1);
  }
  // Records that `bytes` bytes have left. `catch_up`: the delay that later
  // packets may make up for.
  void OnSend(Time now, uint64_t bytes, Duration catch_up = kCatchUp) {
    const auto ns = static_cast<int64_t>(bytes * cost >> kFraction);
    next_send = std::max(next_send, now - catch_up) + Duration::Nanoseconds(ns);
  }

  // Nothing is in flight: the time since next_send was idle, not a delay.
  void Restart(Time now) { next_send = std::max(next_send, now - kCatchUp); }

  static constexpr int kFraction = 20;
  uint64_t cost = 0;  // of a byte, in ns / 2^20; 0: not active
  Time next_send;     // the pacing time
};

}  // namespace urnic::cc
