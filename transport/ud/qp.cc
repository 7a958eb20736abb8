#include "transport/ud/qp.h"

namespace urnic::ud {

void Qp::WriteHeaders(TxSlot& slot, const UnreliableSender::Part& part) {
  const bool imm = Contains(kRequestsWithImm, part.wqe.opcode);
  wire::Bth bth;
  bth.opcode = static_cast<uint8_t>(imm ? wire::Opcode::kUdSendOnlyImm
                                        : wire::Opcode::kUdSendOnly);
  bth.flags = wire::Bth::MakeFlags((part.wqe.flags & URNIC_SEND_SOLICITED) != 0,
                                   true, slot.pad_bytes);
  bth.pkey = wire::Be<uint16_t>(config_.pkey);
  bth.fecn_becn_qpn = wire::Bth::MakeQpn(false, false, Qpn{part.wqe.to.qpn});
  bth.ack_psn = wire::Bth::MakeAckPsn(false, part.psn);
  //= IBTA 10.2.5: if the highest bit of a request's Q_Key is set, the Q_Key of
  //= the sending queue pair is sent instead
  const bool own = (part.wqe.remote_qkey & 0x80000000u) != 0;
  wire::Deth deth;
  deth.qkey = wire::Be<uint32_t>(own ? config_.qkey : part.wqe.remote_qkey);
  deth.source_qp = wire::Be<uint32_t>(limits_.qpn);
  std::memcpy(slot.headers, &bth, sizeof(bth));
  std::memcpy(slot.headers + sizeof(bth), &deth, sizeof(deth));
  slot.header_bytes = sizeof(bth) + sizeof(deth);
  if (imm) {
    std::memcpy(slot.headers + slot.header_bytes, &part.wqe.imm_or_key, 4);
    slot.header_bytes += 4;
  }
  slot.address_handle = part.wqe.to.address_handle;
}

}  // namespace urnic::ud
