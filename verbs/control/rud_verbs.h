#pragma once

// What a program asks of its windows of RUD, besides making and destroying
// them (Qp) and memory (RudMemory). Any thread. REQUIRES: qp.rud() != nullptr

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/rud/membership.h"
#include "verbs/control/qp.h"

namespace urnic::control {

// A window of a peer, as the peer has told its address; or a group.
struct RudPeerRequest {
  AddressVector address;
  uint32_t window = 0;  // of a group: 0
  uint32_t key = 0;     // its protection key
};

// From now on the window may send to that one, and takes its packets. Returns
// its number for urnic_rud_send.peer. Waits for the peer's MAC, as Qp::Modify()
// with an address vector, whose errors it has. ALREADY_EXISTS: it is a peer.
// RESOURCE_EXHAUSTED: RudWindow::kMaxPeers. INVALID_ARGUMENT: a group with a
// window.
absl::StatusOr<uint32_t> AddRudPeer(Qp& qp, const RudPeerRequest& request);
// Also leaves the groups in which the window hears it. INVALID_ARGUMENT: it is
// not a peer.
absl::Status RemoveRudPeer(Qp& qp, uint32_t number);

// Of one group.
inline constexpr uint32_t kMaxRudGroupContexts = 4096;

// From now on the window takes what this peer sends to the group.
// INVALID_ARGUMENT: not the address of a group, no such peer, contexts that are
// not the window's. ALREADY_EXISTS. RESOURCE_EXHAUSTED: RudWindow::kMaxGroups,
// or a limit of Network::JoinGroup(). REQUIRES: at most kMaxRudGroupContexts.
absl::Status JoinRudGroup(Qp& qp, const wire::Gid& group, uint32_t peer,
                          const rud::Membership& as);
// INVALID_ARGUMENT: the window is not in it.
absl::Status LeaveRudGroup(Qp& qp, const wire::Gid& group, uint32_t peer);

// Fills `contexts`, or none of them. RESOURCE_EXHAUSTED: the RNIC has not so
// many.
absl::Status AcquireRudContexts(Qp& qp, std::span<uint64_t> contexts);
// What it was doing ends. INVALID_ARGUMENT: it is not the window's.
absl::Status ReleaseRudContext(Qp& qp, uint64_t context);

}  // namespace urnic::control
