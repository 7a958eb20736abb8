#pragma once

// Makes of a flow's sequence numbers what an algorithm wants to hear: round
// trips, rounds, and whether the window was used. For any transport whose
// acknowledgements are cumulative.
//
// One packet under way at a time is timed: the last one of a burst of new
// packets that asks for its acknowledgement. Karn's rule: when something is
// sent again, nobody can tell which transmission is answered, and the
// measurement is given up.

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

  // Packets that were never sent before went out at `now`, up to `end`, where
  // the peer will acknowledge at once. `alone`: it is one, and nothing else was
  // under way.
  void OnSend(Seq end, bool alone, Time now) {
    if (timing) return;
    timing = true;
    timed_alone = alone;
    timed_end = end;
    timed_since = now;
  }

  void OnResend() { timing = false; }

  // As many packets are under way as may be.
  void OnWindowFull() { filled = true; }

  // All before `una` is acknowledged. Zero: it measures nothing.
  Duration TakeRoundTrip(Seq una, Time now) {
    if (!timing || una - timed_end < 0) return Duration();
    timing = false;
    const Duration sample = now - timed_since;
    const bool known = shortest.ns() != 0;
    // With packets that are not alone a queue of ours is measured, too. That
    // may make a known time better, and not be the first to say what it is.
    if (known ? sample < shortest : timed_alone) shortest = sample;
    return sample;
  }

  // True: the round is over, and one begins that ends at `sent`.
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
  bool timing = false;
  bool timed_alone = false;
  bool filled = false;         // the window, in this round
  bool filled_before = false;  // and in the one before
  Time timed_since;
  // No answer to anything takes less. It is known from a packet that went
  // alone, since no queue of ours is in that. Zero: not known yet.
  Duration shortest;
};

}  // namespace urnic::cc
