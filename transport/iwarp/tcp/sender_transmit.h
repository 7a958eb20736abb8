#pragma once

// Sender: what is sent. Included by sender.h.

#include "transport/base/mutation.h"
#include "transport/iwarp/tcp/sender.h"

namespace urnic::tcp {

template <cc::StreamCongestionControl Cc>
uint64_t Sender<Cc>::pipe() const {
  const uint64_t bytes = board_.pipe() + PiecesSent();
  // Without SACK, each duplicate acknowledgement means that a segment has
  // arrived.
  const uint64_t arrived = uint64_t{state_.duplicates} * config_.mss;
  return config_.sack ? bytes : bytes - std::min(bytes, arrived);
}

template <cc::StreamCongestionControl Cc>
uint32_t Sender<Cc>::PiecesSent() const {
  const SegmentRing& ring = board_.ring();
  const uint32_t number = state_.pieces_of;
  if (!state_.in_pieces || number - ring.first() >= ring.size()) return 0;
  const SegmentRecord& record = ring.at(number);
  if (record.state != SegmentRecord::kLost) return 0;
  // Its first bytes may have been acknowledged.
  return static_cast<uint32_t>(std::max(state_.pieces_end - record.seq, 0));
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::HasRoom(uint32_t bytes) const {
  const uint64_t under_way = pipe();
  if (under_way == 0) return true;
  if (state_.phase == Phase::kRecovery) return state_.reduction.quota >= bytes;
  return under_way + bytes <= window_bytes();
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::Paced(Time now) {
  if (!config_.paced || !cc.pacer.active() || now >= cc.pacer.next_send) {
    return false;
  }
  state_.resume_at = cc.pacer.next_send;
  return true;
}

template <cc::StreamCongestionControl Cc>
template <typename Upper>
uint32_t Sender<Cc>::Transmit(Time now, std::span<SegmentToSend> out,
                              Upper& upper) {
  State& s = state_;
  uint32_t n = 0;
  const auto room = [&] { return n < out.size(); };
  s.resume_at = Time::Infinite();
  if (s.window_probe_due && room()) SendWindowProbe(out[n++]);
  if (s.force_head && room()) {
    s.force_head = false;
    n += Resend(board_.ring().first(), /*force=*/true, now, out[n]);
  }
  if (s.forward.step == ForwardRto::kHeadResent) return n;
  if (s.forward.step == ForwardRto::kNewSent) {
    //= RFC 5682 3.1: F-RTO sends up to two new segments; without any, the
    //= time-out was genuine
    while (room() && s.forward.new_left != 0 &&
           SendNew(/*force=*/true, now, out[n], upper)) {
      ++n;
      --s.forward.new_left;
    }
    if (!room() || s.forward.new_left != ForwardRto::kNewSegments) return n;
    s.forward.step = ForwardRto::kOff;
  }
  while (room() && board_.lost_segments() != 0 &&
         Resend(board_.NextLost(), /*force=*/false, now, out[n])) {
    ++n;
  }
  while (room() && board_.lost_segments() == 0 &&
         SendNew(/*force=*/false, now, out[n], upper)) {
    ++n;
  }
  if (s.probe.due && room()) n += SendTailProbe(now, out[n], upper);
  //= RFC 9293 3.9.1.2: PSH is set in the last segment that can be sent at the
  //= time
  if (n != 0 && room()) out[n - 1].push = true;
  return n;
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::SendWindowProbe(SegmentToSend& out) {
  //= RFC 9293 3.8.6.1: a window probe makes the peer send an acknowledgement
  //= with its current window
  // The probe has the sequence number before SND.UNA and no data, as in Linux.
  // A byte of data would divide a chunk, and the peer would refuse it.
  state_.window_probe_due = false;
  ++counters_.window_probes;
  out = SegmentToSend();
  out.seq = SeqNum(state_.una.value() - 1);
  out.is_retransmission = true;
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::Resend(uint32_t number, bool force, Time now,
                        SegmentToSend& out) {
  State& s = state_;
  if (board_.empty()) return false;
  const SegmentRecord record = board_.ring().at(number);
  if (record.state != SegmentRecord::kLost) return false;
  //= RFC 9293 3.8.6: data beyond the right edge of a window that has shrunk are
  //= not retransmitted, except when the retransmission timer expires
  if (!force && record.end() - (s.una + s.peer.bytes) > 0) return false;
  const uint32_t at = s.pieces_of == number ? PiecesSent() : 0;
  const SeqNum from = record.seq + at;
  const auto left = static_cast<uint32_t>(record.end() - from) - record.fin;
  // Only if the peer has acknowledged a part of the chunk.
  const bool repeats = !MayBeginSegment(record.offset + at);
  uint32_t bytes = std::min(left, config_.mss - repeats);
  if (bytes != left && !MayBeginSegment(record.offset + at + bytes)) --bytes;
  if (!force && (!HasRoom(std::max(bytes, 1u)) || Paced(now))) return false;
  out = SegmentToSend();
  out.seq = from;
  out.bytes = bytes;
  out.source = record.source;
  out.offset =
      record.offset + MUTATION(iwarp_resends_pieces_from_start, at, 0u);
  out.is_retransmission = true;
  out.fin = record.fin;
  if (repeats) out.RepeatByteBefore();
  s.in_pieces = bytes != left;
  if (s.in_pieces) {
    s.pieces_of = number;
    s.pieces_end = from + bytes;
  } else {
    board_.OnResent(number, now);
  }
  s.episode.OnResend(record.end(), config_.clock.At(now));
  ++s.resent;
  ++counters_.retransmissions;
  OnSent(bytes + record.fin, now);
  return true;
}

template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::MayProbeMtu() const {
  //= RFC 4821 7.4: a probe is sent only if no loss is being repaired, and if
  //= the windows are large enough for it and for what shows its loss
  // Without SACK, several duplicate acknowledgements show it.
  if (state_.mtu_probe_bytes == 0 || recovering() || state_.duplicates != 0 ||
      board_.lost_segments() != 0 || board_.sacked_segments() != 0) {
    return false;
  }
  const uint64_t behind = config_.sack ? 1 : Rack::kDupThresh;
  const uint64_t bytes = state_.mtu_probe_bytes + behind * config_.mss;
  return bytes <= std::min<uint64_t>(state_.peer.bytes, window_bytes());
}

template <cc::StreamCongestionControl Cc>
template <typename Upper>
bool Sender<Cc>::SendNew(bool force, Time now, SegmentToSend& out,
                         Upper& upper) {
  State& s = state_;
  const uint32_t usable = s.peer.Usable(s.una, s.nxt);
  if (usable == 0 && !board_.empty()) return false;
  if (!force && !HasRoom(1)) {
    s.rounds.OnWindowFull();
    return false;
  }
  if (s.pending.bytes == 0) {
    const uint32_t most =
        !force && MayProbeMtu() ? s.mtu_probe_bytes : config_.mss;
    s.pending = upper.NextChunk(most);
    s.pending_offset = 0;
    URNIC_CHECK(s.pending.bytes <= most);
  }
  const bool fin = s.pending.bytes == 0;
  if (fin && (!s.finishing || s.fin_sent)) return false;
  const uint32_t left = s.pending.bytes - s.pending_offset;
  uint32_t bytes = std::min(left, std::max(s.mtu_probe_bytes, config_.mss));
  MUTATION_SKIPS(iwarp_ignores_peer_window)
  if (bytes + fin > usable) {
    if (!WaitForWindow(usable, now)) return false;
    bytes = usable;
  }
  if (bytes != left && !MayBeginSegment(s.pending_offset + bytes)) --bytes;
  if (!force && !HasRoom(bytes + fin)) {
    s.rounds.OnWindowFull();
    return false;
  }
  if (!force && Paced(now)) {
    // The pacer spreads a whole window over a round trip. A sender that waits
    // for it counts as filling the window, even if the round trip is shorter
    // now.
    s.rounds.OnWindowFull();
    return false;
  }
  if (!board_.MakeRoom()) {
    ++counters_.no_records;
    if (board_.empty()) s.resume_at = now + kRecordRetry;
    return false;
  }
  AppendNew(bytes, fin, now, out);
  return true;
}

// The chunk does not fit into the peer's window. Returns true if a part of it
// is sent now.
//= RFC 9293 3.8.6.2.1: a part of a chunk is sent only if it fills half of the
//= largest window that the peer has offered, or if the override time-out has
//= expired
template <cc::StreamCongestionControl Cc>
bool Sender<Cc>::WaitForWindow(uint32_t usable, Time now) {
  State& s = state_;
  if (!board_.empty()) return false;
  if (usable >= kLeastPart &&
      (s.override_due || usable >= s.peer.largest / 2)) {
    return true;
  }
  if (!s.persisting) {
    s.persisting = true;
    s.timeout_at = now + s.round_trip.timeout();
  }
  return false;
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::AppendNew(uint32_t bytes, bool fin, Time now,
                           SegmentToSend& out) {
  State& s = state_;
  if (board_.empty()) {
    cc.OnRestart(now);
    cc.pacer.Restart(now);
  }
  SegmentRecord record;
  record.source = s.pending.source;
  record.sent = now;
  record.seq = s.nxt;
  record.offset = static_cast<uint16_t>(s.pending_offset);
  record.bytes = static_cast<uint16_t>(bytes);
  record.fin = fin;
  record.last = !fin && s.pending_offset + bytes == s.pending.bytes;
  if (bytes > config_.mss) {
    s.mtu_probe = true;
    s.mtu_probe_number = board_.ring().end();
    s.mtu_probe_bytes = 0;
  }
  board_.Append(record);
  s.nxt = s.nxt + (bytes + fin);
  out = SegmentToSend();
  out.seq = record.seq;
  out.bytes = bytes;
  out.source = record.source;
  out.offset = record.offset;
  out.fin = fin;
  out.cwr = s.cwr_due && bytes != 0;
  if (bytes != 0) s.cwr_due = false;
  s.fin_sent |= fin;
  s.pending_offset += bytes;
  if (record.last) s.pending = Chunk();
  if (s.persisting) {
    s.persisting = s.override_due = false;
    s.timeout_at = Time::Infinite();
  }
  OnSent(bytes + fin, now);
  ScheduleProbe(now);
}

template <cc::StreamCongestionControl Cc>
template <typename Upper>
bool Sender<Cc>::SendTailProbe(Time now, SegmentToSend& out, Upper& upper) {
  State& s = state_;
  s.probe.due = false;
  if (recovering() || board_.empty()) return false;
  //= RFC 8985 7.3: a tail loss probe sends new data if there are any, otherwise
  //= it retransmits the segment with the highest sequence number
  const bool is_new = SendNew(/*force=*/true, now, out, upper);
  if (!is_new) {
    const uint32_t number = board_.ring().end() - 1;
    const SegmentRecord record = board_.ring().at(number);
    if (record.state != SegmentRecord::kInFlight) return false;
    out = SegmentToSend();
    // Its last part, if it is larger than the new MSS. If a segment may not
    // begin there, it begins a byte later or earlier.
    out.bytes = std::min<uint32_t>(record.bytes, config_.mss);
    uint32_t skipped = record.bytes - out.bytes;
    const bool moves = !MayBeginSegment(record.offset + skipped);
    const bool forward = moves && out.bytes == config_.mss;
    skipped += forward;
    out.bytes -= forward;
    out.seq = record.seq + skipped;
    out.source = record.source;
    out.offset = record.offset + skipped;
    if (moves && !forward) out.RepeatByteBefore();
    out.fin = record.fin;
    out.is_retransmission = true;
    board_.OnResent(number, now);
    ++counters_.retransmissions;
  }
  ++counters_.tail_probes;
  s.probe.OnSend(s.nxt, !is_new);
  s.probe_at = Time::Infinite();
  s.round_trip.fresh = false;
  s.timeout_at = now + s.round_trip.timeout();
  return true;
}

template <cc::StreamCongestionControl Cc>
void Sender<Cc>::OnSent(uint32_t bytes, Time now) {
  State& s = state_;
  ++counters_.segments;
  if (s.phase == Phase::kRecovery) s.reduction.OnSend(bytes);
  if (cc.pacer.active()) cc.pacer.OnSend(now, bytes, kPacingCatchUp);
  //= RFC 6298 5.1: sending data starts the retransmission timer if it does not
  //= run
  MUTATION_SKIPS(iwarp_forgets_retransmission_timer)
  if (s.timeout_at.IsInfinite()) s.timeout_at = now + s.round_trip.timeout();
}

}  // namespace urnic::tcp
