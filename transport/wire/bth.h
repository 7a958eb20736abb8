#pragma once

#include <cstddef>

#include "transport/base/ids.h"
#include "transport/base/psn.h"
#include "transport/wire/be.h"

namespace urnic::wire {

//= IBTA 9.2: the format of the base transport header (BTH)
//
//   0      7 8     15 16             31
//  | opcode |S|M|P|V |     P_Key       |  S solicited event, M MigReq,
//  |F|B| resv6 |      dest QP (24)     |  P pad count (2), V version (4),
//  |A| resv7   |        PSN (24)       |  F FECN, B BECN, A ack request
//
// The six reserved bits are outside the ICRC, and other stacks send 0 and
// ignore them. Reliable queue pairs of ours repair losses with them: `repair()`
// (docs/design/0012-roce-on-lossy-networks.md).
struct Bth {
  uint8_t opcode = 0;
  uint8_t flags = 0;
  Be<uint16_t> pkey;
  Be<uint32_t> fecn_becn_qpn;
  Be<uint32_t> ack_psn;

  bool solicited() const { return (flags & 0x80) != 0; }
  bool mig_req() const { return (flags & 0x40) != 0; }
  uint32_t pad_bytes() const { return (flags >> 4) & 3; }
  uint32_t version() const { return flags & 0x0f; }
  bool fecn() const { return (fecn_becn_qpn.value() >> 31) != 0; }
  bool becn() const { return (fecn_becn_qpn.value() >> 30 & 1) != 0; }
  // NAK or ACK: the missing PSNs before the first that is held, kRepairMax for
  // as many or more, 0 if nothing is held. A repeated request: 1.
  uint32_t repair() const { return fecn_becn_qpn.value() >> 24 & kRepairMax; }
  void SetRepair(uint32_t bits) {
    fecn_becn_qpn = Be<uint32_t>((fecn_becn_qpn.value() & ~(kRepairMax << 24)) |
                                 bits << 24);
  }
  static constexpr uint32_t kRepairMax = 63;
  Qpn dest_qp() const { return Qpn{fecn_becn_qpn.value() & 0x00ffffff}; }
  bool ack_requested() const { return ack_psn.top_bit(); }
  Psn psn() const { return Psn(ack_psn.value()); }

  // The S, M, pad bits of `flags`; the version is 0.
  static uint8_t MakeFlags(bool solicited, bool mig_req, uint32_t pad) {
    return static_cast<uint8_t>((solicited ? 0x80 : 0) | (mig_req ? 0x40 : 0) |
                                (pad << 4));
  }
  static Be<uint32_t> MakeQpn(bool fecn, bool becn, Qpn dest_qp) {
    return Be<uint32_t>((fecn ? 0x80000000u : 0) | (becn ? 0x40000000u : 0) |
                        (dest_qp.value & 0x00ffffff));
  }
  static Be<uint32_t> MakeAckPsn(bool ack_requested, Psn psn) {
    return Be<uint32_t>((ack_requested ? 0x80000000u : 0) | psn.value());
  }
};
static_assert(sizeof(Bth) == 12 && alignof(Bth) == 1);
static_assert(offsetof(Bth, pkey) == 2 && offsetof(Bth, fecn_becn_qpn) == 4);
static_assert(offsetof(Bth, ack_psn) == 8);

}  // namespace urnic::wire
