#pragma once

// Addresses as people write them. Not for the packet path: it allocates.

#include <cstdint>
#include <string>

#include "transport/wire/address.h"

namespace urnic::wire {

// "10.0.0.1" or "fe80::1".
std::string IpText(const Gid& gid);
// "10.0.0.1:4420" or "[fe80::1]:4420".
std::string SocketText(const Gid& gid, uint16_t port);
// "02:00:00:00:00:01".
std::string MacText(const MacAddress& mac);

}  // namespace urnic::wire
