#include "transport/iwarp/tcp/connection.h"

#include <algorithm>

#include "transport/base/check.h"

namespace urnic::tcp {
namespace {

using wire::kTcpAck;
using wire::kTcpCwr;
using wire::kTcpEce;
using wire::kTcpFin;
using wire::kTcpPsh;
using wire::kTcpRst;
using wire::kTcpSyn;
using wire::TcpFields;
using wire::TcpSegment;

constexpr Duration kSynInterval = Duration::Seconds(1);
constexpr uint8_t kMaxSynBackOff = 6;

//= RFC 7323 2.2: the window field of a SYN is never scaled
uint16_t SynWindow(const ConnectionConfig& config) {
  return static_cast<uint16_t>(std::min<uint32_t>(config.window(), UINT16_MAX));
}

}  // namespace

TcpFields SynAck(const ConnectionConfig& config, const Agreed& agreed,
                 SeqNum ack, uint32_t ts_recent, uint32_t timestamp) {
  TcpFields fields;
  fields.src_port = config.local_port;
  fields.dst_port = config.remote_port;
  fields.seq = config.iss;
  fields.ack = ack;
  fields.flags = kTcpSyn | kTcpAck;
  if (agreed.ecn) fields.flags |= kTcpEce;
  fields.window = SynWindow(config);
  wire::TcpOptions& options = fields.options;
  options.mss = config.offer.mss;
  options.sack_permitted = agreed.sack;
  options.urnic = agreed.urnic;
  if (agreed.window_shift) options.window_shift = config.window_shift();
  if (agreed.timestamps) options.timestamps = {timestamp, ts_recent};
  return fields;
}

//= RFC 9293 3.10.7.1: a segment for a connection that does not exist is
//= answered by a RST, which the sender of the segment will find acceptable
std::optional<TcpFields> ResetFor(const TcpSegment& segment) {
  if (segment.Has(kTcpRst)) return std::nullopt;
  TcpFields fields;
  fields.src_port = segment.dst_port;
  fields.dst_port = segment.src_port;
  fields.flags = kTcpRst;
  if (segment.Has(kTcpAck)) {
    fields.seq = segment.ack;
  } else {
    fields.flags |= kTcpAck;
    fields.ack = segment.end();
  }
  return fields;
}

void Connection::Start(const ConnectionConfig& config, Time now) {
  URNIC_CHECK(state_ == State::kClosed && end_ == End::kNone);
  config_ = config;
  opened_ = heard_ = progress_ = now;
}

void Connection::Connect(const ConnectionConfig& config, Time now) {
  Start(config, now);
  state_ = State::kSynSent;
  syn_due_ = true;
}

void Connection::Accept(const ConnectionConfig& config,
                        const Handshake& handshake, Time now) {
  Start(config, now);
  Agree(handshake.agreed, handshake.irs, handshake.ts_recent, now);
  Establish(handshake.irs + 1, uint32_t{handshake.window} << peer_shift(), now);
  if (handshake.round_trip.ns() != 0) {
    sender_.OnHandshakeRoundTrip(handshake.round_trip, now);
  }
}

void Connection::Agree(const Agreed& agreed, SeqNum irs, uint32_t ts_recent,
                       Time now) {
  agreed_ = agreed;
  const EcnMode ecn = !agreed.ecn     ? EcnMode::kOff
                      : config_.dctcp ? EcnMode::kDctcp
                                      : EcnMode::kClassic;
  receiver_.Start(
      {.irs = irs,
       .window_bytes = config_.window(),
       //= RFC 7323 2.2: windows are scaled only if both SYNs ask for it
       .window_shift =
           agreed.window_shift ? config_.window_shift() : uint8_t{0},
       .mss = config_.offer.mss,
       .sack = agreed.sack,
       .timestamps = agreed.timestamps,
       .ts_recent = ts_recent,
       .ecn = ecn},
      now);
}

//= RFC 9293 3.7.1: the payload of a segment is at most the peer's MSS and what
//= the path MTU leaves, less the bytes of the TCP options, which the MSS does
//= not include
void Connection::StartPath(Time now) {
  path_.Start(
      {.ipv6 = config_.ipv6, .max_mtu = MaxMtu(), .path_mtu = config_.path_mtu},
      now);
}

void Connection::Establish(SeqNum peer_seq, uint32_t window, Time now) {
  StartPath(now);
  SenderConfig config;
  config.mss = PayloadBytes(path_.mtu());
  config.sack = agreed_.sack;
  config.timestamps = agreed_.timestamps;
  config.ecn = agreed_.ecn;
  config.clock = clock();
  config.paced = config_.paced;
  //= RFC 6298 5.7: if a SYN had to be resent, the first time-out of data is 3 s
  if (syns_sent_ > 1) config.initial_timeout = Duration::Seconds(3);
  sender_.Start(config, segments_, config_.iss + 1, peer_seq, window);
  sender_.cc.Start(
      {.algorithm = agreed_.ecn && config_.dctcp ? cc::TcpAlgorithm::kDctcp
                                                 : cc::TcpAlgorithm::kCubic,
       .mss = config.mss,
       .handshake_resent = syns_sent_ > 1},
      now);
  state_ = State::kEstablished;
  syn_due_ = false;
  syn_at_ = Time::Infinite();
}

void Connection::OnTooBig(uint32_t mtu, SeqNum quoted, Time now) {
  if (!is_synchronized()) return;
  if (path_.OnTooBig(mtu, quoted, sender_.una(), sender_.nxt(), now)) {
    FollowPath();
  }
}

void Connection::OnLinkMtu(uint32_t mtu, Time now) {
  if (!is_synchronized()) {
    config_.path_mtu =
        config_.path_mtu == 0 ? mtu : std::min(config_.path_mtu, mtu);
    return;
  }
  if (path_.OnLimit(std::min(mtu, MaxMtu()), now)) FollowPath();
}

void Connection::JudgeMtuProbe(Time now) {
  switch (sender_.TakeMtuProbeFate()) {
    case MtuProbeFate::kNone:
      return;
    case MtuProbeFate::kArrived:
      path_.OnProbeAcked(now);
      FollowPath();
      return;
    case MtuProbeFate::kLost:
      path_.OnProbeLost(now);
      return;
    case MtuProbeFate::kUnclear:
      path_.OnProbeUnclear(now);
      return;
  }
}

void Connection::OnSenderTimer(Time now) {
  const uint64_t timeouts = sender_.counters().timeouts;
  const uint32_t first = sender_.first_unacknowledged_bytes();
  sender_.OnTimer(now);
  JudgeMtuProbe(now);
  if (sender_.counters().timeouts == timeouts) return;
  // A peer that has closed its window refuses segments of any size.
  if (sender_.peer_window() == 0) return;
  if (path_.OnTimeout(PacketBytes(first), now)) FollowPath();
}

void Connection::Finish(End end) {
  end_ = end;
  state_ = State::kClosed;
  syn_due_ = probe_due_ = false;
}

void Connection::Close() {
  switch (state_) {
    case State::kSynSent:
    case State::kSynReceived:
      Abort();
      return;
    case State::kEstablished:
      state_ = State::kFinWait1;
      break;
    case State::kCloseWait:
      state_ = State::kLastAck;
      break;
    default:
      return;
  }
  sender_.Finish();
}

void Connection::Abort() {
  if (end_ != End::kNone) return;
  //= RFC 9293 3.10.5: ABORT sends a RST, but not in SYN-SENT and TIME-WAIT
  reset_due_ = state_ != State::kSynSent && state_ != State::kClosed &&
               state_ != State::kTimeWait;
  if (reset_due_) {
    reset_seq_ = is_synchronized() ? sender_.nxt() : config_.iss + 1;
    reset_ack_ = receiver_.next();
  }
  Finish(End::kAborted);
}

RxVerdict Connection::OnSynSent(const TcpSegment& segment, Time now) {
  const bool acks = segment.Has(kTcpAck);
  //= RFC 9293 3.10.7.3: in SYN-SENT, a segment that acknowledges anything but
  //= the SYN is answered by a RST
  // The owner does so: such a segment belongs to no connection.
  if (acks && segment.ack != config_.iss + 1) return RxVerdict::kTcp;
  if (segment.Has(kTcpRst)) {
    //= RFC 5961 3.2: in SYN-SENT, a RST is accepted only if it acknowledges the
    //= SYN
    if (!acks) return RxVerdict::kTcpOutOfWindow;
    Finish(End::kRefused);
    return RxVerdict::kAccept;
  }
  if (!segment.Has(kTcpSyn)) return RxVerdict::kTcpOutOfWindow;
  heard_ = progress_ = now;
  const auto& timestamps = segment.options.timestamps;
  Agree(config_.offer.With(segment), segment.seq,
        timestamps ? timestamps->value : 0, now);
  if (!acks) {
    //= RFC 9293 3.5: simultaneous open: a SYN that arrives in SYN-SENT is
    //= answered by a SYN-ACK with the same sequence number
    state_ = State::kSynReceived;
    syn_due_ = true;
    return RxVerdict::kAccept;
  }
  //= RFC 7323 2.2: the window field of a SYN is never scaled
  Establish(segment.seq, segment.window, now);
  if (syns_sent_ == 1) sender_.OnHandshakeRoundTrip(now - syn_sent_, now);
  receiver_.AckNow();
  return RxVerdict::kAccept;
}

RxVerdict Connection::CheckFlags(const TcpSegment& segment, Time now) {
  if (segment.Has(kTcpRst)) {
    //= RFC 5961 3.2: a RST resets the connection only if its sequence number is
    //= exactly RCV.NXT; a RST elsewhere in the window is answered by a
    //= challenge ACK
    if (segment.seq != receiver_.next()) return Challenge(now);
    //= RFC 9293 3.10.7.4: a RST in SYN-RECEIVED after an active open means that
    //= the connection is refused
    Finish(state_ == State::kSynReceived ? End::kRefused : End::kReset);
    return RxVerdict::kAccept;
  }
  //= RFC 5961 4.2: in a synchronized state, a SYN is answered by a challenge
  //= ACK, whatever its sequence number is
  if (segment.Has(kTcpSyn)) return Challenge(now);
  //= RFC 9293 3.10.7.4: a segment without the ACK flag is dropped
  return segment.Has(kTcpAck) ? RxVerdict::kAccept : RxVerdict::kTcpOutOfWindow;
}

//= RFC 9293 3.5: in a simultaneous open, the SYN-ACK of each end acknowledges
//= the SYN of the other
RxVerdict Connection::OnSynAcked(const TcpSegment& segment, uint32_t window,
                                 Time now) {
  if (!segment.Has(kTcpAck)) return RxVerdict::kTcpDuplicate;
  if (segment.ack != config_.iss + 1) return RxVerdict::kTcp;
  heard_ = progress_ = now;
  Establish(segment.seq, window, now);
  // A plain acknowledgement needs no answer.
  if (segment.Has(kTcpSyn)) receiver_.AckNow();
  return RxVerdict::kAccept;
}

RxVerdict Connection::Challenge(Time now) {
  if (challenge_limit_.Take(*challenges_, now)) receiver_.AckNow();
  return RxVerdict::kTcpChallenged;
}

//= RFC 9293 3.10.7.4: the acknowledgement of our FIN moves FIN-WAIT-1 to
//= FIN-WAIT-2 and CLOSING to TIME-WAIT, and ends LAST-ACK
void Connection::OnFinAcked(Time now) {
  if (state_ == State::kFinWait1) {
    state_ = State::kFinWait2;
    fin_acked_ = now;
  }
  if (state_ == State::kClosing) state_ = State::kTimeWait;
  if (state_ == State::kLastAck) Finish(End::kClosed);
}

//= RFC 9293 3.10.7.4: the peer's FIN moves ESTABLISHED to CLOSE-WAIT,
//= FIN-WAIT-1 to CLOSING and FIN-WAIT-2 to TIME-WAIT
void Connection::OnFinDelivered() {
  receiver_.AckNow();
  if (state_ == State::kEstablished) state_ = State::kCloseWait;
  if (state_ == State::kFinWait1) state_ = State::kClosing;
  if (state_ == State::kFinWait2) state_ = State::kTimeWait;
}

Time Connection::deadline() const {
  if (state_ == State::kClosed) return Time::Infinite();
  if (!is_synchronized())
    return std::min(syn_at_, opened_ + config_.syn_timeout);
  Time due = std::min(sender_.deadline(), receiver_.deadline());
  if (state_ == State::kFinWait2)
    due = std::min(due, fin_acked_ + config_.fin_timeout);
  if (sender_.timeouts() != 0) {
    due = std::min(due, progress_ + config_.user_timeout);
  }
  return std::min(due, KeepaliveAt());
}

Time Connection::KeepaliveAt() const {
  if (config_.keepalive_idle.ns() == 0 || !sender_.idle()) {
    return Time::Infinite();
  }
  return heard_ + config_.keepalive_idle +
         config_.keepalive_interval * keepalives_sent_;
}

void Connection::OnTimer(Time now) {
  if (state_ == State::kClosed) return;
  if (!is_synchronized()) {
    //= RFC 9293 3.8.3: an open whose SYN is not answered within R2 is given up
    if (now >= opened_ + config_.syn_timeout) return Finish(End::kTimedOut);
    if (now >= syn_at_) syn_due_ = true;
    return;
  }
  receiver_.OnTimer(now);
  if (now >= sender_.deadline()) OnSenderTimer(now);
  if (sender_.timeouts() != 0 && now >= progress_ + config_.user_timeout) {
    return Finish(End::kTimedOut);
  }
  if (state_ == State::kFinWait2 && now >= fin_acked_ + config_.fin_timeout) {
    return Finish(End::kTimedOut);
  }
  if (now < KeepaliveAt()) return;
  if (keepalives_sent_ == config_.keepalive_probes) {
    return Finish(End::kTimedOut);
  }
  ++keepalives_sent_;
  probe_due_ = true;
}

TcpFields Connection::Fields(SeqNum seq, uint8_t flags, Time now) const {
  TcpFields fields;
  fields.src_port = config_.local_port;
  fields.dst_port = config_.remote_port;
  fields.seq = seq;
  fields.flags = flags;
  if (agreed_.timestamps) fields.options.timestamps = {clock().At(now), 0};
  return fields;
}

TcpFields Connection::Syn(Time now) {
  syn_due_ = false;
  syn_sent_ = now;
  //= RFC 6298 2.1, 5.5: a SYN is sent again after 1 s, and each further time
  //= after twice as long
  syn_at_ =
      now + kSynInterval * (int64_t{1} << std::min(syns_sent_, kMaxSynBackOff));
  if (syns_sent_ < UINT8_MAX) ++syns_sent_;
  if (state_ == State::kSynReceived) {
    return SynAck(config_, agreed_, receiver_.next(), receiver_.ts_recent(),
                  clock().At(now));
  }
  const Offer& offer = config_.offer;
  TcpFields fields = Fields(config_.iss, kTcpSyn, now);
  //= RFC 3168 6.1.1.1: a SYN that is sent again does not ask for ECN, because
  //= the first may have been dropped for that
  if (offer.ecn && syns_sent_ == 1) fields.flags |= kTcpEce | kTcpCwr;
  fields.window = SynWindow(config_);
  fields.options.mss = offer.mss;
  fields.options.sack_permitted = offer.sack;
  fields.options.urnic = offer.urnic;
  fields.options.window_shift = config_.window_shift();
  if (offer.timestamps) fields.options.timestamps = {clock().At(now), 0};
  return fields;
}

//= RFC 7323 3.2: also a RST should have the timestamp
TcpFields Connection::Reset(Time now) const {
  TcpFields fields = Fields(reset_seq_, kTcpRst | kTcpAck, now);
  fields.ack = reset_ack_;
  if (agreed_.timestamps) {
    fields.options.timestamps->echo = receiver_.ts_recent();
  }
  return fields;
}

TcpFields Connection::Ack(SeqNum seq, Time now) {
  TcpFields fields = Fields(seq, kTcpAck, now);
  receiver_.WriteAck(fields, wire::kTcpMaxOptionBytes - OptionBytes());
  return fields;
}

TcpSlot Connection::Slot(const SegmentToSend& segment, Time now) {
  uint8_t flags = kTcpAck;
  if (segment.push) flags |= kTcpPsh;
  if (segment.fin) flags |= kTcpFin;
  if (segment.cwr) flags |= kTcpCwr;
  TcpSlot slot;
  slot.fields = Fields(segment.seq, flags, now);
  const uint32_t room = sender_.mss() - std::min(segment.bytes, sender_.mss());
  receiver_.WriteAck(slot.fields,
                     std::min(room, wire::kTcpMaxOptionBytes - OptionBytes()));
  slot.source = segment.source;
  slot.offset = segment.offset;
  slot.bytes = segment.bytes;
  slot.ect = agreed_.ecn && segment.may_be_ect();
  return slot;
}

}  // namespace urnic::tcp
