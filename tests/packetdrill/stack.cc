#include "tests/packetdrill/stack.h"

#include <algorithm>
#include <span>

#include "transport/base/check.h"

namespace urnic::packetdrill {
namespace {

using wire::TcpFields;
using wire::TcpSegment;

constexpr NumberKey kKey = {{0x0123456789abcdef, 0xfedcba9876543210}};
constexpr uint16_t kOurPort = 8080;
constexpr uint16_t kFirstPeerPort = 40000;
// Of the connections that we open. It wraps soon.
constexpr SeqNum kIss{0xfffffe00};

}  // namespace

ReceivedFrame Frames::Make(uint32_t bytes) {
  frames_.emplace_back(bytes);
  return {frames_.back(), &frames_.back()};
}

uint32_t Frames::Keep(const ReceivedFrame&, FrameHolder& holder) {
  if (holder.kept == holder.limit) return kRefused;
  ++holder.kept;
  return next_++;
}

void Frames::Release(uint32_t, FrameHolder& holder) { --holder.kept; }

Stack::Stack()
    : challenges_(kKey, 1000),
      half_open_(kKey, 16, &challenges_),
      time_wait_(kKey, 16),
      tuple_{{}, {}, kOurPort, kFirstPeerPort} {}

void Stack::NextConnection() {
  // Its records in the tables stay.
  ++tuple_.remote_port;
  ++connections_;
  peer_ = nullptr;
}

void Stack::StopListening() {
  listening_ = false;
  if (accepted_ == nullptr) return;
  accepted_->connection.Abort();
  Flush();
  accepted_ = nullptr;
}

std::shared_ptr<Peer> Stack::NewPeer() {
  auto peer =
      std::make_shared<Peer>(&segments_, &ranges_, &frames_, &challenges_);
  peer->config = config;
  peer->config.local_port = tuple_.local_port;
  peer->config.remote_port = tuple_.remote_port;
  peer->tuple = tuple_;
  peer->last_data = now_;
  return peer;
}

std::shared_ptr<Peer> Stack::Connect() {
  peer_ = NewPeer();
  peer_->config.iss = kIss;
  peer_->config.offer.ecn &= asks_for_ecn;
  peer_->config.timestamp_offset = half_open_.numbers().TimestampOffset(tuple_);
  peer_->connection.Connect(peer_->config, now_);
  Flush();
  return peer_;
}

//= RFC 9293 3.10.7.3
// A segment of no connection is answered by a RST.
void Stack::Reset(const TcpSegment& segment) {
  if (const auto reset = tcp::ResetFor(segment)) Emit(*reset);
}

bool Stack::OnTimeWait(const TcpSegment& segment,
                       std::optional<SeqNum>& after) {
  using Reply = tcp::TimeWaitTable::Reply;
  const auto [reply, ended] = time_wait_.OnSegment(tuple_, segment, now_);
  if (reply == Reply::kNewConnection) after = ended.snd_nxt;
  if (reply == Reply::kAck) {
    TcpFields fields;
    fields.flags = wire::kTcpAck;
    fields.seq = ended.snd_nxt;
    fields.ack = ended.rcv_nxt;
    fields.window = ended.window;
    if (ended.timestamps) {
      fields.options.timestamps = {half_open_.numbers().Timestamp(tuple_, now_),
                                   ended.ts_recent};
    }
    Emit(fields);
  }
  return reply == Reply::kDrop || reply == Reply::kAck;
}

bool Stack::OnListener(const TcpSegment& segment, std::optional<SeqNum> after) {
  //= RFC 9293 3.10.7.2
  // A RST is dropped, an acknowledgement is answered by a RST, and only then
  // is a SYN looked for.
  const bool opens = segment.Has(wire::kTcpSyn) &&
                     !segment.Has(wire::kTcpAck) && !segment.Has(wire::kTcpRst);
  if (opens) {
    const TcpFields answer = half_open_.OnSyn(tuple_, segment, config.offer,
                                              config.window_bytes, now_, after);
    iss_ = answer.seq;
    Emit(answer);
    return false;
  }
  const auto outcome = half_open_.OnSegment(tuple_, segment, now_);
  if (outcome.answer) Emit(*outcome.answer);
  const auto& accepted = outcome.accepted;
  if (!accepted) return false;
  peer_ = NewPeer();
  peer_->config.iss = accepted->iss;
  peer_->config.timestamp_offset = accepted->timestamp_offset;
  peer_->connection.Accept(peer_->config, accepted->handshake, now_);
  accepted_ = peer_;
  return true;
}

void Stack::Receive(const TcpSegment& received, uint32_t bytes) {
  TcpSegment segment = received;
  segment.src_port = tuple_.remote_port;
  segment.dst_port = tuple_.local_port;
  const ReceivedFrame frame = frames_.Make(bytes);
  segment.payload = frame.bytes;
  const bool live = peer_ != nullptr &&
                    peer_->connection.ended() == tcp::End::kNone &&
                    !peer_->in_time_wait;
  std::optional<SeqNum> after;
  if (!live && OnTimeWait(segment, after)) return;
  if (!live && !listening_) return Reset(segment);
  if (!live && !OnListener(segment, after)) return;
  Peer& peer = *peer_;
  if (bytes != 0 || segment.Has(wire::kTcpSyn)) peer.last_data = now_;
  const RxVerdict verdict =
      peer.connection.OnSegment(segment, frame, now_, peer.stream);
  peer.connection.ReleaseDelivered();
  // It is not of this connection.
  if (verdict == RxVerdict::kTcp) Reset(segment);
  // Data that no program will read are answered by a RST.
  if (peer.stream.late_data) peer.connection.Abort();
  Flush();
}

void Stack::Flush() {
  if (peer_ == nullptr || peer_->in_time_wait) return;
  tcp::Connection& connection = peer_->connection;
  tcp::TcpSlot slots[tcp::Connection::kMaxBurst];
  while (const uint32_t count =
             connection.Transmit(now_, slots, peer_->stream)) {
    for (const tcp::TcpSlot& slot : std::span(slots).first(count)) {
      if (slot.fields.Has(wire::kTcpSyn)) iss_ = slot.fields.seq;
      last_ = slot.fields;
      sent.push_back({now_, slot.fields, slot.bytes, slot.ect});
    }
  }
  if (connection.state() == tcp::State::kTimeWait) MoveToTimeWait();
}

void Stack::MoveToTimeWait() {
  const tcp::Connection& connection = peer_->connection;
  time_wait_.Add(peer_->tuple,
                 {.snd_nxt = connection.sender().nxt(),
                  .rcv_nxt = connection.receiver().next(),
                  .ts_recent = connection.receiver().ts_recent(),
                  .timestamps = last_.options.timestamps.has_value(),
                  .window = last_.window},
                 now_);
  peer_->in_time_wait = true;
}

Time Stack::NextDeadline() const {
  Time next = std::min(half_open_.NextDeadline(), time_wait_.NextDeadline());
  if (peer_ != nullptr && !peer_->in_time_wait) {
    next = std::min(next, peer_->connection.deadline());
  }
  return next;
}

bool Stack::Step(Time limit) {
  const Time next = NextDeadline();
  if (next > limit) {
    now_ = std::max(now_, limit);
    return false;
  }
  now_ = std::max(now_, next);
  while (const auto repeat = half_open_.OnTimer(now_)) Emit(repeat->fields);
  time_wait_.OnTimer(now_);
  if (peer_ != nullptr && !peer_->in_time_wait &&
      now_ >= peer_->connection.deadline()) {
    peer_->connection.OnTimer(now_);
  }
  Flush();
  return true;
}

void Stack::AdvanceTo(Time then) {
  int steps = 0;
  while (Step(then)) URNIC_CHECK(++steps < 1'000'000);
}

}  // namespace urnic::packetdrill
