#pragma once

// Tells the network about the multicast groups that we are in: the host's half
// of IGMP and MLD. It does not know which queue pairs are in a group.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/random.h"
#include "transport/base/time.h"
#include "transport/net/addresses.h"
#include "transport/net/frame_sink.h"
#include "transport/wire/address.h"
#include "transport/wire/membership.h"

namespace urnic::net {

class Membership {
 public:
  struct Config {
    wire::MacAddress mac;
    uint16_t vlan = 0;  // net/vlan.h
    size_t max_groups = 1u << 13;
    uint64_t seed = 0;  // of the delays of reports
  };

  // `addresses` belong to the host and outlive this object.
  Membership(const Config& config, const LocalAddresses* addresses);

  // Call this for the first local member. The network is told immediately and,
  // because that message may be lost, once more within 10 s. False: there are
  // max_groups already. A second call has no effect. REQUIRES:
  // group.is_multicast()
  bool Join(const wire::Gid& group, Time now, FrameSink& sink);
  // Call this when the last local member leaves.
  void Leave(const wire::Gid& group, Time now, FrameSink& sink);

  bool IsMember(const wire::Gid& group) const;

  // Handles a frame that no other part uses. Queries are answered at a random
  // moment within the time that they allow. Returns kMembership or
  // kBadMembership; `otherwise` for a frame that is neither IGMP nor MLD.
  RxVerdict OnFrame(std::span<const uint8_t> frame, RxVerdict otherwise,
                    Time now);

  void OnTimer(Time now, FrameSink& sink);
  Time NextDeadline() const { return deadline_; }

 private:
  struct Group {
    wire::Gid gid;
    Time report_at;  // when the network is told again
  };

  std::vector<Group>::iterator Find(const wire::Gid& group);
  void Report(const wire::Gid& group, bool joined, Time now, FrameSink& sink);
  void SetDeadline();
  // In (0, limit].
  Duration RandomDelay(Duration limit);

  Config config_;
  const LocalAddresses* addresses_;
  std::vector<Group> groups_;
  Time deadline_ = Time::Infinite();  // the earliest of groups_
  // Until then we assume a querier of IGMP version 1.
  Time igmp_v1_until_;
  bool igmp_v1_ = false;
  Random random_;
};

}  // namespace urnic::net
