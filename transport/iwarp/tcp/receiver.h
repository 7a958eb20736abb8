#pragma once

// The receiving half of a connection. It decides which segments are acceptable,
// in which order their bytes go up, and when they are acknowledged, and offers
// the window to the peer.
//
// A segment passes Check(), then the connection processes its flags and its
// acknowledgement, then it goes to OnData(). No byte is copied: payload goes up
// from the frame of the burst. Bytes behind a hole stay in their frame, in
// custody, and go up when the hole closes. Each byte goes up exactly once; if
// bytes arrive twice, the first ones are used.
//
// `Upper`, the layer above, is a template argument:
//
//   uint32_t OnBytes(SeqNum at, std::span<const uint8_t> bytes,
//                    const ReceivedFrame& frame);
//     The next bytes of the stream. Returns how many it takes. Bytes for which
//     it has no room are not acknowledged, and come again with a later segment.
//     The bytes remain valid until ReleaseDelivered(), which is called when the
//     placements of the burst have been executed. To use them later, Upper
//     keeps the frame, even if it is in our custody. AckNow() is the only
//     function of the receiver that Upper may call.
//
// Two more functions, for connections whose segments are known to begin with an
// FPDU (docs/design/0010-iwarp.md, choices 3 and 4). Upper has both or none:
//
//   bool OnEarlyBytes(SeqNum at, std::span<const uint8_t> bytes,
//                     const ReceivedFrame& frame);
//     A whole segment behind a hole, of which no byte had arrived before. True:
//     its bytes are placed; they do not go up again, and the frame is not kept.
//   void OnEarlyDelivered(SeqNum at, uint32_t bytes);
//     In place of OnBytes() for such bytes, when the hole closes. Adjacent
//     segments are reported together.
//
// Acknowledgements: check ack_now() after each OnData(). A due acknowledgement
// should be sent before the next segment is passed in, because the peer judges
// reordering, and marks for DCTCP, by each acknowledgement. WriteAck() fills it
// in.
//
// Nothing is allocated. Thread: the token's holder.

#include <cstdint>
#include <span>
#include <utility>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/fields.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/mutation.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"
#include "transport/iwarp/tcp/out_of_order.h"
#include "transport/iwarp/tcp/receive_window.h"
#include "transport/iwarp/tcp/sack_list.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

enum class EcnMode : uint8_t { kOff, kClassic, kDctcp };

struct ReceiverConfig {
  SeqNum irs;                 // the sequence number of the peer's SYN
  uint32_t window_bytes = 0;  // the largest window that we offer
  uint8_t window_shift = 0;   // of the windows that we send
  uint16_t mss = 0;           // of our SYN
  bool sack = false;
  bool timestamps = false;
  uint32_t ts_recent = 0;  // the timestamp of the peer's SYN
  EcnMode ecn = EcnMode::kOff;
  //= RFC 9293 3.8.6.3: an acknowledgement is delayed by less than 0.5 seconds
  // A delay saves a separate acknowledgement if a data segment carries it. An
  // RNIC answers within microseconds, so 1 ms is enough; and it is short
  // compared with the 200 ms after which Linux would resend.
  Duration ack_delay = Duration::Milliseconds(1);
};

class Receiver {
 public:
  // Limits of one connection: frames in custody, and ranges. A segment that
  // arrives in several parts needs more ranges than frames.
  static constexpr uint32_t kMaxFrames = 256;
  static constexpr uint32_t kMaxRanges = 256;
  //= RFC 7323 5.5: TS.Recent is valid for 24 days
  static constexpr Duration kTimestampLifetime = Duration::Seconds(24 * 86400);

  // Between acknowledgements of empty segments that are not acceptable.
  static constexpr Duration kAnswerSpacing = Duration::Milliseconds(500);

  Receiver(RangePool* pool, FrameKeeper* keeper,
           uint32_t max_frames = kMaxFrames, uint32_t max_ranges = kMaxRanges)
      : held_(pool, keeper, max_ranges, max_frames) {}

  // The peer's SYN has arrived. REQUIRES: mss > 0, a valid shift
  void Start(const ReceiverConfig& config, Time now);
  // Releases delivered frames from custody. Call it after each burst.
  void ReleaseDelivered() { held_.ReleaseTaken(); }
  // Releases all frames in custody.
  void Stop() { held_.Clear(); }

  SeqNum next() const { return next_; }
  // The first sequence number that the peer may not use.
  SeqNum right_edge() const { return window_.right_edge(); }
  uint32_t window_bytes() const { return window_.bytes(next_); }
  // Everything, and the FIN behind it, has been delivered.
  bool fin_delivered() const { return fin_delivered_; }
  bool has_hole() const { return !held_.empty(); }
  uint32_t frames_kept() const { return held_.frames_kept(); }
  uint32_t range_count() const { return held_.range_count(); }
  uint32_t ts_recent() const { return ts_recent_; }

  // Whether the segment is acceptable: PAWS and the window. kAccept: go on.
  // kTcpOldTimestamp, kTcpOutOfWindow, kTcpDuplicate: drop it; an
  // acknowledgement is due, unless it was a RST, or an empty segment too soon
  // after another one (kAnswerSpacing). kTcpNoTimestamp: drop it.
  RxVerdict Check(const wire::TcpSegment& segment, Time now);

  // Takes the timestamp of such a segment. Call it only if its acknowledgement
  // is valid, too: a forged segment must not make genuine ones look old.
  void TakeTimestamp(const wire::TcpSegment& segment, Time now);

  // The payload and FIN of a segment that Check() has accepted. kAccept, or
  // kTcpKept, kTcpEarly, kTcpNoRoom, kTcpDuplicate, kTcpOutOfWindow (the window
  // is zero), kTcpAfterFin.
  template <typename Upper>
  RxVerdict OnData(const wire::TcpSegment& segment, const ReceivedFrame& frame,
                   Time now, Upper& upper);

  // Keeps the data and FIN of the peer's SYN in custody while our own SYN is
  // not acknowledged. Without room there, the peer resends them.
  void KeepFirst(const wire::TcpSegment& segment, const ReceivedFrame& frame);
  // Delivers them.
  template <typename Upper>
  void DeliverFirst(Time now, Upper& upper);

  // Upper calls this when a message is complete, because the peer waits for its
  // acknowledgement. PSH does not cause one: peers set it on most small
  // segments, whether they wait or not.
  void AckNow() { ack_ = Ack::kNow; }
  bool ack_now() const { return ack_ == Ack::kNow; }
  // When OnTimer() is due.
  Time deadline() const {
    return ack_ == Ack::kDelayed ? ack_at_ : Time::Infinite();
  }
  void OnTimer(Time now) {
    if (deadline() <= now) ack_ = Ack::kNow;
  }

  // Sets the acknowledgement number, window, ECE, the echoed timestamp, and the
  // SACK blocks that fit into `option_room` bytes. The caller sets the rest,
  // and sends the segment: the acknowledgement is no longer due. For data
  // segments without room for SACK blocks it remains due if there are any.
  void WriteAck(wire::TcpFields& fields, uint32_t option_room);
  // The window of a SYN, which is not scaled.
  uint16_t SynWindow() const { return window_.OfSyn(); }

  // Changes the largest window that we offer. Earlier offers stay valid.
  void SetWindow(uint32_t bytes);

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  enum class Ack : uint8_t { kNone, kDelayed, kNow };

  // The new part of a segment.
  struct Admitted {
    RxVerdict verdict = RxVerdict::kAccept;
    SeqNum begin;
    std::span<const uint8_t> data;
    bool fin = false;    // behind the data
    bool whole = true;   // nothing was cut off
    bool twice = false;  // cut off because it had been delivered
    SeqNum end() const { return begin + static_cast<uint32_t>(data.size()); }
  };

  RxVerdict CheckTimestamp(const wire::TcpSegment& segment, Time now);
  bool InWindow(const wire::TcpSegment& segment) const;
  // Whether a segment that is not acceptable is answered.
  bool MayAnswer(const wire::TcpSegment& segment, Time now);
  void OnEcn(const wire::TcpSegment& segment);
  // Cuts off the parts that were delivered, are beyond the window, or behind
  // the FIN.
  Admitted Admit(const wire::TcpSegment& segment);
  // True: the FIN at `at` is possible, and is now known.
  bool LearnFin(SeqNum at);
  void OnDuplicate(wire::SackBlock block);
  // Called after bytes were delivered. `closed`: they have filled a hole.
  void OnDelivered(bool closed, Time now);
  void OnHeld(const OutOfOrder::Overlap& overlap, SeqNum at);

  // False: Upper has no room for all.
  template <typename Upper>
  bool Deliver(const Admitted& segment, const ReceivedFrame& frame,
               Upper& upper);
  template <typename Upper>
  bool DeliverHeld(Upper& upper);
  template <typename Upper>
  RxVerdict Hold(const Admitted& segment, const ReceivedFrame& frame,
                 Upper& upper);

  ReceiverConfig config_;
  ReceiveWindow window_;
  OutOfOrder held_;
  SackList sacks_;
  SeqNum next_;
  SeqNum last_acked_;
  uint32_t largest_payload_ = 0;
  SeqNum fin_at_;
  bool fin_known_ = false;
  bool fin_delivered_ = false;
  bool echo_congestion_ = false;
  Ack ack_ = Ack::kNone;
  Time ack_at_;
  Time next_answer_;  // to an empty segment that is not acceptable
  uint32_t ts_recent_ = 0;
  Time ts_recent_since_;
};

template <typename Upper>
RxVerdict Receiver::OnData(const wire::TcpSegment& segment,
                           const ReceivedFrame& frame, Time now, Upper& upper) {
  if (segment.payload.empty() && !segment.Has(wire::kTcpFin)) {
    return RxVerdict::kAccept;
  }
  OnEcn(segment);
  const Admitted admitted = Admit(segment);
  if (admitted.verdict != RxVerdict::kAccept) return admitted.verdict;
  if (admitted.begin != next_) return Hold(admitted, frame, upper);
  const bool closed = has_hole();
  if (closed && !admitted.data.empty()) {
    const auto overlap = held_.Examine(admitted.begin, admitted.end());
    if (overlap.has_duplicate() && !admitted.twice) {
      OnDuplicate(overlap.duplicate);
    }
  }
  const bool all = Deliver(admitted, frame, upper);
  const bool possible = !all || !admitted.fin || LearnFin(admitted.end());
  OnDelivered(closed, now);
  if (!all) {
    // Tell the peer immediately how much was taken.
    AckNow();
    return RxVerdict::kTcpNoRoom;
  }
  return possible ? RxVerdict::kAccept : RxVerdict::kTcpAfterFin;
}

template <typename Upper>
void Receiver::DeliverFirst(Time now, Upper& upper) {
  if (held_.empty() && !fin_known_) return;
  Admitted nothing_more;
  nothing_more.begin = next_;
  (void)Deliver(nothing_more, {}, upper);
  OnDelivered(/*closed=*/false, now);
}

template <typename Upper>
bool Receiver::Deliver(const Admitted& segment, const ReceivedFrame& frame,
                       Upper& upper) {
  while (true) {
    if (!held_.empty() && held_.begin() == next_) {
      if (!DeliverHeld(upper)) return false;
    } else if (next_ - segment.end() < 0) {
      const SeqNum until =
          held_.empty() ? segment.end() : Earlier(segment.end(), held_.begin());
      const auto bytes = static_cast<uint32_t>(until - next_);
      const auto offset = static_cast<uint32_t>(next_ - segment.begin);
      const uint32_t taken =
          upper.OnBytes(next_, segment.data.subspan(offset, bytes), frame);
      next_ = next_ + taken;
      if (taken != bytes) return false;
    } else {
      return true;
    }
  }
}

// The first range. Returns false if Upper has no room for all of it.
template <typename Upper>
bool Receiver::DeliverHeld(Upper& upper) {
  const OutOfOrder::Front front = held_.front();
  if (front.data != nullptr) {
    const std::span<const uint8_t> bytes(front.data, front.bytes);
    const uint32_t taken =
        upper.OnBytes(next_, bytes, ReceivedFrame{bytes, front.buffer});
    if (taken != front.bytes) {
      held_.TrimFront(taken);
      next_ = next_ + taken;
      return false;
    }
  } else if constexpr (requires { upper.OnEarlyDelivered(next_, 1u); }) {
    upper.OnEarlyDelivered(next_, front.bytes);
  }
  held_.PopFront();
  MUTATION_ADDS(iwarp_releases_frames_early, held_.ReleaseTaken();)
  next_ = next_ + front.bytes;
  return true;
}

template <typename Upper>
RxVerdict Receiver::Hold(const Admitted& segment, const ReceivedFrame& frame,
                         Upper& upper) {
  //= RFC 5681 4.2: a segment behind a gap is acknowledged immediately
  AckNow();
  if (segment.data.empty()) {
    return LearnFin(segment.end()) ? RxVerdict::kAccept
                                   : RxVerdict::kTcpAfterFin;
  }
  const auto overlap = held_.Examine(segment.begin, segment.end());
  MUTATION_SKIPS(iwarp_holds_duplicates)
  if (overlap.new_parts == 0) {
    OnHeld(overlap, segment.begin);
    if (segment.fin && !LearnFin(segment.end())) return RxVerdict::kTcpAfterFin;
    return RxVerdict::kTcpDuplicate;
  }
  if (!held_.HasRoom(overlap.new_parts)) return RxVerdict::kTcpNoRoom;
  bool placed = false;
  if constexpr (requires { upper.OnEarlyBytes(next_, segment.data, frame); }) {
    if (segment.whole && !overlap.has_duplicate()) {
      placed = upper.OnEarlyBytes(segment.begin, segment.data, frame);
    }
  }
  if (placed) {
    held_.InsertEarly(overlap, segment.begin,
                      static_cast<uint32_t>(segment.data.size()));
  } else if (!held_.Insert(overlap, segment.begin, segment.data, frame)) {
    return RxVerdict::kTcpNoRoom;
  }
  OnHeld(overlap, segment.begin);
  if (segment.fin && !LearnFin(segment.end())) return RxVerdict::kTcpAfterFin;
  return placed ? RxVerdict::kTcpEarly : RxVerdict::kTcpKept;
}

}  // namespace urnic::tcp
