#pragma once

// A queue pair of iWARP: RDMAP over DDP. Below it is MPA, which hands up
// verified ULPDUs in the order of the stream, and TCP, which asks for the next
// segment and names those that it sends again or that are acknowledged.
// Sans-IO, one thread at a time (the holder of the engine's token).
//
// What the caller does, in this order:
//   - received: OnUlpdu() for each ULPDU of a burst; execute the placements in
//     order (OnPlacementFault() for the first that fails, and no later one);
//     Settle().
//   - sending: NextCut(); later, as often as TCP sends the segment, Build();
//   and
//     OnSent() once, after the first time. Build() fails only if the bytes
//     cannot be made any more: the connection is lost (Abort()). A segment of
//     Keep::kMust is built once: later its frame is sent again.
//   - OnAcked() for each segment whose last byte has been acknowledged, in
//     order; Settle().
//   - ends_stream(): after what was cut, the stream ends (FIN). Requests that
//     were flushed cannot be built again: if TCP must resend them before the
//     Terminate, the connection is lost.

#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/fields.h"
#include "transport/iwarp/rdmap/requester.h"
#include "transport/iwarp/rdmap/responder.h"

namespace urnic::rdmap {

class Qp {
 public:
  // `records`: one per entry of the send ring; `answers`: see Responder. All
  // outlive the queue pair.
  Qp(const QpLimits& limits, WorkQueueView sq, std::span<SendRecord> records,
     RecvQueue* recv_queue, std::span<Answer> answers, mem::MrTable* mrs);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  QpState state() const { return state_; }
  const QpLimits& limits() const { return limits_; }

  // The caller has checked that the transition is allowed: any state to RESET
  // or ERR; RESET to INIT to RTS. (iWARP has no state between, and no SQD.)
  void Modify(QpState target, const Config& config);
  // The connection is gone.
  void Abort() { EnterError(); }
  // A layer below has found the stream broken: says so to the peer.
  void Terminate(const ddp::StreamError& error);
  // The initiator's first message, before all others.
  void SendRtr(Rtr rtr);

  // --- Receiving -------------------------------------------------------------

  // sink: Place(Placement), Complete(RecvCompletion). `position` is that of the
  // ULPDU in the burst; the bytes outlive the placements.
  template <typename Sink>
  RxVerdict OnUlpdu(ddp::Pieces pieces, uint8_t position, Sink& sink) {
    if (state_ != QpState::kRts) return RxVerdict::kQpNotReady;
    ddp::ReceivedSegment segment;
    ddp::StreamError error = ddp::ParseSegment(pieces, segment);
    if (!error) {
      Ordered<Sink> ordered{sink, requester_.una()};
      error = segment.tagged() ? OnTagged(segment, position, ordered)
                               : OnUntagged(segment, position, ordered);
    }
    responder_.PublishConsumer();
    if (__builtin_expect(!error, 1)) {
      return terminated_ ? RxVerdict::kTerminateReceived : RxVerdict::kAccept;
    }
    return Refuse(error, &segment);
  }

  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions);

  // --- Sending ---------------------------------------------------------------

  bool HasWork() {
    if (terminate_due_) return true;
    if (state_ != QpState::kRts) return false;
    return rtr_due_ || responder_.HasWork() || requester_.HasWork();
  }
  // The next segment, of at most `mulpdu` bytes. `can_keep`: a frame is free to
  // be kept; without one, no answer is cut.
  ddp::Cut NextCut(uint32_t mulpdu, bool can_keep);
  // slot.headers has room for ddp::kMaxUlpduHeaderBytes.
  [[nodiscard]] bool Build(uint64_t source, TxSlot& slot);
  // `kept`: its frame is kept until it is acknowledged. Segments of Keep::kMust
  // are always kept.
  void OnSent(uint64_t source, bool kept);
  void OnAcked(uint64_t source);
  // The memory of a segment could not be read when it was first sent.
  void OnGatherFault(uint64_t source);

  // The stream ends when everything that was cut is acknowledged.
  bool ends_stream() const {
    return state_ == QpState::kErr && !terminate_due_;
  }

  // --- Completions -----------------------------------------------------------

  // Completions of `receives`, whose placements have been executed, and of
  // requests, in the order of the packets that caused them. sink: Received(),
  // Sent(), Flushed(). Also called after a doorbell in state ERR.
  template <typename Sink>
  FlowResult Settle(std::span<const RecvCompletion> receives, Sink& sink) {
    SendCompletion sent;
    for (const RecvCompletion& done : receives) {
      while (requester_.PollBefore(sent, done.sends_before)) sink.Sent(sent);
      sink.Received(done);
    }
    while (requester_.Poll(sent)) sink.Sent(sent);
    if (__builtin_expect(requester_.TakeFatal(), 0)) OnRequestFailed();
    while (state_ == QpState::kErr && requester_.Poll(sent)) sink.Sent(sent);
    requester_.Publish();
    if (__builtin_expect(state_ == QpState::kErr, 0)) {
      RecvCompletion flushed;
      while (responder_.PollFlush(flushed)) sink.Flushed(flushed);
      responder_.PublishConsumer();
    }
    return {.state = state_,
            .event = std::exchange(event_, QpEvent::kNone),
            .has_work = HasWork()};
  }

  // Aborts when the invariants do not hold.
  void CheckInvariants() const {
    requester_.CheckInvariants();
    responder_.CheckInvariants();
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  // Adds to each receive completion how far the send queue had completed.
  template <typename Sink>
  struct Ordered {
    Sink& sink;
    uint32_t sends_before;
    void Place(const Placement& placement) { sink.Place(placement); }
    void Complete(RecvCompletion done) {
      done.sends_before = sends_before;
      sink.Complete(done);
    }
  };

  // Index of a source of kControl.
  enum Control : uint16_t { kTerminate, kRtrWrite, kRtrRead };

  static bool VersionOk(const ddp::ReceivedSegment& segment) {
    return (segment.control.rdmap & wire::kRdmapVersionMask) ==
           wire::kRdmapVersion;
  }

  template <typename Sink>
  ddp::StreamError OnTagged(const ddp::ReceivedSegment& segment,
                            uint8_t position, Sink& sink) {
    //= RFC 5040 7.1: the version and the opcode are checked
    if (!VersionOk(segment)) return ddp::kRdmapVersion;
    switch (static_cast<wire::RdmapOpcode>(segment.control.opcode())) {
      case wire::RdmapOpcode::kWrite:
        return responder_.OnWrite(segment, position, sink);
      case wire::RdmapOpcode::kReadResponse:
        return requester_.OnReadResponse(segment, position, sink);
      default:
        return ddp::kUnexpectedOpcode;
    }
  }

  template <typename Sink>
  ddp::StreamError OnUntagged(const ddp::ReceivedSegment& segment,
                              uint8_t position, Sink& sink) {
    if (segment.queue >= wire::kUntaggedQueues) return ddp::kInvalidQueue;
    ddp::UntaggedQueue& queue = queues_[segment.queue];
    ddp::StreamError error = queue.Check(segment);
    if (!error && !VersionOk(segment)) error = ddp::kRdmapVersion;
    if (!error) error = OnMessage(segment, position, sink);
    if (!error) queue.Advance(segment);
    return error;
  }

  //= RFC 5040 5.1, RFC 7306 8: each opcode has its queue
  template <typename Sink>
  ddp::StreamError OnMessage(const ddp::ReceivedSegment& segment,
                             uint8_t position, Sink& sink) {
    using enum wire::RdmapOpcode;
    const auto opcode =
        static_cast<wire::RdmapOpcode>(segment.control.opcode());
    switch (segment.queue) {
      case wire::kSendQueue:
        if (opcode >= kSend && opcode <= kSendSolicitedInvalidate) {
          return responder_.OnSend(segment, position, sink);
        }
        if (opcode == kImmediate || opcode == kImmediateSolicited) {
          return responder_.OnImmediate(segment, position, sink);
        }
        return ddp::kUnexpectedOpcode;
      case wire::kReadRequestQueue:
        if (opcode == kReadRequest) return responder_.OnReadRequest(segment);
        if (opcode == kAtomicRequest) {
          return responder_.OnAtomicRequest(segment, position, sink);
        }
        return ddp::kUnexpectedOpcode;
      case wire::kTerminateQueue:
        return opcode == wire::RdmapOpcode::kTerminate ? OnTerminate(segment)
                                                       : ddp::kUnexpectedOpcode;
      default:
        return opcode == kAtomicResponse
                   ? requester_.OnAtomicResponse(segment, position, sink)
                   : ddp::kUnexpectedOpcode;
    }
  }

  ddp::StreamError OnTerminate(const ddp::ReceivedSegment& segment);
  // Ends the stream with a Terminate.
  RxVerdict Refuse(const ddp::StreamError& error,
                   const ddp::ReceivedSegment* cause);
  void OnRequestFailed();
  void EnterError();
  ddp::Cut CutRtr();
  ddp::Cut CutAnswer(uint32_t mulpdu);
  void BuildControl(uint16_t index, TxSlot& slot) const;

  const QpLimits limits_;
  Requester requester_;
  Responder responder_;
  ddp::UntaggedQueue queues_[wire::kUntaggedQueues];
  QpState state_ = QpState::kReset;
  QpEvent event_ = QpEvent::kNone;
  bool answered_last_ = false;  // the last message was an answer
  bool terminated_ = false;     // by the peer
  bool terminate_due_ = false;
  bool rtr_due_ = false;
  Rtr rtr_ = Rtr::kWrite;
  uint32_t rtr_msn_ = 0;
  uint32_t terminate_bytes_ = 0;
  uint8_t terminate_[kMaxTerminateBytes];
};

}  // namespace urnic::rdmap
