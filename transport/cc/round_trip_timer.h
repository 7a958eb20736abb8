#pragma once

// Measures the round trips of a flow, one packet at a time: the last one of a
// burst of new packets that asks for its acknowledgement. Karn's rule: once a
// packet is resent, it is unknown which transmission was acknowledged, so the
// measurement is dropped.

#include "transport/base/time.h"

namespace urnic::cc {

// Seq: a sequence number on a circle; `a - b` is a signed distance.
template <typename Seq>
struct RoundTripTimer {
  // New packets, up to `end`, were sent at `now`, and the peer will acknowledge
  // `end` immediately.
  void OnSend(Seq end, Time now) {
    if (timing) return;
    timing = true;
    timed_end = end;
    timed_since = now;
  }

  // Packets up to `end` are resent.
  void OnResend(Seq end) {
    timing = false;
    resent_end = end;
  }

  // Everything before `una` is acknowledged. Returns the round trip, or zero if
  // nothing was measured.
  Duration Take(Seq una, Time now) {
    if (!timing || una - timed_end < 0) return Duration();
    timing = false;
    return now - timed_since;
  }

  Seq timed_end;
  Seq resent_end;
  bool timing = false;
  Time timed_since;
};

}  // namespace urnic::cc
