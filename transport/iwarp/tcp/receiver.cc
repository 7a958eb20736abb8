#include "transport/iwarp/tcp/receiver.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::tcp {
namespace {

// Shorter segments do not count as full-sized: this is the MSS that every IPv4
// host must receive.
constexpr uint32_t kLeastFullPayload = wire::kTcpDefaultMssIpv4;
// In the options of a segment: kind and length of the list, and its padding.
constexpr uint32_t kSackOverhead = 4;
constexpr uint32_t kSackBlockBytes = 8;

}  // namespace

void Receiver::Start(const ReceiverConfig& config, Time now) {
  URNIC_CHECK(held_.empty());
  config_ = config;
  next_ = config.irs + 1;
  last_acked_ = next_;
  window_.Start(next_, config.window_bytes, config.window_shift, config.mss);
  sacks_ = SackList();
  largest_payload_ = 0;
  fin_known_ = false;
  fin_delivered_ = false;
  echo_congestion_ = false;
  ack_ = Ack::kNone;
  ts_recent_ = config.ts_recent;
  ts_recent_since_ = now;
  next_answer_ = now;
}

RxVerdict Receiver::Check(const wire::TcpSegment& segment, Time now) {
  RxVerdict verdict = CheckTimestamp(segment, now);
  if (verdict == RxVerdict::kTcpNoTimestamp) return verdict;
  if (verdict == RxVerdict::kAccept && !InWindow(segment)) {
    const bool is_old = segment.seq_bytes() != 0 && segment.end() - next_ <= 0;
    verdict = is_old ? RxVerdict::kTcpDuplicate : RxVerdict::kTcpOutOfWindow;
    if (is_old && !segment.payload.empty()) {
      const SeqNum begin = segment.seq + segment.Has(wire::kTcpSyn);
      const auto bytes = static_cast<uint32_t>(segment.payload.size());
      OnDuplicate({begin, begin + bytes});
    }
  }
  if (verdict != RxVerdict::kAccept && MayAnswer(segment, now)) AckNow();
  return verdict;
}

//= RFC 7323 4.3: the timestamp to echo is that of a segment that begins at or
//= before the last acknowledged byte
void Receiver::TakeTimestamp(const wire::TcpSegment& segment, Time now) {
  if (!config_.timestamps || !segment.options.timestamps.has_value() ||
      segment.Has(wire::kTcpRst) || segment.seq - last_acked_ > 0) {
    return;
  }
  ts_recent_ = segment.options.timestamps->value;
  ts_recent_since_ = now;
}

RxVerdict Receiver::CheckTimestamp(const wire::TcpSegment& segment, Time now) {
  if (!config_.timestamps) return RxVerdict::kAccept;
  if (!segment.options.timestamps.has_value()) {
    //= RFC 7323 3.2: if timestamps were negotiated, a segment without them is
    //= dropped, unless it is a RST
    return segment.Has(wire::kTcpRst) ? RxVerdict::kAccept
                                      : RxVerdict::kTcpNoTimestamp;
  }
  const auto age =
      static_cast<int32_t>(segment.options.timestamps->value - ts_recent_);
  if (age >= 0) return RxVerdict::kAccept;
  //= RFC 7323 5.2: the PAWS test does not apply to a RST
  if (segment.Has(wire::kTcpRst)) return RxVerdict::kAccept;
  //= RFC 7323 5.5: after an idle time of 24 days, TS.Recent is outdated, and
  //= any timestamp passes the PAWS test
  if (now - ts_recent_since_ > kTimestampLifetime) return RxVerdict::kAccept;
  //= RFC 7323 5.3: PAWS: a segment whose timestamp is less than TS.Recent is
  //= not acceptable
  return RxVerdict::kTcpOldTimestamp;
}

//= RFC 9293 3.4: a segment is acceptable if it has bytes in the receive window;
//= four cases of segment length and window are distinguished
// An empty segment may also be at the right edge: a peer whose window is full
// sends its acknowledgements with that number.
bool Receiver::InWindow(const wire::TcpSegment& segment) const {
  const uint32_t bytes = segment.seq_bytes();
  const SeqNum edge = right_edge();
  if (bytes == 0) return segment.seq - next_ >= 0 && segment.seq - edge <= 0;
  const SeqNum last = segment.end() + UINT32_MAX;
  const auto inside = [&](SeqNum at) {
    return at - next_ >= 0 && at - edge < 0;
  };
  //= RFC 9293 3.10.7.4: with a receive window of zero, a valid acknowledgement
  //= and a RST are still processed
  if (next_ == edge && segment.seq == next_) return true;
  return inside(segment.seq) || inside(last);
}

//= RFC 9293 3.10.7.4, RFC 7323 5.3: a segment that is not acceptable is dropped
//= and answered by an acknowledgement, unless it is a RST
bool Receiver::MayAnswer(const wire::TcpSegment& segment, Time now) {
  if (segment.Has(wire::kTcpRst)) return false;
  // A segment with data is not an answer, so two ends cannot answer each other
  // forever.
  if (segment.seq_bytes() != 0 && !segment.Has(wire::kTcpSyn)) return true;
  //= RFC 5961 7, Linux tcp_oow_rate_limited(): an empty segment that is not
  //= acceptable is answered at most twice in a second, so that two ends that
  //= disagree about the sequence numbers do not answer each other without end
  if (now < next_answer_) return false;
  next_answer_ = now + kAnswerSpacing;
  return true;
}

void Receiver::KeepFirst(const wire::TcpSegment& segment,
                         const ReceivedFrame& frame) {
  if (segment.payload.empty() && !segment.Has(wire::kTcpFin)) return;
  const Admitted first = Admit(segment);
  if (first.verdict != RxVerdict::kAccept) return;
  if (!first.data.empty()) {
    const auto overlap = held_.Examine(first.begin, first.end());
    if (!held_.HasRoom(overlap.new_parts) ||
        !held_.Insert(overlap, first.begin, first.data, frame)) {
      return;
    }
  }
  if (first.fin) (void)LearnFin(first.end());
}

void Receiver::OnEcn(const wire::TcpSegment& segment) {
  const bool marked = segment.congestion_experienced;
  if (config_.ecn == EcnMode::kClassic) {
    //= RFC 3168 6.1.3: a receiver sends ECE from the first mark until the
    //= peer's CWR
    if (segment.Has(wire::kTcpCwr)) echo_congestion_ = false;
    if (marked) echo_congestion_ = true;
  } else if (config_.ecn == EcnMode::kDctcp) {
    //= RFC 8257 3.2: ECE tells whether the last segment was marked, and each
    //= change is acknowledged immediately
    if (marked != echo_congestion_) AckNow();
    echo_congestion_ = marked;
  }
}

Receiver::Admitted Receiver::Admit(const wire::TcpSegment& segment) {
  Admitted out;
  out.begin = segment.seq + segment.Has(wire::kTcpSyn);
  out.data = segment.payload;
  out.fin = segment.Has(wire::kTcpFin);
  largest_payload_ =
      std::max(largest_payload_, static_cast<uint32_t>(segment.payload.size()));
  //= RFC 9293 3.10.7.4: the part of a segment that is outside of the receive
  //= window is cut off
  if (next_ - out.begin > 0) {
    const auto old = std::min<size_t>(static_cast<uint32_t>(next_ - out.begin),
                                      out.data.size());
    if (old != 0) {
      OnDuplicate({out.begin, out.begin + static_cast<uint32_t>(old)});
    }
    out.data = out.data.subspan(old);
    out.begin = next_;
    out.whole = false;
    out.twice = old != 0;
  }
  //= RFC 9293 3.10.7.4: bytes behind the peer's FIN are ignored
  SeqNum limit = right_edge();
  const bool behind_fin = fin_known_ && out.end() - fin_at_ > 0;
  if (behind_fin) limit = Earlier(limit, fin_at_);
  if (out.end() - limit > 0 || (out.fin && out.end() == right_edge())) {
    const int32_t room = limit - out.begin;
    out.data =
        out.data.first(std::min<size_t>(out.data.size(), room > 0 ? room : 0));
    out.fin = false;
    out.whole = false;
  }
  if (out.data.empty() && !out.fin) {
    out.verdict =
        behind_fin ? RxVerdict::kTcpAfterFin : RxVerdict::kTcpOutOfWindow;
    AckNow();
  }
  return out;
}

bool Receiver::LearnFin(SeqNum at) {
  if (fin_known_) return at == fin_at_;
  if (next_ - at > 0 || (has_hole() && held_.end() - at > 0)) return false;
  fin_known_ = true;
  fin_at_ = at;
  return true;
}

void Receiver::OnDuplicate(wire::SackBlock block) {
  //= RFC 5681 4.2, RFC 2883 4: a duplicate segment is acknowledged immediately
  AckNow();
  sacks_.OnDuplicate(block);
}

void Receiver::OnHeld(const OutOfOrder::Overlap& overlap, SeqNum at) {
  if (overlap.has_duplicate()) OnDuplicate(overlap.duplicate);
  sacks_.OnBlock(MUTATION(iwarp_sacks_holes, held_.BlockOf(at),
                          wire::SackBlock{at, held_.end()}));
}

void Receiver::OnDelivered(bool closed, Time now) {
  sacks_.OnDelivered(next_);
  if (fin_known_ && !fin_delivered_ && next_ == fin_at_) {
    //= RFC 9293 3.10.7.4: a FIN advances RCV.NXT, and is acknowledged, when all
    //= bytes before it have arrived
    next_ = next_ + 1;
    fin_delivered_ = true;
    AckNow();
  }
  //= RFC 5681 4.2: a segment that closes a gap, or a part of it, is
  //= acknowledged immediately
  if (closed) AckNow();
  //= RFC 9293 3.8.6.3, RFC 5681 4.2: an acknowledgement is sent for at least
  //= every second full-sized segment
  const uint32_t full = std::clamp(
      largest_payload_, std::min<uint32_t>(kLeastFullPayload, config_.mss),
      uint32_t{config_.mss});
  if (next_ - last_acked_ >= static_cast<int32_t>(2 * full)) AckNow();
  if (ack_ == Ack::kNone) {
    ack_ = Ack::kDelayed;
    ack_at_ = now + config_.ack_delay;
  }
}

void Receiver::SetWindow(uint32_t bytes) {
  window_.SetWilling(bytes);
  // A peer whose window was closed is told now; others see it in the next
  // acknowledgement.
  if (window_bytes() < config_.mss && window_.MayOpen(next_)) AckNow();
}

void Receiver::WriteAck(wire::TcpFields& fields, uint32_t option_room) {
  fields.ack = MUTATION(iwarp_acks_beyond_hole, next_,
                        held_.empty() ? next_ : held_.end());
  fields.flags |= wire::kTcpAck;
  if (echo_congestion_) fields.flags |= wire::kTcpEce;
  fields.window = window_.Offer(next_);
  if (config_.timestamps) {
    if (!fields.options.timestamps.has_value()) {
      fields.options.timestamps.emplace();
    }
    //= RFC 7323 4.2: TSecr of each acknowledgement is TS.Recent
    fields.options.timestamps->echo = ts_recent_;
  }
  last_acked_ = next_;
  fields.options.sack_count = 0;
  if (config_.sack && !sacks_.empty()) {
    const uint32_t fit =
        option_room < kSackOverhead
            ? 0
            : std::min<uint32_t>(
                  (option_room - kSackOverhead) / kSackBlockBytes,
                  wire::kMaxSackBlocks);
    if (fit == 0) return;
    fields.options.sack_count = static_cast<uint8_t>(
        sacks_.Take(std::span(fields.options.sack).first(fit)));
  }
  ack_ = Ack::kNone;
}

}  // namespace urnic::tcp
