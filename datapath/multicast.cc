// Multicast groups of datagram queue pairs: who gets what, and what the network
// is told. Off the packet path.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "datapath/engine.h"
#include "transport/wire/icrc.h"
#include "transport/wire/membership.h"

namespace urnic {

namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;  // IBTA 9.8.3.4

}  // namespace

absl::Status Engine::JoinGroup(EngineQp& qp, const wire::Gid& group) {
  if (!group.is_multicast()) {
    return absl::InvalidArgumentError("the GID is no multicast GID");
  }
  auto at = std::find_if(groups_.begin(), groups_.end(),
                         [&](const auto& g) { return g.gid == group; });
  if (at == groups_.end()) {
    if (groups_.size() == kMaxGroups) {
      return absl::ResourceExhaustedError(
          absl::StrCat("all ", kMaxGroups, " multicast groups are in use"));
    }
    groups_.push_back({group, {}});
    at = groups_.end() - 1;
    ReportMembership(group, /*joined=*/true);
  } else if (at->members.size() == kMaxGroupMembers) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the multicast group has ", kMaxGroupMembers, " queue pairs"));
  }
  at->members.push_back(&qp);
  return absl::OkStatus();
}

bool Engine::LeaveGroup(EngineQp& qp, const wire::Gid& group) {
  const auto at = std::find_if(groups_.begin(), groups_.end(),
                               [&](const auto& g) { return g.gid == group; });
  if (at == groups_.end()) return false;
  const auto member = std::find(at->members.begin(), at->members.end(), &qp);
  if (member == at->members.end()) return false;
  at->members.erase(member);
  if (at->members.empty()) {
    ReportMembership(group, /*joined=*/false);
    groups_.erase(at);
  }
  return true;
}

void Engine::LeaveAllGroups(EngineQp& qp) {
  for (size_t i = groups_.size(); i-- > 0;) {
    const wire::Gid group = groups_[i].gid;
    while (LeaveGroup(qp, group)) {
    }
  }
}

void Engine::ReportMembership(const wire::Gid& group, bool joined) {
  // From an address of the group's family; IPv6 from the link-local one (RFC
  // 2710 3), which is the first of its family.
  for (const wire::Gid& local : local_gids_) {
    if (local.is_ipv4() != group.is_ipv4()) continue;
    wire::MacAddress mac;
    mac.bytes = port_->mac();
    if (const auto frame = ControlFrame(); !frame.empty()) {
      TransmitControl(wire::EmitMembership(mac, local, group, joined, frame),
                      /*loopback=*/false);
    }
    return;
  }
}

RxVerdict Engine::OnMulticast(const wire::FrameView& view,
                              const RxPacket& packet, Time now) {
  const auto group =
      std::find_if(groups_.begin(), groups_.end(),
                   [&](const auto& g) { return g.gid == view.dst; });
  if (group == groups_.end()) return RxVerdict::kNoMember;
  if (packet.bth->dest_qp().value != kMulticastQpn)
    return RxVerdict::kUnknownQp;
  if (packet.info->service != wire::Service::kUd) {
    return RxVerdict::kWrongTransport;
  }
  if (!wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes)) {
    return RxVerdict::kBadIcrc;
  }
  FinishRun(now);
  const bool ours = IsLocal(view.src);
  const EngineQp* last = nullptr;
  for (EngineQp* qp : group->members) {
    // Joined twice is served once, and nobody hears himself.
    if (qp == last || (ours && packet.deth().src_qp().value == qp->qpn()) ||
        !PkeyMatches(packet.bth->pkey.value(), qp->config().pkey)) {
      continue;
    }
    last = qp;
    run_.qp = qp;
    run_.packets[0] = packet;
    run_.count = 1;
    FinishRun(now);
  }
  return RxVerdict::kMulticast;
}

void Engine::LoopMulticast(const Path& path, const rte_mbuf* frame) {
  const bool joined =
      std::any_of(groups_.begin(), groups_.end(),
                  [&](const auto& g) { return g.gid == path.remote; });
  if (!joined || loop_count_ == std::size(loop_)) return;
  rte_mbuf* copy = rte_pktmbuf_copy(frame, port_->pool(), 0, UINT32_MAX);
  if (copy != nullptr) loop_[loop_count_++] = copy;
}

}  // namespace urnic
