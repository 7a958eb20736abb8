#pragma once

// What the upper layer needs of a window besides its rings: the window's
// identity, and its control plane. There is one adapter per window, that is,
// per NIC. The library of a program implements it with direct verbs; the
// simulator has another implementation.
//
// Thread: the endpoint's.

#include <cstdint>
#include <optional>

#include "transport/rud/context_pool.h"
#include "transport/rud/upper/rings.h"
#include "transport/wire/address.h"

namespace urnic::rud::upper {

// What a peer needs to know about a window.
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
  // The rings, the same each time. Nobody else uses the program's end of them.
  virtual RingMemory Rings() = 0;
  // The longest payload that a packet of the link can carry: at least
  // kLeastPacketBytes.
  virtual uint32_t PacketBytes() const = 0;

  // From now on the window may send to this window and hears it. Returns its
  // number, for `peer` of entries in both rings. 0: there is no room, or the
  // address cannot be reached.
  virtual uint32_t AddPeer(const WindowAddress& address) = 0;
  // Commands that were published before are sent first.
  virtual void RemovePeer(uint32_t peer) = 0;

  // Acquires a context for the window. Nullopt: none is free.
  virtual std::optional<ContextId> AcquireContext() = 0;
  // When it returns, packets for this context are no longer placed.
  virtual void ReleaseContext(ContextId context) = 0;

  // Commands were published. Called once for a number of commands.
  virtual void Doorbell() = 0;
};

}  // namespace urnic::rud::upper
