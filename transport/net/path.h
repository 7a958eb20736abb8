#pragma once

// The question to a host core and its answer: PathQuery and Path. The header
// bytes of a path are a wire::HeaderTemplate.

#include <cstdint>

#include "transport/net/adjacency.h"
#include "transport/net/vlan.h"
#include "transport/wire/address.h"
#include "transport/wire/header_template.h"

namespace urnic::net {

struct PathQuery {
  wire::Gid local;   // an address of ours
  wire::Gid remote;  // of the same family
  uint8_t traffic_class = 0;
  uint8_t hop_limit = wire::kDefaultHopLimit;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t udp_src_port = 0;
  bool roce_v1 = false;
  // These do not affect the route. Packets, and messages about them, carry
  // them.
  uint16_t pkey = 0xffff;
  uint8_t service_level = 0;  // 4 bits
};

enum class PathStatus : uint8_t {
  kFound,
  kMixedFamilies,  // one of the addresses is IPv4, the other IPv6
  kNotLocal,       // `local` is not an address of ours
  kNoRoute,        // `remote` is not on our link, and no route leads there
  kNoAnswer,       // no answer has come (so far)
  kNoRoom,         // too many neighbours are in use, or too many questions
};

// Where packets go. A value: copy it freely, in any thread; the adjacency
// remains the neighbour's while any copy exists.
struct Path {
  wire::HeaderTemplate headers;
  // Null if no neighbour is followed: to ourselves, to a group, to a MAC that
  // is part of the address; and back along a received frame, as long as the
  // neighbour has not been found.
  AdjacencyPtr adjacency;
  // The adjacency's generation when `headers` were built from it.
  uint32_t generation = 0;
  // The largest IP packet, in bytes, when the path was found.
  uint32_t mtu = 0;
  // Our address, the destination of received packets. Zero, which no packet
  // has, if the source is gone. Outgoing packets use `headers`.
  wire::Gid local;
  wire::Gid remote;
  bool loopback = false;   // `remote` is an address of ours
  bool multicast = false;  // `remote` is a group
  // The source is no longer an address of ours: nothing is sent.
  bool source_gone = false;

  // Whether the packets go to a neighbour, which may move.
  bool HasNeighbor() const {
    return adjacency != nullptr || (!loopback && !multicast &&
                                    headers.framing() != wire::Framing::kGrh);
  }
  // For the holder of the engine's token. False: the neighbour has moved since
  // the headers were built, and they still lead to its old place.
  bool IsCurrent() const {
    return adjacency == nullptr || adjacency->generation() == generation;
  }
  // Updates the headers to the neighbour's current MAC. REQUIRES: adjacency !=
  // nullptr
  void Restamp() {
    headers.set_dst_mac(adjacency->mac());
    generation = adjacency->generation();
  }
};

// Receives the answer to a question for a path.
class PathWaiter {
 public:
  // Called once, by the holder of the token. It must not wait or enter an
  // engine. `path` is valid only if the status is kFound, and only during the
  // call.
  virtual void OnPath(PathStatus status, const Path& path) = 0;

 protected:
  ~PathWaiter() = default;
};

}  // namespace urnic::net
