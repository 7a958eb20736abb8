#pragma once

// What upper layers tell each other, in packets for the receive FIFO. Each may
// be lost, and asked for again: all are idempotent.
//
//   hello   asker wants contexts of the window that this arrives at
//   grant   here they are: also the answer to a renewal
//   renew   the context of a slot must no longer place anything: release it,
//           and give the slot another one
//   bye     this endpoint ends, or has removed the peer. Nobody asks for it: if
//           it is lost, the peer finds no path any more
//
// A message names both incarnations. One of another life is ignored.

#include <cstdint>

#include "transport/wire/be.h"

namespace urnic::rud::upper {

enum class ControlType : uint8_t {
  kHello = 1,
  kGrant = 2,
  kRenew = 3,
  kBye = 4,
};

// In the tag of the packet.
struct ControlTag {
  static constexpr uint8_t kVersion = 1;

  uint8_t version = kVersion;
  uint8_t type = 0;
  // Of the endpoint that has the contexts: its NIC, as in its address.
  uint8_t nic = 0;
  uint8_t reserved = 0;
  // Hello: contexts that are wanted. Grant: that there are. Renew: the slot.
  wire::Be<uint32_t> count;
  wire::Be<uint64_t> from;  // incarnation
};
static_assert(sizeof(ControlTag) == 16 && alignof(ControlTag) == 1);

// Then, as the payload.
struct ControlBody {
  wire::Be<uint64_t> to;          // incarnation
  wire::Be<uint32_t> generation;  // renew: the one that is wanted
  wire::Be<uint32_t> reserved;
};
static_assert(sizeof(ControlBody) == 16 && alignof(ControlBody) == 1);

// Grant: any number of these, after the body.
struct ControlGrant {
  wire::Be<uint32_t> slot;
  wire::Be<uint32_t> generation;
  wire::Be<uint64_t> context;  // all ones: there is none
};
static_assert(sizeof(ControlGrant) == 16 && alignof(ControlGrant) == 1);

}  // namespace urnic::rud::upper
