#pragma once

// The neighbour that frames go to. All paths through it share one adjacency.
// When the neighbour moves, the adjacency is updated in place and its
// generation is incremented.

#include <cstdint>
#include <memory>

#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic::net {

// Only the NeighborCache (net/neighbor_cache.h) creates and changes it. Any
// thread may copy and drop the pointer, even when the cache is gone. Everything
// else is for the holder of the engine's token.
class Adjacency {
 public:
  Adjacency(const wire::Gid& address, uint16_t vlan, uint32_t entry)
      : address_(address), entry_(entry), vlan_(vlan) {}
  Adjacency(const Adjacency&) = delete;
  Adjacency& operator=(const Adjacency&) = delete;

  // A path compares this with the generation that it was built from.
  uint32_t generation() const { return generation_; }
  const wire::MacAddress& mac() const { return mac_; }
  uint16_t vlan() const { return vlan_; }  // net/vlan.h
  // The tunnel that leads to the neighbour; 0: none.
  uint32_t tunnel() const { return tunnel_; }
  // The neighbour's own address: the destination, or a router on the way.
  const wire::Gid& address() const { return address_; }

  // Call this when the neighbour has just answered something that was sent to
  // it. A packet from it is not enough: a neighbour that has moved still sends.
  void Confirm(Time now) { heard_ = now; }

 private:
  friend class NeighborCache;

  uint32_t generation_ = 0;
  wire::MacAddress mac_;
  Time heard_;
  wire::Gid address_;
  uint32_t entry_;  // in its cache
  uint32_t tunnel_ = 0;
  uint16_t vlan_;
};

using AdjacencyPtr = std::shared_ptr<Adjacency>;

}  // namespace urnic::net
