#pragma once

//= RFC 8985 5.2: the variables that RACK keeps for each connection
//
// A segment is lost when a segment that was sent later has been delivered, and
// enough time has passed for a segment that was merely reordered.

#include <algorithm>
#include <cstdint>

#include "transport/base/seq_num.h"
#include "transport/base/time.h"

namespace urnic::tcp {

struct Rack {
  static constexpr uint8_t kPersist = 16;
  //= RFC 8985 6.2: without reordering seen, the window for reordering is zero
  //= as soon as DupThresh (3) segments are SACKed
  static constexpr uint32_t kDupThresh = 3;

  void Start(SeqNum first) {
    *this = Rack();
    end = forward_ack = first;
  }

  //= RFC 8985 6.2: RACK_sent_after(): of two segments that were sent at the
  //= same time, the one with the higher sequence number counts as sent later
  static bool SentAfter(Time t1, SeqNum end1, Time t2, SeqNum end2) {
    return t1 > t2 || (t1 == t2 && end1 - end2 > 0);
  }

  // A segment was delivered. Called in the order of sequence numbers.
  //= RFC 8985 6.2: reordering is seen when a segment is delivered that was
  //= never retransmitted and that ends below the highest delivered sequence
  //= number
  void NoteOrder(SeqNum segment_end, bool resent) {
    if (segment_end - forward_ack > 0) {
      forward_ack = segment_end;
    } else if (segment_end - forward_ack < 0 && !resent) {
      reordering_seen = true;
    }
  }

  // The last of the segments that an acknowledgement delivered.
  void OnDelivered(Time segment_sent, SeqNum segment_end, Duration round_trip) {
    rtt = round_trip;
    if (known && !SentAfter(segment_sent, segment_end, sent, end)) return;
    known = true;
    sent = segment_sent;
    end = segment_end;
  }

  //= RFC 8985 6.2: each round trip with a D-SACK increases the multiplier of
  //= the reordering window by one; after 16 recoveries without one it is reset
  void OnAck(SeqNum una, SeqNum nxt, bool dsack) {
    if (in_dsack_round && una - dsack_round >= 0) in_dsack_round = false;
    if (!dsack || in_dsack_round) return;
    in_dsack_round = true;
    dsack_round = nxt;
    if (multiple < UINT8_MAX) ++multiple;
    persist = kPersist;
  }
  void OnRecoveryEnd() {
    if (persist > 0) --persist;
    if (persist == 0) multiple = 1;
  }

  //= RFC 8985 6.2: the reordering window is a multiple of min_RTT / 4, at most
  //= SRTT, and zero in recovery if no reordering was seen
  Duration ReorderWindow(bool in_recovery, uint32_t sacked_segments,
                         Duration shortest, Duration smoothed) const {
    if (!reordering_seen && (in_recovery || sacked_segments >= kDupThresh)) {
      return Duration();
    }
    return std::min(Duration::Nanoseconds(shortest.ns() / 4 * multiple),
                    smoothed);
  }

  Time sent;  // of the last delivered segment; its end, its round trip
  SeqNum end;
  Duration rtt;
  SeqNum forward_ack;  // the highest end that was delivered
  SeqNum dsack_round;
  bool known = false;  // sent, end, rtt
  bool reordering_seen = false;
  bool in_dsack_round = false;
  uint8_t multiple = 1;
  uint8_t persist = kPersist;
};

}  // namespace urnic::tcp
