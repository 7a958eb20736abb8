#pragma once

// Messages that tell the network which multicast groups a host is in: IGMPv1,
// IGMPv2 and MLDv1, which all queriers and snooping switches understand.
// Queries of later versions are read as well, without their lists of sources.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic::wire {

// Room for any message, padded to Ethernet's minimum.
inline constexpr size_t kMembershipFrameBytes = 96;

enum class MembershipMessage : uint8_t {
  kReport,
  kReportIgmpV1,  // while there is a querier of that version; IPv4 only
  kLeave,         // MLD: done
};

// A message about `group` from `local`, with an 802.1Q tag if there is one.
// Returns the frame's length. REQUIRES: group.is_multicast(); local.is_ipv4()
// == group.is_ipv4(); out.size() >= kMembershipFrameBytes.
[[nodiscard]] size_t EmitMembership(
    const MacAddress& mac, const Gid& local, const Gid& group,
    MembershipMessage message, std::span<uint8_t> out,
    const std::optional<uint16_t>& vlan_tci = std::nullopt);

// A message about groups from another host.
struct MembershipInfo {
  enum class Kind : uint8_t { kOther, kQuery, kReport };
  Kind kind = Kind::kOther;
  bool ipv6 = false;
  bool igmp_v1 = false;  // kQuery: from a querier of no later version
  // kQuery: for all groups, else for `group`.
  bool general = false;
  Gid group;  // IPv4 groups as ::ffff:a.b.c.d
  // kQuery: answer at a random moment within this time.
  Duration max_delay;
};

// kMembership: a frame that carries IGMP or MLD. kNotRoce: any other frame, or
// one with a header that neither uses. kBadMembership: a wrong checksum, length
// or source. `out` is complete with kMembership only.
[[nodiscard]] RxVerdict ParseMembership(std::span<const uint8_t> frame,
                                        MembershipInfo& out);

}  // namespace urnic::wire
