#pragma once

// What a network is made from (datapath/engine/network.h).

#include <cstdint>
#include <functional>
#include <vector>

#include "datapath/engine/connection_limits.h"
#include "transport/base/lessor.h"
#include "transport/base/numbers.h"
#include "transport/base/permutation.h"
#include "transport/iwarp/options/options.h"
#include "transport/net/addresses.h"
#include "transport/net/path_mtu.h"

namespace urnic {

// The most objects that a network can have. A device gives the limits of its
// kind (verbs/identity/device_kind.h); the defaults are for users without one.
struct NetworkLimits {
  uint32_t max_qps = kMaxQueuePairs;  // of RoCE, and as many of iWARP
  uint32_t max_mrs = 1u << 18;        // regions and windows; a power of two
  uint32_t max_srqs = 1u << 16;
  uint32_t max_windows = 1024;      // of RUD
  uint32_t rud_contexts = 100'000;  // of all windows
};

struct NetworkConfig {
  // The first two belong to the port.
  wire::MacAddress mac;
  uint16_t vlan = 0;     // net/vlan.h
  uint32_t mtu = 0;      // bytes of an IP packet
  uint32_t ordinal = 0;  // of the NIC (transport/base/numbers.h)
  // Leases QPNs, SRQNs and keys to the network, and outlives it. Null: the
  // network may use all numbers of the ordinal.
  Lessor* lessor = nullptr;
  std::vector<net::LocalAddress> addresses;
  // The P_Key table. QP1 uses all of it; every other queue pair uses one entry.
  std::vector<uint16_t> pkeys = {0xffff};
  NetworkLimits limits;
  NumberKey number_key;  // determines the order of QPNs, SRQNs and keys
  uint64_t seed = 0;     // random: see net::HostConfig
  // Whether the network has iWARP connections (connection_table.h). If not, TCP
  // segments to our addresses are counted as kTcp, and not answered.
  bool iwarp = false;
  iwarp::Options iwarp_options = {};
  ConnectionLimits connections;
  // Called by the holder of the token for each destination in use whose path
  // MTU has shrunk (net/path_mtu.h). May be null.
  std::function<void(const net::PathMtuCache::Change&)> on_path_mtu = nullptr;
  // Called by the holder of the token for each TCP segment whose checksum was
  // left to an offload and never computed. May be null.
  std::function<void(const wire::Gid& peer)> on_unfinished_checksum = nullptr;
};

}  // namespace urnic
