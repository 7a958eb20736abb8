#pragma once

// Explicit congestion notification in a whole Ethernet frame: what a router
// does that marks instead of dropping. VLAN tags are passed over; anything but
// IPv4 and IPv6 knows no ECN.

#include <cstdint>
#include <span>

namespace urnic::impair {

// Do the frame's ends understand ECN: ECT(0), ECT(1), or marked already?
bool IsEct(std::span<const uint8_t> frame);

// Sets "congestion experienced"; the checksum of an IPv4 header stays as right
// or wrong as it was. REQUIRES: IsEct(frame)
void MarkCe(std::span<uint8_t> frame);

}  // namespace urnic::impair
