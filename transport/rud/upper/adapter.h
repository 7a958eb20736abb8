#pragma once

// What the upper layer needs of a window besides its rings: its identity, and
// the control plane. One for each window, that is, for each NIC. A program's
// library implements it (direct verbs), and so does the simulator.
//
// Thread: that of the endpoint.

#include <cstdint>
#include <optional>

#include "transport/rud/context_pool.h"
#include "transport/rud/upper/rings.h"
#include "transport/wire/address.h"

namespace urnic::rud::upper {

// What a peer needs to know of a window.
struct WindowAddress {
  wire::Gid gid;        // of the host's port
  uint32_t window = 0;  // its number
  uint32_t key = 0;     // its protection key
  friend bool operator==(const WindowAddress&, const WindowAddress&) = default;
};

class Adapter {
 public:
  virtual ~Adapter() = default;

  virtual WindowAddress Address() const = 0;
  // The rings; the same each time. No one else uses them.
  virtual RingMemory Rings() = 0;
  // The longest payload of a packet that the link carries: at least
  // kLeastPacketBytes.
  virtual uint32_t PacketBytes() const = 0;

  // From now on the window may send to this one and hears it. The number is
  // that of `peer` in entries of both rings; 0: there is no room, or the
  // address is not reachable.
  virtual uint32_t AddPeer(const WindowAddress& address) = 0;
  // What was published before leaves first.
  virtual void RemovePeer(uint32_t peer) = 0;

  // A context of the window. Nullopt: none is free.
  virtual std::optional<ContextId> AcquireContext() = 0;
  // Afterwards nothing is placed that names the context.
  virtual void ReleaseContext(ContextId context) = 0;

  // Commands were published. Called once for all of them.
  virtual void Doorbell() = 0;
};

}  // namespace urnic::rud::upper
