#pragma once

// The tail loss probe: when acknowledgements do not come, the last segment (or
// a new one) is sent before the retransmission time-out. Its acknowledgement
// lets RACK find what is lost.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"
#include "transport/iwarp/tcp/round_trip.h"

namespace urnic::tcp {

struct TailProbe {
  //= RFC 8985 7.2: PTO = 2 * SRTT, plus max_ack_delay if one segment is in
  //= flight, and not after the retransmission time-out
  // REQUIRES: a time-out is set.
  static Time Due(Time now, const RoundTrip& round_trip, bool one_segment,
                  Duration max_ack_delay, Time timeout) {
    Duration wait = RoundTrip::kInitial;
    if (round_trip.smoothed.ns() != 0) {
      wait = round_trip.smoothed * 2;
      if (one_segment) wait = wait + max_ack_delay;
    }
    return std::min(now + wait, timeout);
  }

  void OnSend(SeqNum nxt, bool retransmission) {
    end = nxt;
    resent = retransmission;
    in_flight = true;
  }

  //= RFC 8985 7.4.2: a loss that the tail loss probe has repaired reduces the
  //= window as any other loss
  // True: the sender reduces its window. `matches`: a D-SACK ends at `end`.
  // `plain_duplicate`: a duplicate acknowledgement without SACK blocks.
  bool OnAck(SeqNum ack, bool matches, bool plain_duplicate) {
    if (!in_flight || ack - end < 0) return false;
    if (!resent || matches) {
      in_flight = false;
      return false;
    }
    if (ack - end > 0) {
      in_flight = false;
      return true;
    }
    if (plain_duplicate) in_flight = false;
    return false;
  }

  SeqNum end;
  bool in_flight = false;
  bool resent = false;
  bool due = false;  // the next Transmit() sends it
};

}  // namespace urnic::tcp
