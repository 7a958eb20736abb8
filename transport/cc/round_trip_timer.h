#pragma once

// Measures the round trips of a flow: of the packets that end a burst of new
// ones and ask for their acknowledgement, a few at a time. Karn's rule: once a
// packet is resent, it is unknown which transmission was acknowledged, so the
// measurements are dropped.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

// Seq: a sequence number on a circle; `a - b` is a signed distance.
template <typename Seq>
struct RoundTripTimer {
  // So many samples in a round trip: busy hosts answer some of them late.
  static constexpr uint32_t kAtATime = 8;

  struct Timed {
    Seq end;
    Time since;
  };

  // New packets, up to `end`, were sent at `now`, and the peer will acknowledge
  // `end` immediately.
  void OnSend(Seq end, Time now) {
    if (count != kAtATime) timed[count++] = {end, now};
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
    const Duration round_trip = now - timed[done - 1].since;
    std::copy(timed + done, timed + count, timed);
    count -= done;
    return round_trip;
  }

  Timed timed[kAtATime];  // the oldest first
  uint32_t count = 0;
  Seq resent_end;
};

}  // namespace urnic::cc
