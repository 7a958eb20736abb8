#pragma once

// The congestion notification packet that a connected queue pair sends.

#include <cstdint>
#include <cstring>

#include "transport/work/types.h"

namespace urnic {

//= IBTA A17.9.3: a CNP has opcode 0x81, BECN, PSN 0, no MigReq, the P_Key of
//= the marked packets, and 16 bytes of zeros
inline void WriteCnp(TxSlot& slot, uint32_t dest_qpn, uint16_t pkey) {
  slot.from_responder = true;
  slot.segment_count = 0;
  slot.payload_bytes = 0;
  slot.pad_bytes = 0;
  slot.origin = 0;
  wire::Bth bth;
  bth.opcode = static_cast<uint8_t>(wire::Opcode::kCnp);
  bth.pkey = wire::Be<uint16_t>(pkey);
  bth.fecn_becn_qpn = wire::Bth::MakeQpn(false, true, Qpn{dest_qpn});
  const uint32_t bytes = wire::InfoOf(bth.opcode).header_bytes;
  std::memset(slot.headers, 0, bytes);
  std::memcpy(slot.headers, &bth, sizeof(bth));
  slot.header_bytes = static_cast<uint16_t>(bytes);
}

}  // namespace urnic
