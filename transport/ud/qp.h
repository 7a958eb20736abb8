#pragma once

// One unreliable-datagram queue pair. Sans-IO like rc::Qp and of the same
// shape; see there for the caller's duties. IBTA 9.8.3, 10.2.2.
//
// Thread: one at a time (the holder of the engine's token).

#include <cstring>
#include <span>
#include <utility>

#include "transport/work/recv_queue.h"
#include "transport/work/types.h"
#include "transport/work/unacked_sender.h"

namespace urnic::ud {

// In front of the payload in the program's memory, IBTA 11.4.1.2: a GRH, or 20
// unused bytes and the IPv4 header (annex A17.4.5.2).
inline constexpr uint32_t kGrhBytes = 40;

class Qp {
 public:
  // `recv_queue` and `mrs` outlive the queue pair.
  Qp(const QpLimits& limits, WorkQueueView sq, RecvQueue* recv_queue,
     mem::MrTable* mrs)
      : limits_(limits),
        sender_(limits, sq, kOpcodes, *mrs),
        rq_(recv_queue),
        mrs_(mrs) {}
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  QpState state() const { return state_; }
  const QpConfig& config() const { return config_; }
  const QpLimits& limits() const { return limits_; }

  // The caller has checked that the transition is allowed.
  void Modify(QpState target, const QpConfig& config);
  void Reconfigure(const QpConfig& config) {
    config_ = config;
    sender_.Reconfigure(config);
  }

  // sink: as rc::Qp's.
  template <typename Sink>
  void OnBurst(std::span<const RxPacket> packets, Time, Sink& sink) {
    for (size_t i = 0; i < packets.size(); ++i) {
      sink.Count(OnPacket(packets[i], static_cast<uint8_t>(i), sink));
    }
    rq_->PublishConsumer();
  }

  // Receives may name memory that is not there: the queue pair goes to ERR.
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions) {
    uint8_t status = URNIC_WC_LOC_PROT_ERR;
    for (RecvCompletion& done : completions) {
      if (done.packet < placement.packet) continue;
      done = RecvCompletion{
          .packet = done.packet, .status = status, .wr_id = done.wr_id};
      status = URNIC_WC_WR_FLUSH_ERR;
    }
    FailReceive(status);
  }

  uint32_t Transmit(Time, std::span<TxSlot> slots) {
    return sender_.Transmit(
        slots, /*mtu_is_limit=*/true,
        [this](TxSlot& slot, const UnackedSender::Part& part) {
          WriteHeaders(slot, part);
        });
  }
  uint32_t TransmitResponses(std::span<TxSlot>) { return 0; }
  bool HasWork() const { return sender_.HasWork(); }
  bool OnlyAckWaits() const { return false; }
  bool CompletesOnTransmit() const { return true; }

  void OnGatherFault(const TxSlot& slot) {
    sender_.FailAt(slot.origin, URNIC_WC_LOC_PROT_ERR);
  }
  // The address handle of a packet that Transmit() gave does not exist.
  void OnNoPath(const TxSlot& slot) {
    sender_.FailAt(slot.origin, URNIC_WC_LOC_QP_OP_ERR);
  }

  bool PollSend(SendCompletion& out) {
    bool fatal = false;
    const bool any = sender_.Poll(out, fatal);
    if (fatal) {
      //= IBTA 10.3.1.7: an error of a send leaves the receive queue alone
      sender_.Stop();
      if (state_ != QpState::kErr) state_ = QpState::kSqe;
    }
    if (sender_.TakeDrained()) event_ = QpEvent::kSqDrained;
    return any;
  }
  bool PollRecvFlush(RecvCompletion& out) {
    if (state_ != QpState::kErr || !rq_->TakeToFlush()) return false;
    out = RecvCompletion{.status = recv_status_, .wr_id = rq_->Consume()};
    recv_status_ = URNIC_WC_WR_FLUSH_ERR;
    rq_->PublishConsumer();
    return true;
  }

  Time NextDeadline() const { return Time::Infinite(); }
  void OnTimer(Time) {}

  QpEvent TakeEvent() { return std::exchange(event_, QpEvent::kNone); }
  bool sq_draining() const { return sender_.draining(); }
  bool send_failed() const { return sender_.failed(); }

 private:
  static constexpr uint32_t kOpcodes =
      1u << URNIC_WR_SEND | 1u << URNIC_WR_SEND_WITH_IMM;
  static constexpr uint8_t kZeros[20] = {};

  template <typename Sink>
  RxVerdict OnPacket(const RxPacket& packet, uint8_t position, Sink& sink) {
    if (state_ < QpState::kRtr || state_ == QpState::kErr) {
      return RxVerdict::kQpNotReady;
    }
    //= IBTA 10.2.5: the Q_Key must match
    if (packet.deth().qkey.value() != config_.qkey) return RxVerdict::kBadQkey;
    switch (rq_->Take()) {
      case RecvQueue::TakeResult::kTaken:
        break;
      case RecvQueue::TakeResult::kEmpty:
        return RxVerdict::kNoReceive;
      default:
        FailReceive(URNIC_WC_WR_FLUSH_ERR);
        return RxVerdict::kNoReceive;
    }
    //= IBTA 9.8.2.2.2, class D: a message that does not fit is dropped, and
    //= its receive serves the next one
    const uint32_t bytes = kGrhBytes + packet.payload_bytes;
    if (rq_->Capacity() < bytes) return RxVerdict::kTooLong;
    const uint32_t ip_bytes = packet.ipv6 ? 40 : 20;
    if (!Scatter(kZeros, kGrhBytes - ip_bytes, 0, position, sink) ||
        !Scatter(packet.ip, ip_bytes, kGrhBytes - ip_bytes, position, sink) ||
        !Scatter(packet.payload, packet.payload_bytes, kGrhBytes, position,
                 sink)) {
      FailReceive(URNIC_WC_LOC_PROT_ERR);
      return RxVerdict::kAccept;
    }
    Complete(packet, position, bytes, sink);
    return RxVerdict::kAccept;
  }

  template <typename Sink>
  bool Scatter(const uint8_t* data, uint32_t bytes, uint64_t offset,
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
                     }) == WalkResult::kOk;
  }

  template <typename Sink>
  void Complete(const RxPacket& packet, uint8_t position, uint32_t bytes,
                Sink& sink) {
    RecvCompletion done{
        .packet = position,
        .wc_flags = URNIC_WC_GRH,
        .solicited = packet.bth->solicited(),
        .byte_len = bytes,
        .src_qp = packet.deth().src_qp().value,
        .wr_id = rq_->Consume(),
    };
    if (packet.info->has_imm) {
      done.wc_flags |= URNIC_WC_WITH_IMM;
      std::memcpy(&done.imm_or_key, packet.imm().data, 4);
    }
    sink.Complete(done);
  }

  void WriteHeaders(TxSlot& slot, const UnackedSender::Part& part);
  void FailReceive(uint8_t status);

  QpLimits limits_;
  QpConfig config_;
  UnackedSender sender_;
  RecvQueue* rq_;
  mem::MrTable* mrs_;
  QpState state_ = QpState::kReset;
  uint8_t recv_status_ = URNIC_WC_WR_FLUSH_ERR;  // of the next flushed receive
  QpEvent event_ = QpEvent::kNone;
};

}  // namespace urnic::ud
