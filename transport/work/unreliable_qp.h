#pragma once

// The common part of queue pairs without acknowledgements (ud::Qp, uc::Qp):
// states, the sending side, completions and flushes. It has the interface of
// rc::Qp; see there for the caller's duties.
//
// Thread: one at a time (the holder of the engine's token).

#include <span>
#include <utility>

#include "ras/metrics/counters.h"
#include "transport/base/fields.h"
#include "transport/work/error_counters.h"
#include "transport/work/recv_queue.h"
#include "transport/work/types.h"
#include "transport/work/unreliable_sender.h"

namespace urnic {

class UnreliableQp {
 public:
  UnreliableQp(const UnreliableQp&) = delete;
  UnreliableQp& operator=(const UnreliableQp&) = delete;

  QpState state() const { return state_; }
  const QpConfig& config() const { return config_; }
  Psn send_psn() const { return sender_.psn(); }
  const QpLimits& limits() const { return limits_; }

  // The caller has checked that the transition is allowed.
  void Modify(QpState target, const QpConfig& config);
  void Reconfigure(const QpConfig& config) {
    config_ = config;
    sender_.Reconfigure(config);
  }

  bool OwesResponses() const { return false; }
  uint32_t TransmitResponses(std::span<TxSlot>) { return 0; }
  bool HasWork() const { return sender_.HasWork(); }
  bool OnlyAckWaits() const { return false; }

  void OnGatherFault(const TxSlot& slot) {
    sender_.FailAt(slot.origin, URNIC_WC_LOC_PROT_ERR);
  }

  // As in rc::Qp. In SQE and ERR also called after a doorbell: requests posted
  // in these states are flushed.
  template <typename Sink>
  FlowResult Settle(std::span<const RecvCompletion> receives, Sink& sink) {
    for (const RecvCompletion& done : receives) sink.Received(done);
    SendCompletion sent;
    while (PollSend(sent)) sink.Sent(sent);
    if (__builtin_expect(state_ == QpState::kErr, 0)) {
      RecvCompletion flushed;
      while (PollRecvFlush(flushed)) sink.Flushed(flushed);
    }
    return {.state = state_,
            .event = std::exchange(event_, QpEvent::kNone),
            .has_work = HasWork()};
  }

  // Nothing waits for an answer.
  Time NextDeadline() const { return Time::Infinite(); }
  template <typename Sink>
  FlowResult OnTimer(Time, Sink& sink) {
    return Settle({}, sink);
  }

  bool sq_draining() const { return sender_.draining(); }
  // For queries and tests.
  const UnreliableSender& sender() const { return sender_; }
  const RecvQueue& recv_queue() const { return *rq_; }
  const mem::MrTable& mrs() const { return *mrs_; }

  // Aborts when the sender's invariants do not hold.
  void CheckInvariants() const { sender_.CheckInvariants(); }

 protected:
  template <typename T>
  friend struct urnic::FieldsOf;

  // `requests`: as UnreliableSender's. `recv_queue`, `mrs` and `counters`
  // outlive it.
  UnreliableQp(const QpLimits& limits, WorkQueueView sq, RecvQueue* recv_queue,
               mem::MrTable* mrs, RoceCounters* counters, RequestSet requests)
      : limits_(limits),
        sender_(limits, sq, requests, *mrs, *counters),
        rq_(recv_queue),
        mrs_(mrs),
        counters_(counters) {}
  ~UnreliableQp() = default;

  bool PollSend(SendCompletion& out) {
    bool fatal = false;
    const bool any = sender_.Poll(out, fatal);
    if (fatal) {
      //= IBTA 10.3.1.7: an error of a send (state SQE) does not affect the
      //= receive queue
      sender_.Stop();
      if (state_ != QpState::kErr) state_ = QpState::kSqe;
    }
    if (sender_.TakeDrained()) event_ = QpEvent::kSqDrained;
    return any;
  }
  bool PollRecvFlush(RecvCompletion& out) {
    if (!rq_->TakeToFlush()) return false;
    out = RecvCompletion{.status = recv_status_, .wr_id = rq_->Consume()};
    CountReceiveError(out.status, *counters_);
    recv_status_ = URNIC_WC_WR_FLUSH_ERR;
    rq_->PublishConsumer();
    return true;
  }

  bool receiving() const {
    return state_ >= QpState::kRtr && state_ != QpState::kErr;
  }

  // Takes a receive request for a packet; otherwise returns the reason.
  RxVerdict TakeReceive() {
    switch (rq_->Take()) {
      case RecvQueue::TakeResult::kTaken:
        return RxVerdict::kAccept;
      case RecvQueue::TakeResult::kEmpty:
        return RxVerdict::kNoReceive;
      default:
        FailReceive(URNIC_WC_WR_FLUSH_ERR);
        return RxVerdict::kNoReceive;
    }
  }

  // Places a piece of a message into the current receive.
  template <typename Sink>
  WalkResult Scatter(const uint8_t* data, uint32_t bytes, uint64_t offset,
                     uint8_t position, Sink& sink) {
    return rq_->Walk(offset, bytes, *mrs_, limits_.pd,
                     [&](uint64_t address, uint32_t piece) {
                       sink.Place(Placement{.packet = position,
                                            .from_responder = true,
                                            .to_receive = true,
                                            .bytes = piece,
                                            .target = address,
                                            .source = data});
                       data += piece;
                     });
  }

  // The memory of a receive could not be written. The queue pair goes to ERR,
  // and the completions from that packet on become errors.
  void FailPlacement(const Placement& placement,
                     std::span<RecvCompletion> completions);
  // Goes to ERR; the next flushed receive completes with `status`.
  void FailReceive(uint8_t status);

  const QpLimits limits_;
  QpConfig config_;
  UnreliableSender sender_;
  RecvQueue* const rq_;
  mem::MrTable* const mrs_;
  RoceCounters* const counters_;  // of the engine
  QpState state_ = QpState::kReset;
  uint8_t recv_status_ = URNIC_WC_WR_FLUSH_ERR;  // of the next flushed receive
  QpEvent event_ = QpEvent::kNone;
};

}  // namespace urnic
