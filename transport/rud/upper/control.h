#pragma once

// Control messages between upper layers, as packets for the receive FIFO. They
// may be lost and are then repeated, so all of them are idempotent.
//
//   hello   asks for contexts of the window at which this arrives
//   grant   the contexts: answers a hello or a renew
//   renew   the context of a slot must no longer place anything: release it,
//           and give the slot another one
//   bye     this endpoint has ended, or has removed the peer. Not repeated: if
//           it is lost, the peer finds later that no path works any more
//
// A message contains the incarnations of both endpoints. If one of them is
// wrong, such as after a restart, the message is ignored.

#include <cstdint>

#include "transport/wire/be.h"

namespace urnic::rud::upper {

enum class ControlType : uint8_t {
  kHello = 1,
  kGrant = 2,
  kRenew = 3,
  kBye = 4,
};

// The tag of the packet.
struct ControlTag {
  static constexpr uint8_t kVersion = 1;

  uint8_t version = kVersion;
  uint8_t type = 0;
  // The NIC to which the contexts belong: its index in the address of its
  // endpoint.
  uint8_t nic = 0;
  uint8_t reserved = 0;
  // Hello: how many contexts are wanted. Grant: how many there are. Renew: the
  // slot.
  wire::Be<uint32_t> count;
  wire::Be<uint64_t> from;  // incarnation
};
static_assert(sizeof(ControlTag) == 16 && alignof(ControlTag) == 1);

// The first part of the payload.
struct ControlBody {
  wire::Be<uint64_t> to;          // incarnation
  wire::Be<uint32_t> generation;  // renew: the one that is wanted
  wire::Be<uint32_t> reserved;
};
static_assert(sizeof(ControlBody) == 16 && alignof(ControlBody) == 1);

// Grant: any number of these follows the body.
struct ControlGrant {
  wire::Be<uint32_t> slot;
  wire::Be<uint32_t> generation;
  wire::Be<uint64_t> context;  // all ones: none
};
static_assert(sizeof(ControlGrant) == 16 && alignof(ControlGrant) == 1);

}  // namespace urnic::rud::upper
