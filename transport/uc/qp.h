#pragma once

// One unreliable-connected queue pair: sends and writes without
// acknowledgements. A message with a gap never completes at the receiver.
// Sans-IO, with the interface of rc::Qp; see there for the caller's duties.
//
// Thread: one at a time (the holder of the engine's token).

#include <cstring>
#include <span>

#include "transport/base/mutation.h"
#include "transport/cc/notification_point.h"
#include "transport/work/cnp.h"
#include "transport/work/refused_access.h"
#include "transport/work/unreliable_qp.h"

namespace urnic::uc {

class Qp final : public UnreliableQp {
 public:
  // `recv_queue`, `mrs` and `counters` outlive the queue pair.
  Qp(const QpLimits& limits, WorkQueueView sq, RecvQueue* recv_queue,
     mem::MrTable* mrs, RoceCounters* counters)
      : UnreliableQp(limits, sq, recv_queue, mrs, counters,
                     RequestsOf(QpService::kUc)) {}

  // The caller has checked that the transition is allowed.
  void Modify(QpState target, const QpConfig& config);

  Psn recv_psn() const { return in_.expected; }

  // Writes of the peer that were refused, or whose memory could not be written:
  // neither the peer nor the program is told.
  uint64_t writes_refused() const { return in_.writes_refused; }
  // The last of them. Without a key: the memory could not be written.
  RefusedAccess refused() const {
    return Examine(in_.refused, URNIC_WR_RDMA_WRITE, *mrs_, limits_.pd,
                   limits_.qpn, config_.access);
  }
  // True once after the first of them since the queue pair was connected.
  bool TakeFirstRefused() { return std::exchange(in_.refused_untold, false); }

  // sink: as rc::Qp's.
  template <typename Sink>
  void OnBurst(std::span<const RxPacket> packets, Time, Sink& sink) {
    for (size_t i = 0; i < packets.size(); ++i) {
      sink.Count(OnPacket(packets[i], static_cast<uint8_t>(i), sink));
    }
    rq_->PublishConsumer();
  }

  // If the memory of a receive could not be written, the queue pair goes to
  // ERR. If that of a write could not, only its message is lost.
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions);

  // A packet has arrived that was marked "congestion experienced".
  void OnMarked(Time now) {
    if (receiving()) in_.notifier.OnMarked(now);
  }

  bool HasWork() const { return CnpDue() || UnreliableQp::HasWork(); }
  template <typename Sink>
  FlowResult Settle(std::span<const RecvCompletion> receives, Sink& sink) {
    FlowResult result = UnreliableQp::Settle(receives, sink);
    result.has_work |= CnpDue();
    return result;
  }
  uint32_t Transmit(Time, std::span<TxSlot> slots) {
    uint32_t count = 0;
    if (__builtin_expect(CnpDue(), 0) && !slots.empty()) {
      WriteCnp(slots[count++], config_.dest_qpn, config_.pkey);
      in_.notifier.due = false;
      ++counters_->np_cnp_sent;
    }
    return count +
           sender_.Transmit(
               slots.subspan(count), /*mtu_is_limit=*/false,
               [this](TxSlot& slot, const UnreliableSender::Part& part) {
                 WriteHeaders(slot, part);
               });
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  enum class Message : uint8_t { kNone, kSend, kWrite };

  // Not in ERR, where nothing is sent any more.
  bool CnpDue() const { return in_.notifier.due && receiving(); }

  static Message KindOf(const RxPacket& packet) {
    return packet.info->kind == wire::PacketKind::kSend ? Message::kSend
                                                        : Message::kWrite;
  }

  template <typename Sink>
  RxVerdict OnPacket(const RxPacket& packet, uint8_t position, Sink& sink) {
    if (!receiving()) return RxVerdict::kQpNotReady;
    if (!in_.established) {
      in_.established = true;
      event_ = QpEvent::kCommEstablished;
    }
    if (!InOrder(packet)) {
      in_.message = Message::kNone;
      return RxVerdict::kBrokenMessage;
    }
    const RxVerdict verdict = packet.info->kind == wire::PacketKind::kSend
                                  ? OnSend(packet, position, sink)
                                  : OnWrite(packet, position, sink);
    in_.message = verdict != RxVerdict::kAccept || packet.info->last
                      ? Message::kNone
                      : KindOf(packet);
    return verdict;
  }

  //= IBTA 9.8.2.2.1: the first packet of a message is accepted with any PSN;
  //= each later packet must follow its predecessor
  bool InOrder(const RxPacket& packet) {
    const wire::OpcodeInfo& info = *packet.info;
    const bool follows = packet.psn() == in_.expected;
    in_.expected = packet.psn() + 1;
    if (!info.first && (MUTATION(uc_joins_parts, !follows, false) ||
                        MUTATION(uc_goes_on_behind_a_gap,
                                 in_.message != KindOf(packet), false)))
      return false;
    return info.last ? packet.payload_bytes <= config_.mtu &&
                           (info.first || packet.payload_bytes > 0)
                     : packet.payload_bytes == config_.mtu;
  }

  template <typename Sink>
  RxVerdict OnSend(const RxPacket& packet, uint8_t position, Sink& sink) {
    const RxVerdict taken = TakeReceive();
    if (taken != RxVerdict::kAccept) return taken;
    if (packet.info->first) in_.offset = 0;
    const WalkResult walk = Scatter(packet.payload, packet.payload_bytes,
                                    in_.offset, position, sink);
    if (walk == WalkResult::kTooShort) return RxVerdict::kTooLong;
    if (walk != WalkResult::kOk) {
      FailReceive(URNIC_WC_LOC_PROT_ERR);
      return RxVerdict::kAccept;
    }
    in_.offset += packet.payload_bytes;
    if (packet.info->last) Complete(packet, position, URNIC_WC_RECV, sink);
    return RxVerdict::kAccept;
  }

  template <typename Sink>
  RxVerdict OnWrite(const RxPacket& packet, uint8_t position, Sink& sink) {
    const wire::OpcodeInfo& info = *packet.info;
    if (info.first) {
      const wire::Reth& reth = packet.reth();
      in_.write_address = reth.virtual_address.value();
      in_.write_key = MrKey{reth.rkey.value()};
      in_.write_length = reth.dma_length.value();
      in_.offset = 0;
    }
    if ((config_.access & mem::kRemoteWrite) == 0) return RefuseWrite();
    const uint64_t end = in_.offset + packet.payload_bytes;
    if (info.last ? end != in_.write_length : end >= in_.write_length) {
      return RxVerdict::kBrokenMessage;
    }
    if (info.has_imm) {
      const RxVerdict taken = TakeReceive();
      if (taken != RxVerdict::kAccept) return taken;
    }
    if (packet.payload_bytes != 0) {
      const mem::Translation at = mrs_->CheckRemote(
          in_.write_key, limits_.pd, limits_.qpn,
          in_.write_address + in_.offset,
          info.first ? in_.write_length : packet.payload_bytes,
          mem::kRemoteWrite);
      if (!at.ok()) return RefuseWrite();
      sink.Place(Placement{.packet = position,
                           .from_responder = true,
                           .bytes = packet.payload_bytes,
                           .target = at.host,
                           .source = packet.payload});
    }
    in_.offset = end;
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
        .byte_len = static_cast<uint32_t>(in_.offset),
        .src_qp = config_.dest_qpn,
        .wr_id = rq_->Consume(),
    };
    if (packet.info->has_imm) {
      done.wc_flags = URNIC_WC_WITH_IMM;
      std::memcpy(&done.imm_or_key, packet.imm().data, 4);
    }
    sink.Complete(done);
  }

  RxVerdict RefuseWrite();
  // For people.
  void NoteRefused(const RemoteRange& range);

  void WriteHeaders(TxSlot& slot, const UnreliableSender::Part& part);

  // The receiving side.
  struct Incoming {
    Psn expected;
    bool established = false;
    Message message = Message::kNone;
    uint64_t offset = 0;  // bytes of the current message placed so far
    uint64_t write_address = 0;
    uint32_t write_length = 0;
    MrKey write_key;
    cc::NotificationPoint notifier;
    RemoteRange refused;  // the last one
    uint64_t writes_refused = 0;
    bool refused_untold = false;
  };
  Incoming in_;
};

}  // namespace urnic::uc
