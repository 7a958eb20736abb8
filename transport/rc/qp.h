#pragma once

// One reliable-connected queue pair: connects the responder, the requester and
// the completer and keeps the queue pair's state. Sans-IO: packets, doorbells
// and the time come in as arguments; packets, placements and completions go out
// as values. It never allocates after construction.
//
// Thread: one at a time (the holder of the engine's token).
//
// The caller's duty for each burst, in this order:
//   1. OnBurst() with packets of this queue pair. A burst ends after an atomic
//      request or response, because there is one place for its value.
//   2. Execute the placements in order. On a fault: call OnPlacementFault()
//      with the faulty one and the burst's receive completions (it turns those
//      that are not valid any more into errors), and skip this queue pair's
//      later placements with the same `from_responder`.
//   3. Settle() with those completions: it hands out all completions in the
//      order of the packets that caused them, and returns what is next
//      (FlowResult).
//   4. TakeDue(). If it returns packets, start again from 1 with them.
//   5. Transmit() while there is work, now or soon, and Settle() after it.

#include <span>

#include "transport/base/fields.h"
#include "transport/base/mutation.h"
#include "transport/rc/completer.h"
#include "transport/rc/requester.h"
#include "transport/rc/responder.h"
#include "transport/rc/send_state.h"

namespace urnic::rc {

class Qp {
 public:
  // `records` has as many entries as the send queue; the size of `replay` is a
  // power of two, or still 0. They, `recv_queue`, `mrs` and `pool` outlive the
  // queue pair. If the pool has no room, no packets are held, and a loss is
  // repaired by go-back-N.
  Qp(const QpLimits& limits, WorkQueueView sq, std::span<SendRecord> records,
     std::span<ReplaySlot> replay, RecvQueue* recv_queue, mem::MrTable* mrs,
     RecoveryPool* pool)
      : send_(limits, sq, records, *mrs, pool),
        responder_(limits, recv_queue, replay, mrs, pool) {}
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  // From now on the queue pair shares this path with others, and has left its
  // previous path. Null: no path. REQUIRES: it has a path from before RTS until
  // RESET or its end.
  void Join(cc::SharedPath* path) {
    send_.Join(path);
    if (path != nullptr && state_ >= QpState::kRts) StartPath(send_.config);
  }
  // After FlowResult::waits: the path lets the queue pair send `packets`
  // packets.
  void Grant(uint32_t packets) {
    send_.granted += packets;
    send_.Account();
  }

  QpState state() const { return state_; }
  const QpConfig& config() const { return send_.config; }
  // The next PSN to send, and the next one expected.
  Psn send_psn() const { return send_.sent_psn; }
  Psn recv_psn() const { return responder_.expected_psn(); }
  const QpLimits& limits() const { return send_.limits; }

  // The caller has checked that the transition is allowed and that `config` is
  // within the device's limits (verbs/control). Transitions: any state to RESET
  // or ERR; RESET to INIT to RTR to RTS; RTS to SQD and back.
  void Modify(QpState target, const QpConfig& config);

  // How many reads and atomics of the peer there is room for; the lower of this
  // and max_dest_rd_atomic applies. MoveReplayTo() moves their records to a
  // larger storage; then the caller may free the old one.
  uint32_t replay_capacity() const { return responder_.replay_capacity(); }
  void MoveReplayTo(std::span<ReplaySlot> storage) {
    responder_.MoveReplayTo(storage);
  }

  // Changes attributes within a state (access rights, RNR timer, and in SQD the
  // rest).
  void Reconfigure(const QpConfig& config);

  // sink: Place(Placement), Complete(RecvCompletion), Count(RxVerdict).
  template <typename Sink>
  void OnBurst(std::span<const RxPacket> packets, Time now, Sink& sink) {
    Ordered<Sink> ordered{sink, send_.una};
    const Psn expected = responder_.expected_psn();
    for (size_t i = 0; i < packets.size(); ++i) {
      const RxPacket& packet = packets[i];
      const uint8_t position = static_cast<uint8_t>(i);
      if (packet.info->request()) {
        const RxVerdict verdict =
            responder_.OnRequest(packet, position, ordered);
        sink.Count(verdict);
        if (__builtin_expect(verdict != RxVerdict::kAccept, 0)) EndIfRefused();
      } else {
        sink.Count(completer().OnResponse(packet, position, now, sink));
        if (__builtin_expect(send_.failed, 0)) EndIfFailed();
      }
    }
    responder_.EndBurst(packets, expected);
    responder_.recv_queue().PublishConsumer();
  }

  // Call this after a burst whose effects are complete. Takes the held packets
  // behind a gap that the burst has closed; they are the next burst. Returns
  // how many; out.size() is at least 1. Their frames are kept until the next
  // call.
  uint32_t TakeDue(std::span<RxPacket> out) {
    if (__builtin_expect(send_.recovery == nullptr && !responder_.holds(), 1)) {
      return 0;
    }
    const uint32_t count = responder_.TakeDue(out);
    return count != 0 ? count : completer().TakeDue(out);
  }

  // `packet` was marked "congestion experienced". Call this before the packet
  // goes to OnBurst(); it may also be dropped.
  [[gnu::cold]] void OnMarked(const RxPacket& packet, Time now);

  // A congestion notification packet of the peer.
  RxVerdict OnCnp(Time now) { return completer().OnCnp(now); }

  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions) {
    if (placement.from_responder) {
      responder_.OnPlacementFault(placement, completions);
      if (state_ != QpState::kErr) EnterError();
    } else {
      completer().OnPlacementFault(placement.origin);
    }
  }

  // Responses first, then requests. If both wait, each gets half of the slots:
  // otherwise a peer that reads without pause would block our requests, even
  // those resent after a loss. An acknowledgement alone goes behind a single
  // write: the peer's program that finds its completion then also finds our
  // data. Other requests complete something at the peer, and a program that has
  // the answer shall have the completion of its request.
  uint32_t Transmit(Time now, std::span<TxSlot> slots) {
    // One call of each: the compiler inlines no function that has two callers.
    const bool ack_last = responder_.OnlyAckWaits() && slots.size() > 1 &&
                          requester().OneWriteIsPosted();
    const bool both = responder_.AnswersWait() && requester().HasWork();
    const size_t asked = both ? slots.size() / 2 : 0;
    uint32_t count = 0;
    if (!ack_last)
      count = responder_.Transmit(slots.first(slots.size() - asked));
    if (responder_.failed() && state_ != QpState::kErr) EnterError();
    count += requester().Transmit(
        now, slots.subspan(count, slots.size() - count - (ack_last ? 1 : 0)));
    if (ack_last) responder_.TransmitAck(slots[count++]);
    return count;
  }
  // Sends only the responses that a queue pair still owes before it is
  // destroyed.
  bool OwesResponses() const { return responder_.HasWork(); }
  uint32_t TransmitResponses(std::span<TxSlot> slots) {
    return responder_.Transmit(slots);
  }
  bool HasWork() { return responder_.HasWork() || requester().HasWork(); }
  // There is only an acknowledgement to send, which may wait for other packets.
  bool OnlyAckWaits() {
    return responder_.OnlyAckWaits() && !requester().HasWork();
  }

  // The payload of a packet from Transmit() could not be read. It and this
  // queue pair's later packets are not sent.
  void OnGatherFault(const TxSlot& slot) {
    if (slot.from_responder) {
      responder_.OnGatherFault(Psn(slot.origin));
      if (state_ != QpState::kErr) EnterError();
    } else {
      requester().OnGatherFault(slot.origin);
    }
  }

  // Hands out completions and returns what is left to do. Call it after a burst
  // with its receive completions, and with none after any other call that may
  // have advanced the queue pair, except OnTimer(), which calls it itself.
  // Completions come in the order of the packets that caused them: a program
  // that has an answer also has the completion of the request that was
  // acknowledged before it. By then the request's place in the ring is free: a
  // program that sees the completion may post immediately.
  //
  // sink: Sent(SendCompletion), Received(RecvCompletion) for each of
  // `receives`, Flushed(RecvCompletion) for receive requests in state ERR.
  template <typename Sink>
  FlowResult Settle(std::span<const RecvCompletion> receives, Sink& sink) {
    SendCompletion sent;
    for (const RecvCompletion& done : receives) {
      while (PollSendBefore(done, sent)) sink.Sent(sent);
      sink.Received(done);
    }
    while (PollSend(sent)) sink.Sent(sent);
    if (__builtin_expect(state_ == QpState::kErr, 0)) {
      RecvCompletion flushed;
      while (PollRecvFlush(flushed)) sink.Flushed(flushed);
    }
    send_.Account();
    const Requester::Wish wish = requester().Wants();
    const bool sends = wish == Requester::Wish::kSend;
    return {.deadline = NextDeadline(),
            .state = state_,
            .event = TakeEvent(),
            .has_work = responder_.HasWork() || sends,
            .only_ack_waits = responder_.OnlyAckWaits() && !sends,
            .waits = wish == Requester::Wish::kWait ? requester().Waits()
                                                    : PathWait::kNo,
            .lets_go = send_.LetsOthersGo()};
  }

  Time NextDeadline() const { return send_.NextDeadline(); }
  // REQUIRES: now >= NextDeadline().
  template <typename Sink>
  FlowResult OnTimer(Time now, Sink& sink) {
    const bool timed_out = completer().OnTimer(now);
    FlowResult result = Settle({}, sink);
    result.timed_out = timed_out;
    return result;
  }

  // The port sends nothing. The retries begin again, with one more, because the
  // first time-out afterwards does not count: no packet had left the host
  // before it.
  void OnOutage() {
    send_.retries_left = static_cast<uint8_t>(send_.config.retry_count + 1);
  }

  // Forgets everything that an image omits and that affects the behaviour:
  // round trips that are being measured, the work request that was loaded from
  // its ring, and local requests that are done. From now on this queue pair
  // behaves like one that is made from its image.
  void ForgetWhatImagesOmit() {
    send_.timer.count = 0;
    send_.current_index_valid = false;
    send_.any_executed = false;
    for (uint32_t i = send_.una; i != send_.assigned; ++i)
      send_.any_executed |= send_.RecordOf(i).executed();
  }

  bool sq_draining() const {
    return send_.draining && send_.una != send_.drain_limit;
  }

  // For queries, tests and the trace.
  const SendState& send_state() const { return send_; }
  const Responder& responder() const { return responder_; }
  // Aborts when the invariants of SendState do not hold.
  void CheckInvariants() const;

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  // Records in each receive completion what the send queue had completed by
  // then.
  template <typename Sink>
  struct Ordered {
    void Place(const Placement& placement) { sink.Place(placement); }
    void Complete(RecvCompletion done) {
      MUTATION_SKIPS(reports_answers_first)
      done.sends_before = una;
      sink.Complete(done);
    }
    Sink& sink;
    const uint32_t& una;
  };

  // The next completion of a send request, in order; in state ERR a flushed
  // one.
  bool PollSend(SendCompletion& out) {
    const bool any = completer().PollCompletion(out);
    if (send_.flushing && state_ != QpState::kErr) EnterError();
    PublishSendHead();
    if (send_.draining && !drain_reported_ && send_.running &&
        send_.una == send_.drain_limit) {
      drain_reported_ = true;
      event_ = QpEvent::kSqDrained;
    }
    return any;
  }
  // Only completions that were caused by packets of the last burst before
  // `receive`.
  bool PollSendBefore(const RecvCompletion& receive, SendCompletion& out) {
    uint32_t limit =
        MUTATION(reports_sends_too_early, receive.sends_before, send_.una);
    if (static_cast<int32_t>(limit - send_.head) <= 0) return false;
    // A failed placement may have revoked some of them.
    if (static_cast<int32_t>(limit - send_.una) > 0) limit = send_.una;
    const bool any = completer().PollDone(out, limit);
    PublishSendHead();
    return any;
  }
  bool PollRecvFlush(RecvCompletion& out) {
    const bool any = responder_.PollFlush(out);
    responder_.recv_queue().PublishConsumer();
    return any;
  }
  QpEvent TakeEvent() {
    if (event_ != QpEvent::kNone) return std::exchange(event_, QpEvent::kNone);
    return responder_.TakeEvent();
  }

  void StartPath(const QpConfig& config);
  void EnterError();
  // The current packet may have ended the connection. Later ones, even in the
  // same burst, are then not accepted.
  [[gnu::cold]] void EndIfRefused();
  [[gnu::cold]] void EndIfFailed();

  void PublishSendHead() {
    if (send_.head == send_.published) return;
    send_.published = send_.head;
    MUTATION_SKIPS(leaks_send_credits)
    send_.sq.PublishConsumer(send_.head);
  }

  Requester requester() { return Requester(send_); }
  Completer completer() { return Completer(send_); }

  QpState state_ = QpState::kReset;
  QpEvent event_ = QpEvent::kNone;
  bool drain_reported_ = false;
  // What packets touch is at the start of send_ and at the end of responder_.
  SendState send_;
  Responder responder_;
};

}  // namespace urnic::rc
