#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/be.h"

namespace urnic::wire {

inline constexpr uint8_t kIpProtocolIcmp = 1;
inline constexpr uint8_t kIpProtocolTcp = 6;
inline constexpr uint8_t kIpProtocolUdp = 17;
inline constexpr uint8_t kIpProtocolIcmpv6 = 58;

//= RFC 3168 5: ECN is the low two bits of the IPv4 TOS and of the IPv6 traffic
//= class
inline constexpr uint8_t kEcnMask = 0x03;
inline constexpr uint8_t kEcnCongestionExperienced = 0x03;
inline constexpr uint8_t kEcnCapable = 0x02;  // ECT(0)

//= RFC 791 3.1: the format of the IPv4 header (here without options)
//
//   0    3 4    7 8      15 16             31
//  |  4   | IHL  |   TOS   |  total length    |
//  |   identification      |R|D|M| frag offset|  D don't fragment, M more
//  |     TTL     | protocol| header checksum  |
//  |             source address               |
//  |          destination address             |
struct Ipv4 {
  uint8_t version_ihl = 0x45;
  uint8_t tos = 0;
  Be<uint16_t> total_length;
  Be<uint16_t> identification;
  Be<uint16_t> flags_fragment;
  uint8_t ttl = 0;
  uint8_t protocol = 0;
  Be<uint16_t> checksum;
  Be<uint32_t> src;
  Be<uint32_t> dst;

  static constexpr uint16_t kDontFragment = 0x4000;
  // More-fragments and the offset: zero in a packet that is not a fragment.
  static constexpr uint16_t kFragmentMask = 0x3fff;
  static constexpr uint16_t kMoreFragments = 0x2000;

  uint32_t version() const { return version_ihl >> 4; }
  uint32_t header_bytes() const { return (version_ihl & 0x0fu) * 4; }
  bool is_fragment() const {
    return (flags_fragment.value() & kFragmentMask) != 0;
  }
  // In bytes: the field counts units of 8.
  uint32_t fragment_offset() const {
    return (flags_fragment.value() & 0x1fffu) * 8;
  }
  bool more_fragments() const {
    return (flags_fragment.value() & kMoreFragments) != 0;
  }
};
static_assert(sizeof(Ipv4) == 20 && alignof(Ipv4) == 1);
static_assert(offsetof(Ipv4, checksum) == 10 && offsetof(Ipv4, src) == 12);

}  // namespace urnic::wire
