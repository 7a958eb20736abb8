#pragma once

// One unreliable-connected queue pair: sends and writes without
// acknowledgements, where a message that has a gap is as if it had not been
// sent. Sans-IO like rc::Qp and of the same shape; see there for the caller's
// duties. IBTA 9.8.2.
//
// Thread: one at a time (the holder of the engine's token).

#include <cstring>
#include <span>
#include <utility>

#include "transport/work/recv_queue.h"
#include "transport/work/types.h"
#include "transport/work/unacked_sender.h"

namespace urnic::uc {

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

  // A receive may name memory that is not there: the queue pair goes to ERR.
  // A write that does only loses its message.
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions);

  uint32_t Transmit(Time, std::span<TxSlot> slots) {
    return sender_.Transmit(
        slots, /*mtu_is_limit=*/false,
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
      1u << URNIC_WR_SEND | 1u << URNIC_WR_SEND_WITH_IMM |
      1u << URNIC_WR_RDMA_WRITE | 1u << URNIC_WR_RDMA_WRITE_WITH_IMM |
      1u << URNIC_WR_BIND_MW | 1u << URNIC_WR_LOCAL_INV;

  enum class Message : uint8_t { kNone, kSend, kWrite };

  static Message KindOf(const RxPacket& packet) {
    return packet.info->kind == wire::PacketKind::kSend ? Message::kSend
                                                        : Message::kWrite;
  }

  template <typename Sink>
  RxVerdict OnPacket(const RxPacket& packet, uint8_t position, Sink& sink) {
    if (state_ < QpState::kRtr || state_ == QpState::kErr) {
      return RxVerdict::kQpNotReady;
    }
    if (!established_) {
      established_ = true;
      event_ = QpEvent::kCommEstablished;
    }
    if (!InOrder(packet)) {
      message_ = Message::kNone;
      return RxVerdict::kBrokenMessage;
    }
    const RxVerdict verdict = packet.info->kind == wire::PacketKind::kSend
                                  ? OnSend(packet, position, sink)
                                  : OnWrite(packet, position, sink);
    message_ = verdict != RxVerdict::kAccept || packet.info->last
                   ? Message::kNone
                   : KindOf(packet);
    return verdict;
  }

  //= IBTA 9.8.2.2.1: a packet that begins a message is taken whatever its PSN;
  //= any other must follow its predecessor
  bool InOrder(const RxPacket& packet) {
    const wire::OpcodeInfo& info = *packet.info;
    const bool follows = packet.psn() == expected_;
    expected_ = packet.psn() + 1;
    if (!info.first && (!follows || message_ != KindOf(packet))) return false;
    return info.last ? packet.payload_bytes <= config_.mtu &&
                           (info.first || packet.payload_bytes > 0)
                     : packet.payload_bytes == config_.mtu;
  }

  // A receive request for this packet; else why not.
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

  template <typename Sink>
  RxVerdict OnSend(const RxPacket& packet, uint8_t position, Sink& sink) {
    const RxVerdict taken = TakeReceive();
    if (taken != RxVerdict::kAccept) return taken;
    if (packet.info->first) offset_ = 0;
    const uint8_t* data = packet.payload;
    const WalkResult walk =
        rq_->Walk(offset_, packet.payload_bytes, *mrs_, limits_.pd,
                  [&](uint64_t address, uint32_t piece) {
                    sink.Place(Placement{.packet = position,
                                         .from_responder = true,
                                         .to_receive = true,
                                         .bytes = piece,
                                         .target = address,
                                         .source = data});
                    data += piece;
                  });
    if (walk == WalkResult::kTooShort) return RxVerdict::kTooLong;
    if (walk != WalkResult::kOk) {
      FailReceive(URNIC_WC_LOC_PROT_ERR);
      return RxVerdict::kAccept;
    }
    offset_ += packet.payload_bytes;
    if (packet.info->last) Complete(packet, position, URNIC_WC_RECV, sink);
    return RxVerdict::kAccept;
  }

  template <typename Sink>
  RxVerdict OnWrite(const RxPacket& packet, uint8_t position, Sink& sink) {
    const wire::OpcodeInfo& info = *packet.info;
    if ((config_.access & mem::kRemoteWrite) == 0) {
      return RxVerdict::kRefusedWrite;
    }
    if (info.first) {
      const wire::Reth& reth = packet.reth();
      write_address_ = reth.virtual_address.value();
      write_key_ = MrKey{reth.rkey.value()};
      write_length_ = reth.dma_length.value();
      offset_ = 0;
    }
    const uint64_t end = offset_ + packet.payload_bytes;
    if (info.last ? end != write_length_ : end >= write_length_) {
      return RxVerdict::kBrokenMessage;
    }
    if (info.has_imm) {
      const RxVerdict taken = TakeReceive();
      if (taken != RxVerdict::kAccept) return taken;
    }
    if (packet.payload_bytes != 0) {
      const mem::Translation at = mrs_->CheckRemote(
          write_key_, limits_.pd, limits_.qpn, write_address_ + offset_,
          info.first ? write_length_ : packet.payload_bytes, mem::kRemoteWrite);
      if (!at.ok()) return RxVerdict::kRefusedWrite;
      sink.Place(Placement{.packet = position,
                           .from_responder = true,
                           .bytes = packet.payload_bytes,
                           .target = at.host,
                           .source = packet.payload});
    }
    offset_ = end;
    if (info.has_imm) {
      Complete(packet, position, URNIC_WC_RECV_RDMA_WITH_IMM, sink);
    }
    return RxVerdict::kAccept;
  }

  template <typename Sink>
  void Complete(const RxPacket& packet, uint8_t position, uint8_t opcode,
                Sink& sink) {
    RecvCompletion done{
        .packet = position,
        .opcode = opcode,
        .solicited = packet.bth->solicited(),
        .byte_len = static_cast<uint32_t>(offset_),
        .src_qp = config_.dest_qpn,
        .wr_id = rq_->Consume(),
    };
    if (packet.info->has_imm) {
      done.wc_flags = URNIC_WC_WITH_IMM;
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

  Psn expected_;
  bool established_ = false;
  Message message_ = Message::kNone;
  uint64_t offset_ = 0;  // bytes of the current message placed so far
  uint64_t write_address_ = 0;
  uint32_t write_length_ = 0;
  MrKey write_key_;
};

}  // namespace urnic::uc
