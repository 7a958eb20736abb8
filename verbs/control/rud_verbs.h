#pragma once

// Functions for the RUD windows of a program: peers, groups and contexts. Qp
// creates and destroys windows, and RudMemory registers memory. Any thread.
// REQUIRES: qp.rud() != nullptr

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/rud/membership.h"
#include "verbs/control/qp.h"

namespace urnic::control {

// A window of a peer, or a group.
struct RudPeerRequest {
  AddressVector address;
  uint32_t window = 0;  // of a group: 0
  uint32_t key = 0;     // its protection key
};

// From now on the window may send to this peer and accepts its packets. Returns
// the peer's number for urnic_rud_send.peer. Waits for the peer's MAC address,
// as Qp::Modify() with an address vector, and has the same errors.
// ALREADY_EXISTS: it is already a peer. RESOURCE_EXHAUSTED:
// RudWindow::kMaxPeers. INVALID_ARGUMENT: `window` is not 0 for a group, or 0
// for a window.
absl::StatusOr<uint32_t> AddRudPeer(Qp& qp, const RudPeerRequest& request);
// Also leaves the groups that the window has joined for this peer.
// INVALID_ARGUMENT: it is not a peer.
absl::Status RemoveRudPeer(Qp& qp, uint32_t number);

// Contexts of one group.
inline constexpr uint32_t kMaxRudGroupContexts = 4096;

// From now on the window accepts what this peer sends to the group.
// INVALID_ARGUMENT: not the address of a group, no such peer, or contexts that
// do not belong to the window. ALREADY_EXISTS: it has joined for this peer
// before. RESOURCE_EXHAUSTED: RudWindow::kMaxGroups, or a limit of
// Network::JoinGroup(). REQUIRES: at most kMaxRudGroupContexts contexts.
absl::Status JoinRudGroup(Qp& qp, const wire::Gid& group, uint32_t peer,
                          const rud::Membership& as);
// INVALID_ARGUMENT: the window is not in the group for this peer.
absl::Status LeaveRudGroup(Qp& qp, const wire::Gid& group, uint32_t peer);

// Fills all of `contexts`. RESOURCE_EXHAUSTED: the RNIC has fewer free
// contexts, and gives none.
absl::Status AcquireRudContexts(Qp& qp, std::span<uint64_t> contexts);
// Ends what the context is doing. INVALID_ARGUMENT: it does not belong to the
// window.
absl::Status ReleaseRudContext(Qp& qp, uint64_t context);

}  // namespace urnic::control
