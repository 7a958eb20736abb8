#pragma once

#include <cstdint>

namespace urnic::wire {

// What lies between the Ethernet header and the BTH. The GRH of RoCE v1 has the
// shape of an IPv6 header, and its GIDs may be IPv4-mapped, so the addresses do
// not distinguish the two.
enum class Framing : uint8_t {
  kIpv4,  // RoCE v2: IPv4 and UDP
  kIpv6,  // RoCE v2: IPv6 and UDP
  kGrh,   // RoCE v1: InfiniBand's global route header
};

}  // namespace urnic::wire
