#pragma once

// Headers of the host's own frames, appended one after the other.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/wire/address.h"
#include "transport/wire/appender.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv6.h"

namespace urnic::wire {

inline void AppendLink(const MacAddress& src, std::optional<uint16_t> vlan_tci,
                       const MacAddress& dst, uint16_t ether_type,
                       Appender& out) {
  if (vlan_tci) {
    out.Append(Ethernet{dst, src, Be<uint16_t>(kEtherTypeVlan)});
    out.Append(VlanTag{Be<uint16_t>(*vlan_tci), Be<uint16_t>(ether_type)});
  } else {
    out.Append(Ethernet{dst, src, Be<uint16_t>(ether_type)});
  }
}

inline void AppendIpv6(const Gid& src, const Gid& dst, uint8_t next_header,
                       uint8_t hop_limit, size_t payload_bytes, Appender& out) {
  Ipv6 ip;
  ip.version_class_flow = Ipv6::MakeVersionClassFlow(0, 0);
  ip.payload_length = Be<uint16_t>(static_cast<uint16_t>(payload_bytes));
  ip.next_header = next_header;
  ip.hop_limit = hop_limit;
  ip.src = src;
  ip.dst = dst;
  out.Append(ip);
}

// Returns the frame's length.
inline size_t PadToMinimum(Appender& out) {
  if (out.size() < kEthernetMinBytes) {
    out.AppendZeros(kEthernetMinBytes - out.size());
  }
  return out.size();
}

}  // namespace urnic::wire
