#pragma once

// The VLAN rules of a host: which frames it accepts, and the tag of the frames
// that it sends. A host is in one VLAN or in none; 0 means none.

#include <cstdint>
#include <optional>

#include "transport/wire/ethernet.h"

namespace urnic::net {

// A host without a VLAN accepts untagged frames, and frames tagged with VLAN 0.
// A host with a VLAN accepts the frames of that VLAN.
//= IEEE 802.1Q 6.9.1: VLAN ID 0 is not a VLAN: the tag carries only a priority
inline bool IsOurVlan(const wire::VlanTag* tag, uint16_t vlan) {
  return (tag == nullptr ? 0 : tag->vlan_id()) == vlan;
}

// The priority of a packet from its traffic class (or IPv4 TOS): the class
// selector, which is how switches and NICs map DSCPs unless told otherwise.
//= RFC 2474 4.2.2: the three highest bits of the DSCP are the class selector
//= IEEE 802.1Q 6.9.3: the tag carries the priority of the frame
constexpr uint8_t VlanPriority(uint8_t traffic_class) {
  return static_cast<uint8_t>(traffic_class >> 5);
}

// The tag of a packet of this traffic class; none outside a VLAN. REQUIRES:
// vlan < 4095
inline std::optional<uint16_t> VlanTci(uint16_t vlan, uint8_t traffic_class) {
  if (vlan == 0) return std::nullopt;
  return wire::VlanTag::MakeTci(vlan, VlanPriority(traffic_class)).value();
}

}  // namespace urnic::net
