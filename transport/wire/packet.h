#pragma once

// A RoCE packet as values, for tests, scripts, tools and replays that build and
// compare whole packets. The transports write their few kinds of headers
// directly into the frame; tests compare those with this.

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/base/ids.h"
#include "transport/base/psn.h"
#include "transport/wire/header_template.h"
#include "transport/wire/roce_packet.h"

namespace urnic::wire {

// Fields of headers that the opcode does not have are zero when read from a
// packet, and ignored when a packet is built.
struct PacketFields {
  uint8_t opcode = 0;
  bool solicited = false;
  bool mig_req = true;  // always sent as 1, ignored on receipt
  bool fecn = false;
  bool becn = false;
  uint8_t repair = 0;  // Bth::repair()
  bool ack_requested = false;
  uint16_t pkey = 0xffff;
  Qpn dest_qp;
  Psn psn;

  uint32_t flush = 0;            // FETH
  uint64_t virtual_address = 0;  // RETH, AtomicETH
  uint32_t rkey = 0;             // RETH, AtomicETH, IETH
  uint32_t dma_length = 0;       // RETH
  uint64_t swap_or_add = 0;      // AtomicETH
  uint64_t compare = 0;          // AtomicETH
  uint8_t syndrome = 0;          // AETH
  uint32_t msn = 0;              // AETH
  uint64_t original_value = 0;   // AtomicAckETH
  ImmDt imm;                     // ImmDt
  uint32_t qkey = 0;             // DETH
  Qpn src_qp;                    // DETH
  uint32_t srqn = 0;             // XRCETH

  // Without padding. Not owned; must outlive the fields.
  std::span<const uint8_t> payload;
};

// The fields of a packet that ParseRoce() accepted. Other reserved bits
// are lost.
PacketFields FieldsOf(const RocePacket& packet);

// Writes BTH, extended headers, payload and padding to `out` and returns their
// size in bytes (a multiple of four). The ICRC is not written, but its four
// bytes must fit. 0: `out` is too small, or uRNIC does not support the opcode.
// Other reserved bits and padding are zero.
[[nodiscard]] size_t EmitRoce(const PacketFields& fields,
                              std::span<uint8_t> out);

// Writes a whole frame with its ICRC. Returns its length, or 0 as EmitRoce()
// does. `out` must always have room for HeaderTemplate::kMaxBytes.
[[nodiscard]] size_t EmitFrame(const HeaderTemplate& headers,
                               const PacketFields& fields,
                               std::span<uint8_t> out);

}  // namespace urnic::wire
