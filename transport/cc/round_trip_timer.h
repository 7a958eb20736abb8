#pragma once

// Measures the round trips of a flow, with a few packets at a time: those that
// end a burst of new packets and request an acknowledgement. Karn's rule: once
// a packet is resent, it is unknown which transmission was acknowledged, so the
// measurements are discarded.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

// Seq: a sequence number on a circle; `a - b` is a signed distance.
template <typename Seq>
struct RoundTripTimer {
  // The number of samples in a round trip. One is not enough, because busy
  // hosts answer some of them late.
  static constexpr uint32_t kAtATime = 8;

  struct Timed {
    Seq end;
    uint32_t since;  // ns, modulo 2^32: a round trip is shorter than 4 s
  };

  // New packets, up to `end`, were sent at `now`, and the peer will acknowledge
  // `end` immediately.
  void OnSend(Seq end, Time now) {
    if (count != kAtATime) timed[count++] = {end, Low(now)};
  }

  // Packets up to `end` are resent.
  void OnResend(Seq end) {
    count = 0;
    resent_end = end;
  }

  // Everything before `una` is acknowledged. Returns the round trip of the
  // latest packet that is, or zero if none was measured.
  Duration Take(Seq una, Time now) {
    uint32_t done = 0;
    while (done != count && una - timed[done].end >= 0) ++done;
    if (done == 0) return Duration();
    const uint32_t ns = Low(now) - timed[done - 1].since;
    std::copy(timed + done, timed + count, timed);
    count -= done;
    return Duration::Nanoseconds(ns);
  }

  Timed timed[kAtATime];  // the oldest first
  uint32_t count = 0;
  Seq resent_end;

 private:
  static uint32_t Low(Time time) { return static_cast<uint32_t>(time.ns()); }
};

}  // namespace urnic::cc
