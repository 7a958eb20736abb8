#pragma once

// The VLAN rules of a host: which frames are its, and the tag of its own.
// A host is in one VLAN, or in none; 0 stands for none.

#include <cstdint>
#include <optional>

#include "transport/wire/ethernet.h"

namespace urnic::net {

// Without a VLAN: untagged frames, and those tagged with VLAN 0, which gives a
// priority only (IEEE 802.1Q 6.9.1). With one: frames of that VLAN.
inline bool IsOurVlan(const wire::VlanTag* tag, uint16_t vlan) {
  return (tag == nullptr ? 0 : tag->vlan_id()) == vlan;
}

// The priority of a packet from its traffic class (or IPv4 TOS): the class
// selector, which is how switches and NICs map DSCPs unless told otherwise
// (RFC 2474 4.2.2; 802.1Q 6.9.3).
constexpr uint8_t VlanPriority(uint8_t traffic_class) {
  return static_cast<uint8_t>(traffic_class >> 5);
}

// The tag of such a packet; none outside a VLAN. REQUIRES: vlan < 4095
inline std::optional<uint16_t> VlanTci(uint16_t vlan, uint8_t traffic_class) {
  if (vlan == 0) return std::nullopt;
  return wire::VlanTag::MakeTci(vlan, VlanPriority(traffic_class)).value();
}

}  // namespace urnic::net
