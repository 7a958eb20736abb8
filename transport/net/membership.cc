#include "transport/net/membership.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/net/vlan.h"

namespace urnic::net {
namespace {

//= RFC 2236 8.10, RFC 2710 7.10: a host repeats its first report within ten
//= seconds
constexpr Duration kUnsolicitedReportInterval = Duration::Seconds(10);
//= RFC 2236 8.11: a host remembers a querier of version 1 for 400 seconds
constexpr Duration kVersion1RouterTimeout = Duration::Seconds(400);

//= RFC 2236 6, RFC 2710 5: the group of all hosts is never reported
bool IsReported(const wire::Gid& group) {
  wire::Gid all_nodes;
  all_nodes.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return !(group == all_nodes) && !(group == wire::Gid::FromIpv4(0xe0000001));
}

}  // namespace

Membership::Membership(const Config& config, const LocalAddresses* addresses)
    : config_(config), addresses_(addresses), random_(config.seed) {}

std::vector<Membership::Group>::iterator Membership::Find(
    const wire::Gid& group) {
  return std::find_if(groups_.begin(), groups_.end(),
                      [&group](const Group& g) { return g.gid == group; });
}

bool Membership::Join(const wire::Gid& group, Time now, FrameSink& sink) {
  URNIC_CHECK(group.is_multicast());
  if (Find(group) != groups_.end()) return true;
  if (groups_.size() == config_.max_groups) return false;
  Report(group, /*joined=*/true, now, sink);
  groups_.push_back({group, now + RandomDelay(kUnsolicitedReportInterval)});
  SetDeadline();
  return true;
}

bool Membership::IsMember(const wire::Gid& group) const {
  return std::ranges::any_of(
      groups_, [&](const Group& each) { return each.gid == group; });
}

void Membership::Leave(const wire::Gid& group, Time now, FrameSink& sink) {
  const auto at = Find(group);
  if (at == groups_.end()) return;
  groups_.erase(at);
  SetDeadline();
  Report(group, /*joined=*/false, now, sink);
}

void Membership::Report(const wire::Gid& group, bool joined, Time now,
                        FrameSink& sink) {
  if (!IsReported(group)) return;
  auto message = joined ? wire::MembershipMessage::kReport
                        : wire::MembershipMessage::kLeave;
  if (group.is_ipv4() && igmp_v1_ && now < igmp_v1_until_) {
    if (!joined) return;  // version 1 has no such message
    message = wire::MembershipMessage::kReportIgmpV1;
  }
  // From an address of the group's family.
  //= RFC 2710 3: the source of an MLD message is a link-local address (the
  //= first IPv6 address of a host)
  const LocalAddress* local = addresses_->FirstLike(group);
  if (local == nullptr) return;
  const std::span<uint8_t> frame = sink.Frame();
  if (frame.empty()) return;
  sink.Send(wire::EmitMembership(config_.mac, local->gid, group, message, frame,
                                 VlanTci(config_.vlan, 0)),
            /*loopback=*/false);
}

//= RFC 2236 3, RFC 2710 4: a query makes a member report after a random delay,
//= unless a report is due earlier; a report of another member cancels it
RxVerdict Membership::OnFrame(std::span<const uint8_t> frame,
                              RxVerdict otherwise, Time now) {
  wire::MembershipInfo info;
  const RxVerdict verdict = wire::ParseMembership(frame, info);
  if (verdict == RxVerdict::kNotRoce) return otherwise;
  if (verdict != RxVerdict::kMembership) return verdict;
  using Kind = wire::MembershipInfo::Kind;
  if (info.kind == Kind::kQuery && info.igmp_v1) {
    igmp_v1_ = true;
    igmp_v1_until_ = now + kVersion1RouterTimeout;
  }
  for (Group& group : groups_) {
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
  SetDeadline();
  return verdict;
}

void Membership::OnTimer(Time now, FrameSink& sink) {
  if (now < deadline_) return;
  for (Group& group : groups_) {
    if (now < group.report_at) continue;
    group.report_at = Time::Infinite();
    Report(group.gid, /*joined=*/true, now, sink);
  }
  SetDeadline();
}

void Membership::SetDeadline() {
  deadline_ = Time::Infinite();
  for (const Group& group : groups_) {
    deadline_ = std::min(deadline_, group.report_at);
  }
}

// So that hosts do not all answer at the same time.
Duration Membership::RandomDelay(Duration limit) {
  const int64_t range = std::max<int64_t>(limit.ns(), 1);
  return Duration::Nanoseconds(
      1 + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(range))));
}

}  // namespace urnic::net
