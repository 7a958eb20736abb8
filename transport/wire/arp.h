#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/address.h"
#include "transport/wire/be.h"

namespace urnic::wire {

inline constexpr uint16_t kArpHardwareEthernet = 1;
inline constexpr uint16_t kArpRequest = 1;
inline constexpr uint16_t kArpReply = 2;

//= RFC 826: the format of an ARP packet for IPv4 over Ethernet
//
//  | hardware type (1) |   protocol (0x0800)  |
//  | 6       | 4       |      operation       |
//  |  sender MAC (6)   |   sender IPv4 (4)    |
//  |  target MAC (6)   |   target IPv4 (4)    |
struct Arp {
  Be<uint16_t> hardware_type;
  Be<uint16_t> protocol_type;
  uint8_t hardware_bytes = 6;
  uint8_t protocol_bytes = 4;
  Be<uint16_t> operation;
  MacAddress sender_mac;
  Be<uint32_t> sender_ip;
  MacAddress target_mac;
  Be<uint32_t> target_ip;
};
static_assert(sizeof(Arp) == 28 && alignof(Arp) == 1);
static_assert(offsetof(Arp, sender_mac) == 8 && offsetof(Arp, sender_ip) == 14);
static_assert(offsetof(Arp, target_ip) == 24);

}  // namespace urnic::wire
