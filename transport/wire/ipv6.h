#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/be.h"

namespace urnic::wire {

inline constexpr uint8_t kIpv6NextFragment = 44;
//= IBTA 8.3.4: next header 0x1b in a GRH means that a BTH follows
inline constexpr uint8_t kGrhNextBth = 0x1b;

//= RFC 8200 3: the format of the IPv6 header
//= IBTA 8.3: the GRH has the format of an IPv6 header; its payload ends with
//= the ICRC
//
//   0    3 4          11 12              31
//  |  6   | traffic class |   flow label     |
//  |    payload length      | next | hop lim |
//  |             source address (16)         |
//  |          destination address (16)       |
struct Ipv6 {
  Be<uint32_t> version_class_flow;
  Be<uint16_t> payload_length;
  uint8_t next_header = 0;
  uint8_t hop_limit = 0;
  Gid src;
  Gid dst;

  uint32_t version() const { return version_class_flow.value() >> 28; }
  uint8_t traffic_class() const {
    return static_cast<uint8_t>(version_class_flow.value() >> 20);
  }
  uint32_t flow_label() const { return version_class_flow.value() & 0xfffff; }
  static Be<uint32_t> MakeVersionClassFlow(uint8_t traffic_class,
                                           uint32_t flow_label) {
    return Be<uint32_t>(6u << 28 | static_cast<uint32_t>(traffic_class) << 20 |
                        (flow_label & 0xfffff));
  }
};
static_assert(sizeof(Ipv6) == 40 && alignof(Ipv6) == 1);
static_assert(offsetof(Ipv6, src) == 8 && offsetof(Ipv6, dst) == 24);

//= RFC 8200 4.5: the format of the fragment extension header
//
//   0    7 8     15 16         28 29   30 31
//  | next | reserved| fragment offset| res |M|
//  |              identification             |
struct Ipv6Fragment {
  uint8_t next_header = 0;
  uint8_t reserved = 0;
  Be<uint16_t> offset_more;
  Be<uint32_t> identification;

  static constexpr uint16_t kMoreFragments = 1;
  // In bytes: the field counts units of 8, and lies 3 bits higher.
  uint32_t offset() const { return offset_more.value() & 0xfff8u; }
  bool more() const { return (offset_more.value() & kMoreFragments) != 0; }
};
static_assert(sizeof(Ipv6Fragment) == 8 && alignof(Ipv6Fragment) == 1);

}  // namespace urnic::wire
