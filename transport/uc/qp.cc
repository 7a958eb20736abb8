#include "transport/uc/qp.h"

#include "transport/work/placement_fault.h"

namespace urnic::uc {

namespace {

wire::Opcode OpcodeOf(bool write, bool first, bool last, bool imm) {
  using enum wire::Opcode;
  if (write) {
    if (first && last) return imm ? kUcWriteOnlyImm : kUcWriteOnly;
    if (first) return kUcWriteFirst;
    if (last) return imm ? kUcWriteLastImm : kUcWriteLast;
    return kUcWriteMiddle;
  }
  if (first && last) return imm ? kUcSendOnlyImm : kUcSendOnly;
  if (first) return kUcSendFirst;
  if (last) return imm ? kUcSendLastImm : kUcSendLast;
  return kUcSendMiddle;
}

template <typename Header>
void Append(TxSlot& slot, const Header& header) {
  std::memcpy(slot.headers + slot.header_bytes, &header, sizeof(header));
  slot.header_bytes += sizeof(header);
}

}  // namespace

void Qp::Modify(QpState target, const QpConfig& config) {
  UnreliableQp::Modify(target, config);
  if (target == QpState::kReset) {
    in_.message = Message::kNone;
    in_.established = false;
    in_.notifier = cc::NotificationPoint();
    in_.writes_refused = 0;
    in_.refused_untold = false;
  } else if (target == QpState::kRtr) {
    in_.expected = config.rq_psn;
  }
}

void Qp::OnPlacementFault(const Placement& placement,
                          std::span<RecvCompletion> completions) {
  in_.message = Message::kNone;
  if (placement.to_receive) return FailPlacement(placement, completions);
  // A completion with immediate data would announce data that was not written.
  bool untrue = false;
  for (RecvCompletion& done : completions) {
    if (done.packet < placement.packet) continue;
    done = RecvCompletion{.packet = done.packet,
                          .status = URNIC_WC_LOC_ACCESS_ERR,
                          .wr_id = done.wr_id};
    untrue = true;
  }
  CountFailedReceives(completions, *counters_);
  // A completion tells it by itself.
  const bool tell = in_.refused_untold || !untrue;
  NoteRefused({placement.target, placement.bytes, MrKey{}});
  in_.refused_untold &= tell;
  if (untrue) FailReceive(URNIC_WC_WR_FLUSH_ERR);
}

RxVerdict Qp::RefuseWrite() {
  NoteRefused({in_.write_address, in_.write_length, in_.write_key});
  return RxVerdict::kRefusedWrite;
}

void Qp::NoteRefused(const RemoteRange& range) {
  in_.refused = range;
  if (in_.writes_refused++ == 0) in_.refused_untold = true;
}

void Qp::WriteHeaders(TxSlot& slot, const UnreliableSender::Part& part) {
  const urnic_sq_wqe& wqe = part.wqe;
  constexpr RequestSet kWrites = RequestsOf(RequestFamily::kWrite);
  const bool write = Contains(kWrites, wqe.opcode);
  const bool imm = part.last && Contains(kRequestsWithImm, wqe.opcode);
  const bool solicited =
      part.last && (!write || imm) && (wqe.flags & URNIC_SEND_SOLICITED) != 0;
  wire::Bth bth;
  bth.opcode =
      static_cast<uint8_t>(OpcodeOf(write, part.first, part.last, imm));
  bth.flags = wire::Bth::MakeFlags(solicited, true, slot.pad_bytes);
  bth.pkey = wire::Be<uint16_t>(config_.pkey);
  bth.fecn_becn_qpn = wire::Be<uint32_t>(config_.dest_qpn);
  bth.ack_psn = wire::Bth::MakeAckPsn(false, part.psn);
  slot.header_bytes = 0;
  Append(slot, bth);
  if (write && part.first) {
    wire::Reth reth;
    reth.virtual_address = wire::Be<uint64_t>(wqe.remote_addr);
    reth.rkey = wire::Be<uint32_t>(wqe.rkey);
    reth.dma_length = wire::Be<uint32_t>(part.message_bytes);
    Append(slot, reth);
  }
  if (imm) Append(slot, wqe.imm_or_key);
}

}  // namespace urnic::uc
