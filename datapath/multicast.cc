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

// RFC 2236 8.10, RFC 2710 7.10: when a first report is repeated, at the latest.
constexpr Duration kUnsolicitedReportInterval = Duration::Seconds(10);
// RFC 2236 8.11
constexpr Duration kVersion1RouterTimeout = Duration::Seconds(400);

//= RFC2236 s6, RFC2710 s5: the group of all hosts is never reported
bool IsReported(const wire::Gid& group) {
  wire::Gid all_nodes;
  all_nodes.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return !(group == all_nodes) && !(group == wire::Gid::FromIpv4(0xe0000001));
}

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
    const Time now = Now();
    ReportMembership(group, /*joined=*/true, now);
    // The first may have been lost.
    at->report_at = now + RandomDelay(kUnsolicitedReportInterval);
    SetReportDeadline();
  } else if (std::find(at->members.begin(), at->members.end(), &qp) !=
             at->members.end()) {
    return absl::OkStatus();
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
    ReportMembership(group, /*joined=*/false, Now());
    groups_.erase(at);
    SetReportDeadline();
  }
  return true;
}

bool Engine::IsInGroup(const EngineQp& qp) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const auto& group) {
    return std::find(group.members.begin(), group.members.end(), &qp) !=
           group.members.end();
  });
}

void Engine::LeaveAllGroups(EngineQp& qp) {
  for (size_t i = groups_.size(); i-- > 0;) {
    const wire::Gid group = groups_[i].gid;
    LeaveGroup(qp, group);
  }
}

void Engine::ReportMembership(const wire::Gid& group, bool joined, Time now) {
  if (!IsReported(group)) return;
  auto message = joined ? wire::MembershipMessage::kReport
                        : wire::MembershipMessage::kLeave;
  if (group.is_ipv4() && now < igmp_v1_until_) {
    if (!joined) return;  // no such message in version 1
    message = wire::MembershipMessage::kReportIgmpV1;
  }
  // From an address of the group's family; IPv6 from the link-local one (RFC
  // 2710 3), which is the first of its family.
  for (const wire::Gid& local : local_gids_) {
    if (local.is_ipv4() != group.is_ipv4()) continue;
    wire::MacAddress mac;
    mac.bytes = port_->mac();
    if (const auto frame = tx_.ControlFrame(); !frame.empty()) {
      tx_.SendControl(wire::EmitMembership(mac, local, group, message, frame));
    }
    return;
  }
}

//= RFC2236 s3, RFC2710 s4: a random moment within what the querier allows,
//= sooner than one that is set already; whoever hears another member's report
//= keeps silent
RxVerdict Engine::OnMembership(std::span<const uint8_t> frame,
                               RxVerdict otherwise, Time now) {
  wire::MembershipInfo info;
  const RxVerdict verdict = wire::ParseMembership(frame, info);
  if (verdict == RxVerdict::kNotRoce) return otherwise;
  if (verdict != RxVerdict::kMembership) return verdict;
  using Kind = wire::MembershipInfo::Kind;
  if (info.kind == Kind::kQuery && info.igmp_v1) {
    igmp_v1_until_ = now + kVersion1RouterTimeout;
  }
  for (MulticastGroup& group : groups_) {
    const bool meant = info.general ? group.gid.is_ipv4() != info.ipv6
                                    : group.gid == info.group;
    if (!meant || !IsReported(group.gid)) continue;
    if (info.kind == Kind::kReport) {
      group.report_at = Time::Infinite();
    } else if (info.kind == Kind::kQuery) {
      group.report_at =
          std::min(group.report_at, now + RandomDelay(info.max_delay));
    }
  }
  SetReportDeadline();
  return verdict;
}

void Engine::SendDueReports(Time now) {
  for (MulticastGroup& group : groups_) {
    if (now < group.report_at) continue;
    group.report_at = Time::Infinite();
    ReportMembership(group.gid, /*joined=*/true, now);
  }
  SetReportDeadline();
}

void Engine::SetReportDeadline() {
  report_deadline_ = Time::Infinite();
  for (const MulticastGroup& group : groups_) {
    report_deadline_ = std::min(report_deadline_, group.report_at);
  }
  SetControlDeadline();
}

// xorshift64, Marsaglia 2003: that hosts do not answer all at once needs no
// more.
Duration Engine::RandomDelay(Duration limit) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const int64_t range = std::max<int64_t>(limit.ns(), 1);
  return Duration::Nanoseconds(
      1 + static_cast<int64_t>(random_ % static_cast<uint64_t>(range)));
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
  if (!joined || tx_.loop_room() == 0) return;
  rte_mbuf* copy = rte_pktmbuf_copy(frame, port_->pool(), 0, UINT32_MAX);
  if (copy != nullptr) tx_.PushToOurselves(copy);
}

}  // namespace urnic
