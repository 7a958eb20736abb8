#pragma once

// The neighbour that frames go to, shared by all paths through it: it is
// restamped in place when the neighbour moves, and its generation grows.

#include <cstdint>
#include <memory>

#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic::net {

// Made and changed by the NeighborCache (net/neighbor_cache.h) only. Copies of
// the pointer may be made and dropped by any thread, also when the cache is
// gone; everything else is for the holder of the engine's token.
class Adjacency {
 public:
  Adjacency(const wire::Gid& address, uint16_t vlan, uint32_t entry)
      : address_(address), entry_(entry), vlan_(vlan) {}
  Adjacency(const Adjacency&) = delete;
  Adjacency& operator=(const Adjacency&) = delete;

  // What a path compares with the one that it was made from.
  uint32_t generation() const { return generation_; }
  const wire::MacAddress& mac() const { return mac_; }
  uint16_t vlan() const { return vlan_; }  // net/vlan.h
  // Of the tunnel that leads to it; 0: none.
  uint32_t tunnel() const { return tunnel_; }
  // Its own address: the destination's, or that of a router on the way.
  const wire::Gid& address() const { return address_; }

  // It has just answered something that was sent to it. Not: something came
  // from it, for a neighbour that has moved still talks to us.
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
