#pragma once

// What is asked of a host core, and what is found: PathQuery and Path. The
// third kind of path is wire::HeaderTemplate, the bytes.

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
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t udp_src_port = 0;
  bool roce_v1 = false;
  // Of no account for the way: what packets, and messages about them, bear.
  uint16_t pkey = 0xffff;
  uint8_t service_level = 0;  // 4 bits
};

enum class PathStatus : uint8_t {
  kFound,
  kMixedFamilies,  // one of the addresses is IPv4, the other IPv6
  kNotLocal,       // `local` is not an address of ours
  kNoRoute,        // `remote` is not on our link, and no route leads there
  kNoAnswer,       // nobody has answered (so far)
  kNoRoom,         // too many neighbours are in use, or too many questions
};

// Where packets go. A value: copy it freely, in any thread; the adjacency
// remains the neighbour's while any copy is there.
struct Path {
  wire::HeaderTemplate headers;
  // Null where no neighbour is to be followed: to ourselves, to a group, back
  // along a received frame, and to a MAC that is part of the address.
  AdjacencyPtr adjacency;
  // Of the adjacency, when `headers` were made from it.
  uint32_t generation = 0;
  // The largest IP packet, in bytes, when the path was found.
  uint32_t mtu = 0;
  // Whom packets to us are for; of a path whose source is gone no packet's
  // destination: zero. What goes out bears `headers`.
  wire::Gid local;
  wire::Gid remote;
  bool loopback = false;   // `remote` is an address of ours
  bool multicast = false;  // `remote` is a group
  // The source is no address of ours any more: nothing goes out.
  bool source_gone = false;

  // For the holder of the engine's token. False: the neighbour has moved since
  // the headers were made, and they lead to where it was.
  bool IsCurrent() const {
    return adjacency == nullptr || adjacency->generation() == generation;
  }
  // Lets the headers lead to where the neighbour is. REQUIRES: adjacency !=
  // nullptr
  void Restamp() {
    headers.set_dst_mac(adjacency->mac());
    generation = adjacency->generation();
  }
};

// Who has asked for a path.
class PathWaiter {
 public:
  // Called once, by the holder of the token: neither waits nor enters an
  // engine. `path` is valid if the status is kFound, and during the call only.
  virtual void OnPath(PathStatus status, const Path& path) = 0;

 protected:
  ~PathWaiter() = default;
};

}  // namespace urnic::net
