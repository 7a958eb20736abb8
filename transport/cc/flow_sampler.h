#pragma once

// Derives from a flow's sequence numbers what an algorithm needs: round trips,
// rounds, and whether the window was used. For any transport with cumulative
// acknowledgements.
//
// It times one packet at a time: the last one of a burst of new packets that
// asks for its acknowledgement. Karn's rule: once a packet is resent, it is
// unknown which transmission was acknowledged, so the measurement is dropped.

#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

// Seq: a sequence number on a circle; `a - b` is a signed distance.
template <typename Seq>
struct FlowSampler {
  void Start(Seq next) {
    *this = FlowSampler();
    round_end = next;
  }

  // New packets, up to `end`, were sent at `now`, and the peer will acknowledge
  // `end` immediately. `alone`: it was one packet, and nothing else was under
  // way.
  void OnSend(Seq end, bool alone, Time now) {
    if (timing) return;
    timing = true;
    timed_alone = alone;
    timed_end = end;
    timed_since = now;
  }

  // Packets up to `end` are resent.
  void OnResend(Seq end) {
    timing = false;
    resent_end = end;
  }

  // The window is full.
  void OnWindowFull() { filled = true; }

  // Everything before `una` is acknowledged. Returns the round trip, or zero if
  // nothing was measured.
  Duration TakeRoundTrip(Seq una, Time now) {
    if (!timing || una - timed_end < 0) return Duration();
    timing = false;
    const Duration sample = now - timed_since;
    const bool known = shortest.ns() != 0;
    // A packet that was not alone also measures our own queue. It may improve a
    // known time, but must not be the first to set it.
    if (known ? sample < shortest : timed_alone) shortest = sample;
    return sample;
  }

  // True: the round is over, and a new one begins that ends at `sent`.
  bool TakeRound(Seq una, Seq sent) {
    if (una - round_end < 0) return false;
    round_end = sent;
    filled_before = filled;
    filled = false;
    return true;
  }

  bool app_limited() const { return !filled && !filled_before; }

  Seq timed_end;
  Seq round_end;
  Seq resent_end;
  bool timing = false;
  bool timed_alone = false;
  bool filled = false;         // the window was full in this round
  bool filled_before = false;  // and in the one before
  Time timed_since;
  // The shortest round trip. Known only after a packet that was sent alone,
  // because that includes no queue of ours. Zero: not known yet.
  Duration shortest;
};

}  // namespace urnic::cc
