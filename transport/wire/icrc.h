#pragma once

// The invariant CRC of RoCE. It covers eight bytes of ones (where InfiniBand
// has its LRH), the IP and UDP headers or the GRH with the fields that routers
// may change set to ones, and everything from the BTH to the last payload or
// pad byte.
//
// Two versions. IcrcReference() is the definition, bit by bit, for tests. The
// others are for the packet path and split the work, because the part before
// the BTH is the same for every frame of a queue pair that has the same length
// (IPv4 identification 0): a sender keeps IcrcPrefix() and runs only
//
//   StoreIcrc(bth + bytes, IcrcExtend(prefix, bth, bytes));
//
// Do that in a second pass over a burst, not right after writing a packet:
// 16-byte loads of bytes that were just stored in smaller pieces wait for the
// stores to retire. Measured for a 36-byte write (Zen 5, headers + ICRC): right
// after writing 13.2 ns per packet, two packets later 6.1 ns. (IcrcExtend()
// alone 3.8, 8.7 latency; VerifyIcrc() 5.5, IcrcPrefix() 3.3.)
//
// IcrcExtend() never writes: the BTH's masked byte 4 is accounted for in the
// state, so sender and receiver use it alike. All functions are pure, may run
// in any thread and never fail. Lengths are multiples of four, as RoCE pads.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/wire/crc_fold.h"
#include "transport/wire/framing.h"
#include "transport/wire/roce_packet.h"

namespace urnic::wire {

// The bytes between the start of the IP header or GRH and the BTH. IPv4 options
// and IPv6 extension headers never get this far.
inline constexpr size_t kIpv4UdpBytes = 28;
inline constexpr size_t kIpv6UdpBytes = 48;
inline constexpr size_t kGrhBytes = 40;

constexpr size_t BytesBeforeBth(Framing framing) {
  switch (framing) {
    case Framing::kIpv4:
      return kIpv4UdpBytes;
    case Framing::kIpv6:
      return kIpv6UdpBytes;
    case Framing::kGrh:
      break;
  }
  return kGrhBytes;
}

// The ICRC of `l3`, which starts at the IP header and ends before the ICRC
// field: what IcrcFinish() gives on the packet path. One bit at a time.
// REQUIRES: the headers of `framing`, without options, and a BTH.
uint32_t IcrcReference(std::span<const uint8_t> l3, Framing framing);

// A running ICRC after the ones and the masked headers at `l3`.
// For IPv4 it depends on no masked field: version, IHL, length,
// identification, flags, protocol, addresses, UDP ports and UDP length.
uint32_t IcrcPrefix(const uint8_t* l3, Framing framing);

// The running ICRC after `bytes` more, from the BTH on, without the ICRC
// field. REQUIRES: bytes >= 12, a multiple of four, and 16 readable bytes at
// `bth` (the ICRC field has room by then; its content does not matter).
uint32_t IcrcExtend(uint32_t state, const uint8_t* bth, size_t bytes);

// The value of the ICRC field, which is stored least significant byte first.
inline uint32_t IcrcFinish(uint32_t state) { return ~state; }

// The same for later bytes, after the BTH. REQUIRES: bytes >= 4, a multiple of
// four, and 16 readable bytes at `p`.
uint32_t IcrcContinue(uint32_t state, const uint8_t* p, size_t bytes);

// Extended by IcrcContinue().
extern const FoldingCrc kFoldingIcrc;

inline void StoreIcrc(uint8_t* field, uint32_t state) {
  const uint32_t value = IcrcFinish(state);
  std::memcpy(field, &value, kIcrcBytes);
}

// True if the ICRC field at the end of the `roce_bytes` from the BTH on is
// correct. (In RoCE v2 that is the length of the UDP payload, in v1 of the
// GRH's payload.) False also if they are too short or not a multiple of four.
[[nodiscard]] bool VerifyIcrc(const uint8_t* l3, Framing framing,
                              size_t roce_bytes);

// The same for a caller that has the prefix's state (IcrcPrefix()).
// REQUIRES: roce_bytes >= 16, a multiple of four.
[[nodiscard]] inline bool VerifyIcrcAfter(uint32_t prefix, const uint8_t* bth,
                                          size_t roce_bytes) {
  const size_t bytes = roce_bytes - kIcrcBytes;
  uint32_t stored;
  std::memcpy(&stored, bth + bytes, kIcrcBytes);
  return stored == IcrcFinish(IcrcExtend(prefix, bth, bytes));
}

}  // namespace urnic::wire
