#pragma once

// A queue pair of iWARP: RDMAP over DDP. Below it is MPA, which hands up
// verified ULPDUs in the order of the stream, and TCP, which asks for the next
// segment and names those that it sends again or that are acknowledged.
// Sans-IO, one thread at a time (the holder of the engine's token).
//
// What the caller does, in this order:
//   - received: OnUlpdu() for each ULPDU of a burst; execute the placements in
//     order (OnPlacementFault() for the first that fails; later ones with the
//     same `from_responder` are skipped); Settle().
//   - sending: NextCut(); later Build(), each time that TCP sends the segment,
//     and OnSent() after the first time. Build() fails only if the bytes cannot
//     be built any more: the connection is lost (Abort()). A segment of
//     Keep::kMust is built once; TCP resends its kept frame.
//   - OnAcked() for each segment whose last byte has been acknowledged, in
//     order; Settle().
//   - ends_stream(): after what was cut, the stream ends (FIN). Requests that
//     were flushed cannot be built again: if TCP must resend them before the
//     Terminate, the connection is lost.

#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/fields.h"
#include "transport/base/mutation.h"
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
  // For queries and tests. `recv_msn`: the number of the next send.
  const Requester& requester() const { return requester_; }
  const Responder& responder() const { return responder_; }
  uint32_t recv_msn() const { return queues_[wire::kSendQueue].msn(); }

  // The caller has checked that the transition is allowed: any state to RESET
  // or ERR; RESET to INIT to RTS. (iWARP has no state between, and no SQD.)
  void Modify(QpState target, const Config& config);
  // Other memory for answers. REQUIRES: the state is RESET or INIT.
  void UseAnswers(std::span<Answer> answers) { responder_.UseAnswers(answers); }
  // The connection is gone.
  void Abort() { EnterError(); }
  // A layer below has found an error in the stream: tells the peer.
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
    const ddp::StreamError error = ddp::ParseSegment(pieces, segment);
    return error ? Refuse(error, &segment) : OnSegment(segment, position, sink);
  }

  // A ULPDU behind a hole of the stream, whose turn has not come. Whether its
  // payload can be placed now. Without effect.
  //= RFC 5041 5.3: placement may be in any order, delivery is not
  // Segments with other effects than a placement, and wrong segments, wait: the
  // hole may contain the end of the stream. If the hole contains an
  // invalidation of a key, the key is valid until the invalidation is
  // delivered, so data for it may be placed before.
  bool MayPlaceEarly(ddp::Pieces pieces) {
    ddp::ReceivedSegment segment;
    if (state_ != QpState::kRts || ddp::ParseSegment(pieces, segment)) {
      return false;
    }
    struct Nowhere {
      void Place(const Placement&) {}
    } nowhere;
    return VersionOk(segment) && TryPlace(segment, 0, nowhere);
  }
  // Places the payload. The caller keeps the ULPDU's header for
  // OnPlacedEarlier(): the returned segment has its length. REQUIRES:
  // MayPlaceEarly()
  template <typename Sink>
  ddp::ReceivedSegment PlaceEarly(ddp::Pieces pieces, uint8_t position,
                                  Sink& sink) {
    ddp::ReceivedSegment segment;
    URNIC_CHECK(!ddp::ParseSegment(pieces, segment));
    // A program that has altered its lists meanwhile harms only itself.
    (void)TryPlace(segment, position, sink);
    if (!segment.tagged()) responder_.OnPlacedEarly(segment, Ahead(segment));
    return segment;
  }
  // The turn of a ULPDU that PlaceEarly() has placed.
  template <typename Sink>
  RxVerdict OnPlacedEarlier(std::span<const uint8_t> header,
                            uint32_t payload_bytes, uint8_t position,
                            Sink& sink) {
    if (state_ != QpState::kRts) return RxVerdict::kQpNotReady;
    ddp::ReceivedSegment segment;
    URNIC_CHECK(!ddp::ParseSegment({&header, 1}, segment));
    segment.payload_bytes = payload_bytes;
    segment.placed = true;
    return OnSegment(segment, position, sink);
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
  // After a cut of Keep::kMay: another whole message that may be kept with it,
  // in the same segment of TCP. Empty: the next cut is not such a message.
  // REQUIRES: mulpdu >= ddp::kMinMulpdu
  ddp::Cut NextSmallCut(uint32_t mulpdu);
  // The source of the cut that NextSmallCut() returned after this one.
  uint64_t SmallAfter(uint64_t source) const {
    return requester_.SmallAfter(ddp::Source::Unpack(source)).Pack();
  }
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

  // The errors in the Terminates that have ended the stream: in ours, once it
  // was cut, and in the peer's. kNoError: there was none.
  ddp::StreamError sent_error() const {
    if (terminate_bytes_ == 0 || terminate_due_) return ddp::kNoError;
    return {static_cast<uint8_t>(terminate_[0] >> 4),
            static_cast<uint8_t>(terminate_[0] & 0x0f), terminate_[1]};
  }
  ddp::StreamError peers_error() const { return peers_error_; }
  // With peers_error(): see Terminate::access().
  const RefusedAccess& refused_by_peer() const { return refused_by_peer_; }

  // --- Completions -----------------------------------------------------------

  // Completions of `receives`, and of the requests before them, in the middle
  // of a burst: the sink's Complete() has no more room. Their placements have
  // been executed.
  template <typename Sink>
  void Deliver(std::span<const RecvCompletion> receives, Sink& sink) {
    SendCompletion sent;
    for (const RecvCompletion& done : receives) {
      while (requester_.PollBefore(sent, done.sends_before)) sink.Sent(sent);
      sink.Received(done);
    }
  }
  // At the end of a burst: completions of `receives`, whose placements have
  // been executed, and of requests, in the order of the packets that caused
  // them. sink: Received(), Sent(), Flushed(). Also called after a doorbell in
  // state ERR.
  template <typename Sink>
  FlowResult Settle(std::span<const RecvCompletion> receives, Sink& sink) {
    Deliver(receives, sink);
    SendCompletion sent;
    // Executes the local requests that have waited for those before them, so
    // that they complete now.
    const bool has_work = HasWork();
    while (requester_.Poll(sent)) sink.Sent(sent);
    if (__builtin_expect(requester_.TakeFatal(), 0)) OnRequestFailed();
    while (state_ == QpState::kErr && requester_.Poll(sent)) sink.Sent(sent);
    if (__builtin_expect(state_ == QpState::kErr, 0)) {
      RecvCompletion flushed;
      MUTATION_SKIPS(iwarp_does_not_flush_receives)
      while (responder_.PollFlush(flushed)) sink.Flushed(flushed);
    }
    return {.state = state_,
            .event = std::exchange(event_, QpEvent::kNone),
            .has_work = state_ == QpState::kRts ? has_work : HasWork()};
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
  RxVerdict OnSegment(const ddp::ReceivedSegment& segment, uint8_t position,
                      Sink& sink) {
    Ordered<Sink> ordered{sink, requester_.una()};
    const ddp::StreamError error = segment.tagged()
                                       ? OnTagged(segment, position, ordered)
                                       : OnUntagged(segment, position, ordered);
    responder_.PublishConsumer();
    if (__builtin_expect(!error, 1)) {
      return terminated_ ? RxVerdict::kTerminateReceived : RxVerdict::kAccept;
    }
    return Refuse(error, &segment);
  }

  // How many messages of the send queue come before that of the segment.
  uint32_t Ahead(const ddp::ReceivedSegment& segment) const {
    return segment.msn - queues_[wire::kSendQueue].msn();
  }
  // Whether the payload of a segment may be placed before its turn: its other
  // effects, if any, can wait.
  static bool IsPlaceable(const ddp::ReceivedSegment& segment) {
    using enum wire::RdmapOpcode;
    const auto opcode =
        static_cast<wire::RdmapOpcode>(segment.control.opcode());
    if (segment.tagged()) return opcode == kWrite || opcode == kReadResponse;
    const bool invalidates =
        segment.last() &&
        (opcode == kSendInvalidate || opcode == kSendSolicitedInvalidate);
    return segment.queue == wire::kSendQueue && opcode >= kSend &&
           opcode <= kSendSolicitedInvalidate && !invalidates;
  }
  // Places the payload of a segment that is not the next one. False: that is
  // not possible, and a part of it may have been placed.
  template <typename Sink>
  bool TryPlace(const ddp::ReceivedSegment& segment, uint8_t position,
                Sink& sink) {
    if (!IsPlaceable(segment)) return false;
    if (!segment.tagged()) {
      return responder_.PlaceEarlySend(segment, Ahead(segment), position, sink);
    }
    return segment.control.opcode() ==
                   static_cast<uint8_t>(wire::RdmapOpcode::kReadResponse)
               ? requester_.PlaceEarlyAnswer(segment, position, sink)
               : responder_.PlaceEarlyWrite(segment, position, sink);
  }

  template <typename Sink>
  ddp::StreamError OnTagged(const ddp::ReceivedSegment& segment,
                            uint8_t position, Sink& sink) {
    //= RFC 5040 7.1: the receiver checks the version and the opcode of each
    //= message
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

  //= RFC 5040 4.1, RFC 7306 8: a message with an opcode that does not belong to
  //= its queue is an error
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
  ddp::StreamError peers_error_;
  RefusedAccess refused_by_peer_;
  bool terminate_due_ = false;
  bool rtr_due_ = false;
  Rtr rtr_ = Rtr::kWrite;
  uint32_t rtr_msn_ = 0;
  uint32_t terminate_bytes_ = 0;
  uint8_t terminate_[kMaxTerminateBytes];
};

}  // namespace urnic::rdmap
