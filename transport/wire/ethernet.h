#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/be.h"

namespace urnic::wire {

// The types that follow an Ethernet header or an 802.1Q tag.
inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
//= IBTA A16.2: RoCE v1 has its own EtherType
inline constexpr uint16_t kEtherTypeRoceV1 = 0x8915;

// The shortest frame that a wire carries, without its FCS.
//= IEEE 802.3 4.2.3.3: the sender pads a shorter frame to the minimum length
inline constexpr size_t kEthernetMinBytes = 60;

//= IEEE 802.3 3.1.1: the format of the header of a frame (here without preamble
//= and FCS)
struct Ethernet {
  MacAddress dst;
  MacAddress src;
  Be<uint16_t> ether_type;
};
static_assert(sizeof(Ethernet) == 14 && alignof(Ethernet) == 1);

//= IEEE 802.1Q 9.6: the format of the tag, which an EtherType of 0x8100
//= announces
//
//   0    2 3 4       15 16             31
//  | PCP  |D| VLAN ID  |   EtherType     |   D drop eligible
struct VlanTag {
  Be<uint16_t> tci;
  Be<uint16_t> ether_type;

  uint16_t vlan_id() const { return tci.value() & 0x0fff; }
  uint8_t priority() const { return static_cast<uint8_t>(tci.value() >> 13); }
  // REQUIRES: vlan_id < 4096, priority < 8
  static Be<uint16_t> MakeTci(uint16_t vlan_id, uint8_t priority) {
    return Be<uint16_t>(static_cast<uint16_t>(priority << 13 | vlan_id));
  }
};
static_assert(sizeof(VlanTag) == 4 && alignof(VlanTag) == 1);

}  // namespace urnic::wire
