#pragma once

// What a host tells the network when it joins a multicast group and when it
// leaves: IGMPv2 (RFC 2236) and MLDv1 (RFC 2710), which all queriers and
// snooping switches understand.

#include <cstddef>
#include <span>

#include "transport/wire/address.h"

namespace urnic::wire {

// Room for either message, padded to Ethernet's minimum.
inline constexpr size_t kMembershipFrameBytes = 96;

// A report (`joined`), or a leave or done message, about `group` from `local`.
// Returns the frame's length. REQUIRES: group.is_multicast();
// local.is_ipv4() == group.is_ipv4(); out.size() >= kMembershipFrameBytes.
[[nodiscard]] size_t EmitMembership(const MacAddress& mac, const Gid& local,
                                    const Gid& group, bool joined,
                                    std::span<uint8_t> out);

}  // namespace urnic::wire
