#pragma once

// Converts a program's address vector into the path of its packets.

#include <cstdint>

#include "absl/status/statusor.h"
#include "transport/net/path.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/qp_attributes.h"

namespace urnic::control {

class Device;

// INVALID_ARGUMENT: not global (RoCE needs the GID), a source index without a
// GID, a destination that is all zero, or another port than 1. A flow label is
// cut to 20 bits.
absl::StatusOr<net::PathQuery> MakePathRequest(const GidTable& gids,
                                               const AddressVector& vector,
                                               uint32_t local_qpn,
                                               uint32_t remote_qpn);

// The same, resolved: if the MAC of the next hop is unknown, asks for it and
// waits for up to three seconds. UNAVAILABLE: there is no route to the
// destination. DEADLINE_EXCEEDED: the next hop does not answer.
absl::StatusOr<net::Path> ResolvePath(Device& device,
                                      const AddressVector& vector,
                                      uint32_t local_qpn, uint32_t remote_qpn);

// The UDP source port, which routers and NICs hash to spread flows: 0xc000 to
// 0xffff. The mixing is that of Linux, so that captures look alike.
//= IBTA A17.9.1: the UDP source port is derived from the flow label or, if the
//= program chose none, from both queue pair numbers
uint16_t UdpSourcePort(uint32_t flow_label, uint32_t local_qpn,
                       uint32_t remote_qpn);

}  // namespace urnic::control
