#pragma once

// The state of each unacknowledged segment: it is in flight, lost (to be
// resent), or SACKed.
//
// The links of the records make two lists and a forest:
//   in flight   a list in the order of transmission, so that RACK looks only at
//               segments that are lost or will be next
//   lost        a list, in the order in which losses were found; a segment that
//               is lower than the first one is put before it
//   SACKed      `next` is a later record with only SACKed ones in between, so
//               that a SACK block that is repeated costs almost nothing
//
// Per acknowledgement, the work is proportional to the segments whose state
// changes (and logarithmic in the others).

#include <cstdint>

#include "transport/base/fields.h"
#include "transport/iwarp/tcp/rack.h"
#include "transport/iwarp/tcp/round_trip.h"
#include "transport/iwarp/tcp/segment_ring.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

// One acknowledgement: what the sender knows about it, and the results of the
// scoreboard.
struct Delivery {
  Time now;
  SeqNum recover;     // the end of what a time-out has in doubt
  Duration shortest;  // round trip
  bool has_echo = false;
  uint32_t echo = 0;  // of our time stamps
  TimestampClock clock;

  uint32_t acked_bytes = 0;      // by which SND.UNA has moved
  uint32_t sacked_bytes = 0;     // newly SACKed
  uint32_t delivered_bytes = 0;  // both, but each byte once
  uint32_t segments = 0;         // newly delivered as a whole
  uint32_t largest = 0;          // payload of the largest of them
  // Round trips of segments that were sent once (Karn's rule); zero: none.
  Duration oldest;  // of the first that was cumulatively acknowledged
  Duration newest;
  bool original = false;  // one of them is from before `recover`
  bool beyond = false;    // SACKed after `recover`
  // The one that was sent last, for RACK.
  bool known = false;
  Time sent;
  SeqNum end;
  Duration rtt;
};

class Scoreboard {
 public:
  void Start(SegmentSlab* slab, uint8_t max_order, SeqNum first);

  const SegmentRing& ring() const { return ring_; }
  bool empty() const { return ring_.empty(); }
  bool MakeRoom() { return ring_.MakeRoom(); }
  // A new segment, sent at record.sent. REQUIRES: MakeRoom()
  void Append(const SegmentRecord& record);

  // Everything before `ack` has arrived. Calls upper.OnChunkAcked(source) for
  // each chunk that this completes. REQUIRES: ack is within the records.
  template <typename Upper>
  void Acknowledge(SeqNum ack, Delivery& delivery, Upper& upper);
  //= RFC 2018 5: a segment is SACKed when a block covers all of it
  // Blocks of one acknowledgement are given in ascending order.
  // REQUIRES: the block lies within the records.
  void Sack(wire::SackBlock block, Delivery& delivery);

  // Marks as lost what RACK considers lost. Returns when it would consider the
  // next one lost; never: none. `found`: something was marked.
  Time DetectLosses(Time now, Duration reorder_window, bool& found);
  //= RFC 8985 6.3: at a time-out, the first unacknowledged segment is marked
  //= lost, and each other one that was sent longer than RACK.rtt + RACK.reo_wnd
  //= ago
  void MarkLostAtTimeout(Time now, Duration reorder_window);
  // REQUIRES: the segment is not lost yet.
  void MarkLost(uint32_t number);
  // The first segment is lost, if it is in flight. Returns false if it is not.
  bool MarkHeadLost();
  // The peer has discarded the segments that it had SACKed: all of them are
  // lost.
  void ForgetSacks();
  bool HeadIsSacked() const {
    return !empty() && head().state == SegmentRecord::kSacked;
  }
  // A time-out was a mistake: segments that are not resent yet are in flight.
  void RestoreLost();
  // Segments of more than `mss` bytes are lost: the path does not carry them.
  void MarkOversizedLost(uint32_t mss);

  uint32_t lost_segments() const { return lost_.count; }
  // The lost segment that is resent next: the first of all, because the peer
  // waits for it, then as they were found. REQUIRES: lost_segments() != 0
  uint32_t NextLost() const {
    return head().state == SegmentRecord::kLost ? ring_.first() : lost_.head;
  }
  // The whole segment was sent again.
  void OnResent(uint32_t number, Time now);

  // Sent, and neither SACKed nor lost.
  uint64_t pipe() const { return pipe_; }
  uint64_t sacked_bytes() const { return sacked_bytes_; }
  uint32_t sacked_segments() const { return sacked_segments_; }

  Rack rack;

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  struct List {
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t count = 0;
  };

  static constexpr uint32_t kLinkMask = 0xffffff;

  const SegmentRecord& head() const { return ring_.at(ring_.first()); }
  uint32_t Full(uint32_t link) const {
    return ring_.first() + ((link - ring_.first()) & kLinkMask);
  }
  void PushBack(List& list, uint32_t number);
  void PushFront(List& list, uint32_t number);
  // Into the list in flight, which is in order of `sent`.
  void InsertByTime(uint32_t number);
  void Remove(List& list, uint32_t number);
  // Removes a segment from the list and the sums of its state.
  void Leave(uint32_t number);
  void OnDelivered(const SegmentRecord& record, bool cumulative,
                   Delivery& delivery);
  // The bytes of the first segment before `ack` have arrived.
  void Trim(SeqNum ack, Delivery& delivery);
  // The first number from `number` on that is not SACKed.
  uint32_t SkipSacked(uint32_t number);

  SegmentRing ring_;
  List in_flight_;
  List lost_;
  uint64_t pipe_ = 0;
  uint64_t sacked_bytes_ = 0;
  uint32_t sacked_segments_ = 0;
};

template <typename Upper>
void Scoreboard::Acknowledge(SeqNum ack, Delivery& delivery, Upper& upper) {
  while (!ring_.empty()) {
    const uint32_t number = ring_.first();
    const SegmentRecord record = ring_.at(number);
    if (record.end() - ack > 0) break;
    delivery.acked_bytes += record.seq_bytes();
    if (record.state != SegmentRecord::kSacked) {
      OnDelivered(record, /*cumulative=*/true, delivery);
    }
    Leave(number);
    ring_.PopFront();
    if (record.last) upper.OnChunkAcked(record.source);
  }
  if (!ring_.empty() && head().seq - ack < 0) Trim(ack, delivery);
}

}  // namespace urnic::tcp
