#include "transport/iwarp/tcp/image_fields.h"

namespace urnic {
namespace {

using tcp::SegmentRecord;
using tcp::State;

// The least room of an IPv4 packet for TCP's payload and options.
constexpr uint16_t kLeastMss = 28;

void CheckSegment(ImageReader& f, const SegmentRecord& record,
                  const SegmentRecord* before) {
  f.Require((record.bytes == 0) == (record.fin != 0), "bytes", record.bytes,
            "is not what a segment has");
  f.Require(uint32_t{record.offset} + record.bytes <= UINT16_MAX, "offset",
            record.offset, "is beyond the end of a chunk");
  f.Require(!record.fin || !record.last, "last", record.last, "is of a FIN");
  if (before == nullptr || record.fin) return;
  if (before->last) {
    f.Require(record.offset == 0, "offset", record.offset,
              "is not the beginning of a chunk");
  } else {
    f.Require(record.source == before->source &&
                  record.offset == uint32_t{before->offset} + before->bytes,
              "offset", record.offset, "does not continue a chunk");
  }
}

}  // namespace

// The lost segment that is being resent in pieces. It may have arrived since.
void FieldsOf<tcp::Sender<cc::TcpCongestion>>::CheckPieces(ImageReader& f,
                                                           const Sender& s) {
  const auto& state = s.state_;
  const tcp::SegmentRing& ring = s.board_.ring();
  if (!state.in_pieces) return;
  f.Require(static_cast<int32_t>(state.pieces_of - ring.end()) < 0, "pieces_of",
            state.pieces_of, "has not been sent");
  if (state.pieces_of - ring.first() >= ring.size()) return;
  f.Require(state.pieces_end - ring.at(state.pieces_of).end() < 0, "pieces_end",
            state.pieces_end.value(), "is beyond the end of the segment");
}

// The probe of an MTU is a segment in flight; other fates are known at once.
void FieldsOf<tcp::Sender<cc::TcpCongestion>>::CheckProbe(ImageReader& f,
                                                          const Sender& s) {
  const auto& state = s.state_;
  const tcp::SegmentRing& ring = s.board_.ring();
  f.Require(state.mtu_probe_fate == tcp::MtuProbeFate::kNone, "mtu_probe_fate",
            static_cast<uint64_t>(state.mtu_probe_fate), "has been reported");
  if (!state.mtu_probe) return;
  const bool sent = state.mtu_probe_number - ring.first() < ring.size();
  f.Require(
      sent && ring.at(state.mtu_probe_number).state == SegmentRecord::kInFlight,
      "mtu_probe_number", state.mtu_probe_number, "is not under way");
}

void FieldsOf<tcp::Sender<cc::TcpCongestion>>::Check(ImageReader& f,
                                                     const Sender& s) {
  const auto& state = s.state_;
  const tcp::SegmentRing& ring = s.board_.ring();
  const SegmentRecord* before = nullptr;
  SeqNum at = state.una;
  for (uint32_t number = ring.first(); number != ring.end(); ++number) {
    const SegmentRecord& record = ring.at(number);
    f.Require(record.seq == at, "seq", record.seq.value(),
              "does not follow what is before");
    f.Require(!record.fin || (number + 1 == ring.end() && state.fin_sent),
              "fin", record.fin, "is not the last that was sent");
    CheckSegment(f, record, before);
    at = record.end();
    before = &record;
  }
  f.Require(at == state.nxt, "nxt", state.nxt.value(),
            "is not the end of the segments");
  const bool has_fin = before != nullptr && before->fin;
  f.Require(before == nullptr || has_fin == state.fin_sent, "fin_sent",
            state.fin_sent, "does not fit the segments");
  f.Require(!state.fin_sent || state.finishing, "fin_sent", state.fin_sent,
            "comes before the end");
  const tcp::Chunk& pending = state.pending;
  // A part of the last segment's chunk has not been sent.
  const bool open = before != nullptr && !before->fin && !before->last;
  f.Require(!open || (pending.bytes != 0 && pending.source == before->source &&
                      state.pending_offset ==
                          uint32_t{before->offset} + before->bytes),
            "pending_offset", state.pending_offset,
            "does not continue the last segment");
  if (pending.bytes != 0) {
    f.Require(pending.bytes <= UINT16_MAX, "bytes", pending.bytes,
              "is more than a chunk has");
    f.Require(state.pending_offset < pending.bytes, "pending_offset",
              state.pending_offset, "is beyond the end of a chunk");
    f.Require(open || before == nullptr || state.pending_offset == 0,
              "pending_offset", state.pending_offset,
              "is not the beginning of a chunk");
    f.Require(!state.fin_sent, "fin_sent", state.fin_sent,
              "is before the end of a chunk");
  }
  CheckPieces(f, s);
  CheckProbe(f, s);
  f.Require(s.config_.sack || s.board_.sacked_segments() == 0, "sacked",
            s.board_.sacked_segments(), "is not agreed on");
  f.Require(before == nullptr || !state.timeout_at.IsInfinite(), "timeout_at",
            UINT64_MAX, "is never, and segments are under way");
  f.Require(s.cc.mss == s.config_.mss, "mss", s.cc.mss,
            "differs from the sender's");
}

void FieldsOf<tcp::Receiver>::Check(ImageReader& f, const tcp::Receiver& r) {
  const int32_t open = r.window_.right_edge() - r.next_;
  f.Require(
      open >= 0 && static_cast<uint32_t>(open) <= tcp::ReceiveWindow::kMaxBytes,
      "edge", r.window_.right_edge().value(), "is not of a window");
  f.Require(r.next_ - r.last_acked_ >= 0, "last_acked", r.last_acked_.value(),
            "has not been received");
  f.Require(r.held_.empty() || (r.held_.begin() - r.next_ >= 0 &&
                                r.window_.right_edge() - r.held_.end() >= 0),
            "begin", r.held_.empty() ? 0 : r.held_.begin().value(),
            "is not within the window");
  f.Require(r.ack_ != tcp::Receiver::Ack::kDelayed || !r.ack_at_.IsInfinite(),
            "ack_at", UINT64_MAX, "is never");
  if (r.fin_delivered_) {
    f.Require(r.fin_known_ && r.next_ == r.fin_at_ + 1 && r.held_.empty(),
              "fin_at", r.fin_at_.value(), "is not the end of the stream");
  } else if (r.fin_known_) {
    const SeqNum end = r.held_.empty() ? r.next_ : r.held_.end();
    f.Require(r.fin_at_ - end >= 0, "fin_at", r.fin_at_.value(),
              "is before what was received");
  }
}

void FieldsOf<tcp::PathMtu>::Check(ImageReader& f, const tcp::PathMtu& p) {
  f.Require(p.least_ <= p.mtu_ && p.mtu_ <= p.max_mtu_, "mtu", p.mtu_,
            "is not a size for this path");
  f.Require(p.mtu_ <= p.high_ && p.high_ <= p.max_mtu_, "high", p.high_,
            "is not a size above mtu for this path");
  const auto is_none_or_above_mtu = [&](uint32_t bytes, uint32_t most) {
    return bytes == 0 || (bytes > p.mtu_ && bytes <= most);
  };
  f.Require(is_none_or_above_mtu(p.probe_bytes_, p.high_), "probe_bytes",
            p.probe_bytes_, "is not in mtu..high");
  f.Require(
      !p.probing_ || (p.sent_bytes_ != 0 &&
                      is_none_or_above_mtu(p.sent_bytes_, p.probe_bytes_)),
      "sent_bytes", p.sent_bytes_, "is not in mtu..probe_bytes");
  f.Require(is_none_or_above_mtu(p.lost_bytes_, p.probe_bytes_), "lost_bytes",
            p.lost_bytes_, "is not in mtu..probe_bytes");
  f.Require(p.probe_losses_ < tcp::PathMtu::kProbeLosses, "probe_losses",
            p.probe_losses_, "is more than are needed");
  f.Require(p.timeouts_ < tcp::PathMtu::kFullStop, "timeouts", p.timeouts_,
            "is a full stop");
}

bool FieldsOf<tcp::Connection>::RequireMss(ImageReader& f,
                                           const tcp::Connection& c) {
  const uint16_t ours = c.config_.offer.mss;
  const uint16_t theirs = c.agreed_.mss;
  const bool agreed = c.state_ != State::kClosed && c.state_ != State::kSynSent;
  return f.Require(ours >= kLeastMss, "mss", ours, "is too small") &&
         f.Require(!agreed || theirs >= kLeastMss, "mss", theirs,
                   "is too small");
}

void FieldsOf<tcp::Connection>::CheckPath(ImageReader& f,
                                          const tcp::Connection& c) {
  const tcp::PathMtu& path = c.path_;
  const auto& sender = c.sender_.state_;
  FieldsOf<tcp::PathMtu>::Check(f, path);
  f.Require(c.sender_.mss() == c.PayloadBytes(path.mtu()), "mss",
            c.sender_.mss(), "is not what both ends and the path carry");
  f.Require(path.probing_ == sender.mtu_probe, "probing", path.probing_,
            "differs from the sender's");
  f.Require(sender.mtu_probe_bytes == 0 ||
                (!path.probing_ &&
                 sender.mtu_probe_bytes == c.PayloadBytes(path.probe_bytes_)),
            "mtu_probe_bytes", sender.mtu_probe_bytes,
            "is not a probe of the path");
}

void FieldsOf<tcp::Connection>::Check(ImageReader& f,
                                      const tcp::Connection& c) {
  const State state = c.state_;
  const auto number = static_cast<uint64_t>(state);
  const bool ended = c.end_ != tcp::End::kNone;
  f.Require(ended == (state == State::kClosed), "state", number,
            "does not fit the end");
  f.Require(!c.reset_due_ || ended, "reset_due", c.reset_due_,
            "comes before the end");
  if (ended || !f.ok()) return;
  const bool waits = state == State::kSynSent || state == State::kSynReceived;
  f.Require(!c.syn_due_ || waits, "syn_due", c.syn_due_,
            "does not fit the state");
  f.Require(!waits || c.syn_due_ || !c.syn_at_.IsInfinite(), "syn_at",
            UINT64_MAX, "is never, and no SYN is due");
  FieldsOf<tcp::Receiver>::Check(f, c.receiver_);
  f.Require(state != State::kSynSent || !c.receiver_.has_hole(), "ranges",
            c.receiver_.range_count(), "does not fit the state");
  if (state == State::kSynSent) return;
  const tcp::ReceiverConfig& in = c.receiver_.config_;
  f.Require(in.mss == c.config_.offer.mss, "mss", in.mss,
            "differs from the offer");
  f.Require(in.sack == c.agreed_.sack && in.timestamps == c.agreed_.timestamps,
            "sack", in.sack, "or timestamps differ from what was agreed");
  const bool at_end = c.receiver_.fin_delivered();
  f.Require(at_end == (state == State::kCloseWait || state == State::kClosing ||
                       state == State::kLastAck || state == State::kTimeWait),
            "fin_delivered", at_end, "does not fit the state");
  if (waits || !f.ok()) return;
  const tcp::SenderConfig& out = c.sender_.config_;
  f.Require(out.sack == c.agreed_.sack &&
                out.timestamps == c.agreed_.timestamps &&
                out.ecn == c.agreed_.ecn,
            "sack", out.sack, "timestamps or ecn differ from what was agreed");
  FieldsOf<tcp::Sender<cc::TcpCongestion>>::Check(f, c.sender_);
  CheckPath(f, c);
  const bool finishing =
      state != State::kEstablished && state != State::kCloseWait;
  f.Require(c.sender_.state_.finishing == finishing, "finishing",
            c.sender_.state_.finishing, "does not fit the state");
  f.Require(c.sender_.fin_acked() ==
                (state == State::kFinWait2 || state == State::kTimeWait),
            "fin_sent", c.sender_.state_.fin_sent, "does not fit the state");
}

}  // namespace urnic
