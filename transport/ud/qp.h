#pragma once

// One unreliable-datagram queue pair. Sans-IO, with the interface of rc::Qp;
// see there for the caller's duties.
//
// Thread: one at a time (the holder of the engine's token).

#include <cstring>
#include <span>

#include "transport/base/mutation.h"
#include "transport/work/unreliable_qp.h"

namespace urnic::ud {

//= IBTA 11.4.1.2: the payload of a datagram is placed after 40 bytes reserved
//= for a GRH
//= IBTA A16.4.4: with RoCE v1, the 40 bytes before the payload of a datagram
//= contain its GRH
//= IBTA A17.4.5.2: with IPv4, the last 20 of the 40 bytes before the payload of
//= a datagram contain its IPv4 header
inline constexpr uint32_t kGrhBytes = 40;

class Qp final : public UnreliableQp {
 public:
  // `recv_queue`, `mrs` and `counters` outlive the queue pair.
  Qp(const QpLimits& limits, WorkQueueView sq, RecvQueue* recv_queue,
     mem::MrTable* mrs, RoceCounters* counters)
      : UnreliableQp(limits, sq, recv_queue, mrs, counters,
                     RequestsOf(QpService::kUd)) {}

  // Datagrams have no expected PSN; this is the configured one.
  Psn recv_psn() const { return config().rq_psn; }

  // sink: as rc::Qp's.
  template <typename Sink>
  void OnBurst(std::span<const RxPacket> packets, Time, Sink& sink) {
    for (size_t i = 0; i < packets.size(); ++i) {
      sink.Count(OnPacket(packets[i], static_cast<uint8_t>(i), sink));
    }
    rq_->PublishConsumer();
  }

  // The memory of a receive could not be written: the queue pair goes to ERR.
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions) {
    FailPlacement(placement, completions);
  }

  uint32_t Transmit(Time, std::span<TxSlot> slots) {
    return sender_.Transmit(
        slots, /*mtu_is_limit=*/true,
        [this](TxSlot& slot, const UnreliableSender::Part& part) {
          WriteHeaders(slot, part);
        });
  }
  // The address handle of a packet from Transmit() does not exist.
  void OnNoPath(const TxSlot& slot) {
    sender_.FailAt(slot.origin, URNIC_WC_LOC_QP_OP_ERR);
  }

 private:
  static constexpr uint8_t kZeros[20] = {};

  template <typename Sink>
  RxVerdict OnPacket(const RxPacket& packet, uint8_t position, Sink& sink) {
    if (!receiving()) return RxVerdict::kQpNotReady;
    //= IBTA 10.2.5: a datagram is accepted only with the Q_Key of the receiving
    //= queue pair
    MUTATION_SKIPS(ud_ignores_qkeys)
    if (packet.deth().qkey.value() != config_.qkey) return RxVerdict::kBadQkey;
    const RxVerdict taken = TakeReceive();
    if (taken != RxVerdict::kAccept) return taken;
    //= IBTA 9.8.2.2.2: a datagram longer than its receive request is dropped
    //= (class D), and the request serves the next one
    const uint32_t bytes = kGrhBytes + packet.payload_bytes;
    MUTATION_SKIPS(ud_takes_what_does_not_fit)
    if (rq_->Capacity() < bytes) return RxVerdict::kTooLong;
    const uint32_t ip_bytes = packet.framing == wire::Framing::kIpv4 ? 20 : 40;
    const auto place = [&](const uint8_t* data, uint32_t count, uint64_t at) {
      return Scatter(data, count, at, position, sink) == WalkResult::kOk;
    };
    if (!place(kZeros, kGrhBytes - ip_bytes, 0) ||
        !place(packet.ip, ip_bytes, kGrhBytes - ip_bytes) ||
        !place(packet.payload, packet.payload_bytes, kGrhBytes)) {
      FailReceive(URNIC_WC_LOC_PROT_ERR);
      return RxVerdict::kAccept;
    }
    Complete(packet, position, bytes, sink);
    return RxVerdict::kAccept;
  }

  static constexpr uint8_t FrameKind(wire::Framing framing) {
    switch (framing) {
      case wire::Framing::kIpv4:
        return URNIC_FRAME_ROCE_V2_IPV4;
      case wire::Framing::kIpv6:
        return URNIC_FRAME_ROCE_V2_IPV6;
      case wire::Framing::kGrh:
        break;
    }
    return URNIC_FRAME_ROCE_V1;
  }

  template <typename Sink>
  void Complete(const RxPacket& packet, uint8_t position, uint32_t bytes,
                Sink& sink) {
    RecvCompletion done{
        .packet = position,
        .wc_flags = URNIC_WC_GRH,
        .sl = FrameKind(packet.framing),
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

  void WriteHeaders(TxSlot& slot, const UnreliableSender::Part& part);
};

}  // namespace urnic::ud
