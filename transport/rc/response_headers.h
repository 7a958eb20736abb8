#pragma once

// The headers of responses.

#include <cstdint>
#include <cstring>

#include "transport/work/types.h"

namespace urnic::rc {

// Begins a packet without payload. `xrc`: it is of the XRC service, whose
// responses carry no XRCETH.
inline void WriteResponseBth(TxSlot& slot, uint32_t dest_qpn, uint16_t pkey,
                             bool xrc, wire::Opcode opcode, Psn psn) {
  slot.from_responder = true;
  slot.segment_count = 0;
  slot.payload_bytes = 0;
  slot.pad_bytes = 0;
  auto* bth = reinterpret_cast<wire::Bth*>(slot.headers);
  bth->opcode = static_cast<uint8_t>(opcode);
  if (xrc) bth->opcode |= static_cast<uint8_t>(wire::Opcode::kXrcBase);
  bth->flags = wire::Bth::MakeFlags(false, true, 0);
  bth->pkey = wire::Be<uint16_t>(pkey);
  bth->fecn_becn_qpn = wire::Be<uint32_t>(dest_qpn);
  bth->ack_psn = wire::Bth::MakeAckPsn(false, psn);
  slot.header_bytes = sizeof(wire::Bth);
}

//= IBTA 9.7.7.1: the AETH of a response carries the MSN, the number of messages
//= completed so far
inline void AppendAeth(TxSlot& slot, uint8_t syndrome, uint32_t msn) {
  const wire::Aeth aeth = wire::Aeth::Make(syndrome, msn);
  std::memcpy(slot.headers + slot.header_bytes, &aeth, sizeof(aeth));
  slot.header_bytes += sizeof(aeth);
}

}  // namespace urnic::rc
