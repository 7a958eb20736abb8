#pragma once

// One TCP connection: the state machine around a Sender and a Receiver. It
// handles bytes; `Upper` makes and takes them:
//
//   Chunk NextChunk(uint32_t max_bytes);      chunk.h
//   void OnChunkAcked(uint64_t source);
//   uint32_t OnBytes(SeqNum, std::span<const uint8_t>, const ReceivedFrame&);
//                                             receiver.h
//
// The half-open connections of a listener are not Connections: a Connection
// begins when the handshake is complete. In TIME-WAIT only a record in a
// TimeWait table remains: when state() is kTimeWait, the owner adds it there.
//
// After each call the owner checks ended(), has_work() and deadline(). It also
// calls Transmit() when Upper has new data. After the placements of a burst it
// calls ReleaseDelivered().
//
// Nothing is allocated, except records of segments from the owner's slab.
// Thread: the token's holder. Time does not go backwards.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/fields.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/time.h"
#include "transport/cc/tcp_congestion.h"
#include "transport/iwarp/tcp/agreed.h"
#include "transport/iwarp/tcp/challenge.h"
#include "transport/iwarp/tcp/chunk.h"
#include "transport/iwarp/tcp/path_mtu.h"
#include "transport/iwarp/tcp/receiver.h"
#include "transport/iwarp/tcp/sender.h"
#include "transport/iwarp/tcp/slot.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

//= RFC 9293 3.3.2: the states of a connection
// LISTEN, and the SYN-RECEIVED of a listener, are not states of a Connection.
enum class State : uint8_t {
  kClosed,
  kSynSent,
  kSynReceived,  // after a simultaneous open
  kEstablished,
  kFinWait1,
  kFinWait2,
  kCloseWait,
  kClosing,
  kLastAck,
  kTimeWait,
};

// Why a connection has ended.
enum class End : uint8_t {
  kNone,      // it has not
  kClosed,    // both ends have closed it
  kRefused,   // the peer has answered our SYN with a RST
  kReset,     // by the peer
  kTimedOut,  // the peer has not answered for too long
  kAborted,   // by us
};

struct ConnectionConfig {
  uint16_t local_port = 0;
  uint16_t remote_port = 0;
  SeqNum iss;
  uint32_t timestamp_offset = 0;  // TimestampClock
  Offer offer;
  bool ipv6 = false;
  // The largest IP packet on the path, as the network knows it; 0: unknown. The
  // connection detects changes by itself (PathMtu).
  uint32_t path_mtu = 0;
  uint32_t window_bytes = 1 << 20;  // see window()
  bool dctcp = false;               // if ECN is agreed
  // Off: a burst leaves as soon as the windows allow. For tests that compare
  // bursts with those of other stacks.
  bool paced = true;
  //= RFC 9293 3.8.3: R2 is at least 100 seconds, and at least 3 minutes for a
  //= SYN
  Duration user_timeout = Duration::Seconds(100);
  Duration syn_timeout = Duration::Seconds(180);
  //= RFC 9293 3.8.4: keep-alives are off unless the application turns them on
  Duration keepalive_idle;  // 0: off
  Duration keepalive_interval = Duration::Seconds(75);
  uint8_t keepalive_probes = 9;
  // A peer that does not close its side after us: FIN-WAIT-2 ends.
  Duration fin_timeout = Duration::Seconds(60);

  // Frames of one connection in custody, behind a hole.
  static constexpr uint32_t kMaxFrames = 1024;
  // The largest window that we offer: not more than custody can hold.
  uint32_t window() const {
    return std::min(window_bytes, kMaxFrames * offer.mss);
  }
  // The shift of the windows that we send, if scaling is agreed.
  uint8_t window_shift() const {
    const int bits = static_cast<int>(std::bit_width(window()));
    return static_cast<uint8_t>(
        std::clamp(bits - 16, 0, int{wire::kTcpMaxWindowShift}));
  }
};

// The result of a listener's handshake, from which a connection begins.
struct Handshake {
  Agreed agreed;
  SeqNum irs;
  uint32_t ts_recent = 0;
  uint16_t window = 0;  // of the segment that completed it, not shifted
  Duration round_trip;  // zero: not measured
};

// The answer to a SYN. `ts_recent`: the timestamp of the SYN, if that is
// agreed.
wire::TcpFields SynAck(const ConnectionConfig& config, const Agreed& agreed,
                       SeqNum ack, uint32_t ts_recent, uint32_t timestamp);

// The answer to a segment that belongs to no connection: a RST that the sender
// of the segment will accept. None: the segment is a RST, which has no answer.
std::optional<wire::TcpFields> ResetFor(const wire::TcpSegment& segment);

class Connection {
 public:
  using CongestionControl = cc::TcpCongestion;
  // The largest number of segments that one Transmit() makes.
  static constexpr size_t kMaxBurst = 32;

  // All outlive the connection.
  Connection(SegmentSlab* segments, RangePool* ranges, FrameKeeper* keeper,
             ChallengeBudget* challenges)
      : segments_(segments),
        receiver_(ranges, keeper, ConnectionConfig::kMaxFrames,
                  ConnectionConfig::kMaxFrames),
        challenges_(challenges) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Active open. REQUIRES: kClosed
  void Connect(const ConnectionConfig& config, Time now);
  // A listener has completed the handshake. The segment that did so comes next,
  // by OnSegment(). REQUIRES: kClosed
  void Accept(const ConnectionConfig& config, const Handshake& handshake,
              Time now);

  State state() const { return state_; }
  End ended() const { return end_; }
  // The peer will send no more: its FIN has been delivered.
  bool peer_closed() const { return receiver_.fin_delivered(); }
  // The peer's SYN had our option.
  bool peer_is_urnic() const { return agreed_.urnic; }
  // With the SYNs. Valid once both have been exchanged.
  const Agreed& agreed() const { return agreed_; }
  // The largest chunk that fits into a segment now.
  uint32_t mss() const { return sender_.mss(); }
  // The largest IP packet that is sent now, except to probe the path; 0 before
  // the connection begins. If it is less than ConnectionConfig::path_mtu and
  // the MTU of the link, the connection has learned it, and the network can use
  // it.
  uint32_t path_mtu() const { return path_.mtu(); }
  const Sender<CongestionControl>& sender() const { return sender_; }
  const Receiver& receiver() const { return receiver_; }

  // A segment of this connection. kAccept, kTcpKept, kTcpEarly: it was used.
  // All others are the reason why it, or its payload, was dropped.
  template <typename Upper>
  RxVerdict OnSegment(const wire::TcpSegment& segment,
                      const ReceivedFrame& frame, Time now, Upper& upper);
  // The placements of all delivered bytes have been executed.
  void ReleaseDelivered() {
    receiver_.ReleaseDelivered();
    // Not earlier: the burst that ended the connection may have delivered too.
    if (end_ != End::kNone) receiver_.Stop();
  }

  // Fills up to slots.size() segments; returns how many.
  template <typename Upper>
  uint32_t Transmit(Time now, std::span<TcpSlot> slots, Upper& upper);
  // Whether Transmit() may have something to send. New data of Upper do
  // not count.
  bool has_work() const {
    if (end_ != End::kNone) return reset_due_;
    return syn_due_ || probe_due_ ||
           (is_synchronized() && receiver_.ack_now()) ||
           (may_send() && sender_.HasWork());
  }

  // Only an acknowledgement is due, which may travel with data that come now.
  bool only_ack_waits() const {
    return end_ == End::kNone && is_synchronized() && receiver_.ack_now() &&
           !syn_due_ && !probe_due_ && !sender_.HasWork();
  }

  Time deadline() const;
  void OnTimer(Time now);
  // The port sends nothing: the time in which the peer has not answered begins
  // again, so that the connection does not give up.
  void OnOutage(Time now) { opened_ = heard_ = progress_ = now; }

  // Closes our side: a FIN follows the data that Upper still has.
  void Close();
  // Ends the connection immediately: a RST is sent, if the peer may know us.
  void Abort();
  // The RST that Abort() has sent, for LastResets. None: it has not sent one.
  std::optional<wire::TcpFields> sent_reset(Time now) const {
    const bool sent =
        end_ == End::kAborted && !reset_due_ && reset_seq_ != SeqNum();
    return sent ? std::optional(Reset(now)) : std::nullopt;
  }
  // The peer waits for an acknowledgement of a complete message.
  void AckNow() { receiver_.AckNow(); }
  // A router (or our own link) has refused the segment with the sequence number
  // `quoted`. `mtu`: the largest packet that the path carries. It comes from
  // the network's cache (PathMtuCache::ReportedMtu), because not every router
  // states it. Ignored unless that segment is in flight. Segments that are too
  // large count as lost, and are resent at once.
  void OnTooBig(uint32_t mtu, SeqNum quoted, Time now);
  // The MTU of our own link has changed. As above, segments in flight that are
  // too large are resent at once. If the MTU grows, the connection follows it
  // up to the MSS that was offered to the peer.
  void OnLinkMtu(uint32_t mtu, Time now);

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  bool may_send() const {
    return state_ == State::kEstablished || state_ == State::kCloseWait ||
           state_ == State::kFinWait1 || state_ == State::kClosing ||
           state_ == State::kLastAck;
  }
  bool may_receive() const {
    return state_ == State::kEstablished || state_ == State::kFinWait1 ||
           state_ == State::kFinWait2;
  }
  uint8_t peer_shift() const { return agreed_.window_shift.value_or(0); }
  bool is_synchronized() const {
    return state_ != State::kClosed && state_ != State::kSynSent &&
           state_ != State::kSynReceived;
  }

  void Start(const ConnectionConfig& config, Time now);
  // The peer's SYN has arrived.
  void Agree(const Agreed& agreed, SeqNum irs, uint32_t ts_recent, Time now);
  // Our SYN is acknowledged, by a segment with this number and window (in
  // bytes).
  void Establish(SeqNum peer_seq, uint32_t window, Time now);
  void Finish(End end);
  // Starts with the path of the configuration.
  void StartPath(Time now);
  // What both ends have offered to receive.
  uint32_t MaxMtu() const {
    return std::min(config_.offer.mss, agreed_.mss) +
           PathMtu::HeaderBytes(config_.ipv6);
  }

  // The steps of the arrival of a segment. kAccept: go on.
  RxVerdict OnSynSent(const wire::TcpSegment& segment, Time now);
  RxVerdict CheckFlags(const wire::TcpSegment& segment, Time now);
  RxVerdict OnSynAcked(const wire::TcpSegment& segment, uint32_t window,
                       Time now);
  // Delivers the data of the peer's SYN, when the connection is established.
  template <typename Upper>
  void TakeFirst(Time now, Upper& upper);
  // The payload and FIN of an acceptable segment.
  template <typename Upper>
  RxVerdict OnText(const wire::TcpSegment& segment, const ReceivedFrame& frame,
                   Time now, Upper& upper);
  void OnFinAcked(Time now);
  void OnFinDelivered();
  // Answers a segment that may be an attack, or belong to an earlier
  // connection.
  RxVerdict Challenge(Time now);

  wire::TcpFields Fields(SeqNum seq, uint8_t flags, Time now) const;
  wire::TcpFields Syn(Time now);
  wire::TcpFields Reset(Time now) const;
  // A segment without payload.
  wire::TcpFields Ack(SeqNum seq, Time now);
  TcpSlot Slot(const SegmentToSend& segment, Time now);
  uint32_t OptionBytes() const { return agreed_.timestamps ? 12 : 0; }
  Time KeepaliveAt() const;
  TimestampClock clock() const { return {config_.timestamp_offset}; }

  // The size of a packet, and the payload that fits into it.
  uint32_t PacketBytes(uint32_t payload_bytes) const {
    return payload_bytes + path_.header_bytes() + OptionBytes();
  }
  uint32_t PayloadBytes(uint32_t mtu) const {
    return mtu - path_.header_bytes() - OptionBytes();
  }
  // path_.mtu() has changed, or a router has refused the probe.
  void FollowPath() { sender_.OnMss(PayloadBytes(path_.mtu())); }
  void JudgeMtuProbe(Time now);
  void OnSenderTimer(Time now);

  SegmentSlab* const segments_;
  ConnectionConfig config_;
  Sender<CongestionControl> sender_;
  Receiver receiver_;
  ChallengeBudget* const challenges_;
  ChallengeLimit challenge_limit_;
  State state_ = State::kClosed;
  End end_ = End::kNone;
  bool reset_due_ = false;
  bool syn_due_ = false;
  bool probe_due_ = false;  // a keep-alive
  uint8_t keepalives_sent_ = 0;
  uint8_t syns_sent_ = 0;
  Agreed agreed_;
  PathMtu path_;
  SeqNum reset_seq_;
  SeqNum reset_ack_;
  Time opened_;                     // for syn_timeout
  Time syn_sent_;                   // the last SYN
  Time syn_at_ = Time::Infinite();  // the next SYN
  Time fin_acked_;                  // kFinWait2 began
  Time heard_;                      // the last acceptable segment
  Time progress_;                   // the last acknowledgement of new data
};

template <typename Upper>
RxVerdict Connection::OnSegment(const wire::TcpSegment& segment,
                                const ReceivedFrame& frame, Time now,
                                Upper& upper) {
  if (state_ == State::kClosed || end_ != End::kNone) {
    return RxVerdict::kTcp;
  }
  if (state_ == State::kSynSent) {
    const RxVerdict verdict = OnSynSent(segment, now);
    //= RFC 9293 3.10.7.3: a SYN may bring text, or a FIN; they are processed
    //= when the connection is established
    if (state_ == State::kSynReceived) receiver_.KeepFirst(segment, frame);
    return state_ == State::kEstablished ? OnText(segment, frame, now, upper)
                                         : verdict;
  }
  if (state_ == State::kSynReceived && segment.Has(wire::kTcpSyn) &&
      segment.seq + 1 == receiver_.next()) {
    const RxVerdict verdict = OnSynAcked(segment, segment.window, now);
    if (verdict != RxVerdict::kAccept) return verdict;
    TakeFirst(now, upper);
    return OnText(segment, frame, now, upper);
  }

  RxVerdict verdict = receiver_.Check(segment, now);
  if (verdict != RxVerdict::kAccept) return verdict;
  verdict = CheckFlags(segment, now);
  if (verdict != RxVerdict::kAccept || end_ != End::kNone) return verdict;
  if (state_ == State::kSynReceived) {
    const uint32_t window = uint32_t{segment.window} << peer_shift();
    verdict = OnSynAcked(segment, window, now);
    if (verdict != RxVerdict::kAccept) return verdict;
    TakeFirst(now, upper);
  }
  const uint32_t window = uint32_t{segment.window} << peer_shift();
  const AckResult result = sender_.OnAck(segment, window, now, upper);
  //= RFC 5961 5.2: a segment whose acknowledgement number is not acceptable is
  //= dropped and answered by a challenge ACK
  if (result == AckResult::kUnsent || result == AckResult::kTooOld) {
    return Challenge(now);
  }
  receiver_.TakeTimestamp(segment, now);
  heard_ = now;
  keepalives_sent_ = 0;
  path_.OnAcked(PacketBytes(sender_.largest_delivered()));
  JudgeMtuProbe(now);
  // A peer whose window is closed makes progress by saying so.
  if (result == AckResult::kNew || sender_.window_closed()) progress_ = now;
  if (sender_.fin_acked()) OnFinAcked(now);
  if (end_ != End::kNone) return RxVerdict::kAccept;
  return OnText(segment, frame, now, upper);
}

template <typename Upper>
void Connection::TakeFirst(Time now, Upper& upper) {
  receiver_.DeliverFirst(now, upper);
  if (receiver_.fin_delivered()) OnFinDelivered();
}

template <typename Upper>
RxVerdict Connection::OnText(const wire::TcpSegment& segment,
                             const ReceivedFrame& frame, Time now,
                             Upper& upper) {
  //= RFC 9293 3.10.7.4: in CLOSE-WAIT, CLOSING, LAST-ACK and TIME-WAIT, text
  //= and FINs are ignored
  if (!may_receive()) return RxVerdict::kAccept;
  const RxVerdict verdict = receiver_.OnData(segment, frame, now, upper);
  if (receiver_.fin_delivered()) OnFinDelivered();
  return verdict;
}

template <typename Upper>
uint32_t Connection::Transmit(Time now, std::span<TcpSlot> slots,
                              Upper& upper) {
  uint32_t count = 0;
  const auto emit = [&](const wire::TcpFields& fields) {
    slots[count++] = TcpSlot{.fields = fields};
  };
  if (slots.empty()) return 0;
  if (reset_due_) {
    reset_due_ = false;
    emit(Reset(now));
    return count;
  }
  if (end_ != End::kNone) return 0;
  if (syn_due_) {
    emit(Syn(now));
    return count;
  }
  if (may_send()) {
    // Time without anything to send is not time without progress. While a FIN
    // waits for a window, only time-outs show it.
    if (sender_.idle() && sender_.timeouts() == 0) progress_ = now;
    if (const uint32_t mtu = path_.ProbeBytes(now); mtu != 0) {
      sender_.ProbeMtu(PayloadBytes(mtu));
    }
    SegmentToSend segments[kMaxBurst];
    const size_t room = std::min<size_t>(slots.size(), kMaxBurst);
    const uint32_t made =
        sender_.Transmit(now, std::span(segments).first(room), upper);
    for (const SegmentToSend& segment : std::span(segments).first(made)) {
      if (segment.bytes > sender_.mss()) {
        path_.OnProbeSent(PacketBytes(segment.bytes));
      }
      slots[count++] = Slot(segment, now);
    }
  }
  // An acknowledgement that no data have carried.
  if (count < slots.size() && is_synchronized() && receiver_.ack_now()) {
    emit(Ack(sender_.nxt(), now));
  }
  if (count < slots.size() && probe_due_) {
    probe_due_ = false;
    //= RFC 9293 3.8.4: a keep-alive segment has the sequence number SND.NXT-1
    emit(Ack(sender_.nxt() + UINT32_MAX, now));
  }
  return count;
}

}  // namespace urnic::tcp
