#pragma once

// A RoCE packet from the BTH on, in the form that a transport uses.

#include <cstdint>
#include <cstring>

#include "ras/metrics/rx_verdict.h"
#include "transport/wire/bth.h"
#include "transport/wire/opcode_table.h"
#include "transport/wire/rdma_headers.h"

namespace urnic::wire {

inline constexpr uint32_t kIcrcBytes = 4;

// The longest RoCE packet of all, BTH to ICRC: a UDP payload over IPv4.
inline constexpr uint32_t kRoceMaxBytes = 65535 - 28;

//= IBTA 9.2.3: zero to three pad bytes follow a payload
constexpr uint32_t PadOf(uint32_t payload_bytes) { return -payload_bytes & 3; }

// Pointers into the received frame, valid as long as the frame is. All
// lengths have been checked by ParseRoce, so the accessors need not.
struct RocePacket {
  const Bth* bth = nullptr;
  const OpcodeInfo* info = nullptr;
  const uint8_t* payload = nullptr;
  uint32_t payload_bytes = 0;  // without padding

  Psn psn() const { return bth->psn(); }

  // REQUIRES: the matching info->has_...
  const Reth& reth() const { return At<Reth>(info->extended_offset); }
  const Feth& feth() const {
    return At<Feth>(info->extended_offset - uint32_t{sizeof(Feth)});
  }
  const Aeth& aeth() const { return At<Aeth>(sizeof(Bth)); }
  const AtomicEth& atomic_eth() const {
    return At<AtomicEth>(info->extended_offset);
  }
  const Deth& deth() const { return At<Deth>(sizeof(Bth)); }
  const XrcEth& xrceth() const { return At<XrcEth>(sizeof(Bth)); }
  const AtomicAckEth& atomic_ack_eth() const {
    return At<AtomicAckEth>(sizeof(Bth) + sizeof(Aeth));
  }
  // Immediate data and IETH are always the last extended header.
  const ImmDt& imm() const { return At<ImmDt>(info->header_bytes - 4u); }
  const Ieth& ieth() const { return At<Ieth>(info->header_bytes - 4u); }

 private:
  template <typename H>
  const H& At(uint32_t offset) const {
    return *reinterpret_cast<const H*>(reinterpret_cast<const uint8_t*>(bth) +
                                       offset);
  }
};

// Behind the AETH of an acknowledgement: a bitmap of what is held.
[[gnu::cold, gnu::noinline]] inline bool MayHaveBitmap(const Bth& bth) {
  return InfoOf(bth.opcode).kind == PacketKind::kAck && bth.repair() != 0;
}

// Parses `bytes` .. `bytes + length`, from the BTH up to and including the ICRC
// field (transport/wire/icrc.h verifies it). `length` comes from the IP or UDP
// header, never from the frame (padding of short frames). Checks the version,
// the opcode, the header lengths and the pad count; a verdict other than
// kAccept leaves `out` unspecified.
[[nodiscard]] inline RxVerdict ParseRoce(const uint8_t* bytes, uint32_t length,
                                         RocePacket& out) {
  if (length < sizeof(Bth) + kIcrcBytes) return RxVerdict::kTruncated;
  const Bth& bth = *reinterpret_cast<const Bth*>(bytes);
  const uint32_t version = bth.version();
  const uint32_t pad = bth.pad_bytes();
  const OpcodeInfo& info = InfoOf(bth.opcode);
  out.bth = &bth;
  out.info = &info;
  if (version != 0) return RxVerdict::kBadBthVersion;
  if (!info.valid()) return RxVerdict::kUnknownOpcode;
  const uint32_t headers = info.header_bytes;
  if (length < headers + pad + kIcrcBytes) return RxVerdict::kTruncated;
  const uint32_t padded = length - headers - kIcrcBytes;
  out.payload = bytes + headers;
  out.payload_bytes = padded - pad;
  //= IBTA 9.2.3: payload and padding together are a multiple of four bytes
  if ((padded & 3) != 0) return RxVerdict::kBadPadding;
  if (__builtin_expect(!info.has_payload && padded != 0, 0)) {
    return MayHaveBitmap(bth) ? RxVerdict::kAccept
                              : RxVerdict::kBadPayloadLength;
  }
  return RxVerdict::kAccept;
}

}  // namespace urnic::wire
