#pragma once

// What goes into a window and comes out of it. Nothing here does I/O.

#include <cstdint>
#include <span>

#include "transport/wire/rud.h"

namespace urnic::rud {

struct Membership;  // membership.h

// A received packet for one window. The CRC and the destination address have
// been checked.
struct RxPacket : wire::RudPacket {
  // The sender: one of the windows that the program has named.
  uint32_t peer = 0;
  // The peer with the address and window of the third header; 0: there is none.
  uint32_t third_peer = 0;
  // If the packet was sent to a group: how the window is a member. Valid until
  // the burst ends.
  const Membership* group = nullptr;
  bool marked = false;  // by ECN
};

// One packet to transmit. The window writes all headers of RUD, the entries of
// a completion, and payload that a command has inline, to `headers`. The caller
// knows the protection key of the peer's window and writes it to the base
// header, copies the payload after the headers, appends the CRC, and puts the
// path's headers in front.
struct TxPacket {
  uint8_t* headers = nullptr;  // in: room for kMaxHeaderBytes
  uint16_t header_bytes = 0;
  uint8_t path = 0;
  bool payload_in_ring = false;  // else in registered memory
  uint32_t payload_bytes = 0;
  uint64_t payload = 0;  // its address
  uint32_t peer = 0;     // as in RxPacket
  // The peer whose address the caller writes to the third header, which is the
  // last header; 0: the packet has none.
  uint32_t third_peer = 0;
  // For OnGatherFault(): the context that is read, and its tid; kNoContext: a
  // command.
  uint32_t context = kNoContext;
  uint64_t tid = 0;
  static constexpr uint32_t kNoContext = UINT32_MAX;
};
inline constexpr uint32_t kMaxHeaderBytes =
    sizeof(wire::RudBase) +
    wire::kRudMaxCompletions * sizeof(wire::RudCompletion);
static_assert(kMaxHeaderBytes >= wire::kRudMaxHeaderBytes);

// Of one burst.
inline constexpr uint32_t kBurstMax = 32;

// Identity of a window, fixed when it is made.
struct WindowConfig {
  uint32_t number = 0;
  uint32_t job = 0;
  uint32_t key = 0;
  uint32_t max_payload = UINT16_MAX;  // bytes of a packet
};

}  // namespace urnic::rud
