#pragma once

// What goes into a window, and what comes out of it. Nothing here does I/O.

#include <cstdint>
#include <span>

#include "transport/wire/rud.h"

namespace urnic::rud {

struct Membership;  // membership.h

// A received packet for one window. The caller has checked its CRC and its
// destination address.
struct RxPacket : wire::RudPacket {
  // The number of the sender, which is one of the window's peers.
  uint32_t peer = 0;
  // The peer that has the address and the window number of the third header. 0:
  // no peer has.
  uint32_t third_peer = 0;
  // For a packet to a group: the window's membership. Valid until the burst
  // ends.
  const Membership* group = nullptr;
  bool marked = false;  // by ECN
};

// A packet to transmit. The window writes to `headers`: all headers of RUD, the
// entries of a completion, and inline payload. The caller completes the packet:
// it writes the protection key of the peer's window to the base header, copies
// the payload after the headers, appends the CRC, and puts the headers of the
// path in front.
struct TxPacket {
  uint8_t* headers = nullptr;  // in: room for kMaxHeaderBytes
  uint16_t header_bytes = 0;
  uint8_t path = 0;
  bool payload_in_ring = false;  // else in registered memory
  uint32_t payload_bytes = 0;
  uint64_t payload = 0;  // its address
  uint32_t peer = 0;     // as in RxPacket
  // If not 0, the packet has a third header, which is the last one: the caller
  // writes the address of this peer to it.
  uint32_t third_peer = 0;
  // For OnGatherFault(): the context whose read request this answers, and its
  // tid. kNoContext: any other packet.
  uint32_t context = kNoContext;
  uint64_t tid = 0;
  static constexpr uint32_t kNoContext = UINT32_MAX;
};
inline constexpr uint32_t kMaxHeaderBytes =
    sizeof(wire::RudBase) +
    wire::kRudMaxCompletions * sizeof(wire::RudCompletion);
static_assert(kMaxHeaderBytes >= wire::kRudMaxHeaderBytes);

// Packets in one burst, at most.
inline constexpr uint32_t kBurstMax = 32;

// Identity of a window. Does not change.
struct WindowConfig {
  uint32_t number = 0;
  uint32_t job = 0;
  uint32_t key = 0;
  uint32_t max_payload = UINT16_MAX;  // bytes of a packet
};

}  // namespace urnic::rud
