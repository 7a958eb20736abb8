#pragma once

#include <cstdint>

#include "transport/wire/be.h"

namespace urnic::wire {

inline constexpr uint16_t kRoceUdpPort = 4791;  // version 2; by IANA
// RUD (rud.h). IANA assigns no port of this range.
inline constexpr uint16_t kRudUdpPort = 54791;

//= RFC 768: the length counts the UDP header and the payload
struct Udp {
  Be<uint16_t> src_port;
  Be<uint16_t> dst_port;
  Be<uint16_t> length;
  Be<uint16_t> checksum;
};
static_assert(sizeof(Udp) == 8 && alignof(Udp) == 1);

}  // namespace urnic::wire
