#pragma once

// Explicit congestion notification in a whole Ethernet frame: the work of a
// router that marks instead of dropping. VLAN tags are skipped. Only IPv4 and
// IPv6 have ECN.

#include <cstdint>
#include <span>

namespace urnic::impair {

// Whether the frame's ends support ECN: ECT(0), ECT(1), or already marked.
bool IsEct(std::span<const uint8_t> frame);

// Sets "congestion experienced"; a correct IPv4 header checksum stays correct,
// and a wrong one wrong. REQUIRES: IsEct(frame)
void MarkCe(std::span<uint8_t> frame);

}  // namespace urnic::impair
