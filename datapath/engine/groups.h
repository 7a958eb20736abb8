#pragma once

// The queue pairs that get the datagrams of each multicast group.
// transport/net/membership.h tells the network about groups. Off the packet
// path; token holder only.

#include <algorithm>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "transport/wire/address.h"

namespace urnic {

class EngineQp;

class Groups {
 public:
  static constexpr uint32_t kMaxGroups = 1u << 13;
  static constexpr uint32_t kMaxMembers = 1u << 8;

  // A second call has no effect. True: the group has its first member.
  // INVALID_ARGUMENT: not a multicast GID; RESOURCE_EXHAUSTED: the group has
  // kMaxMembers, or there are kMaxGroups.
  absl::StatusOr<bool> Join(EngineQp& qp, const wire::Gid& gid) {
    if (!gid.is_multicast()) {
      return absl::InvalidArgumentError("the GID is not a multicast GID");
    }
    const auto at = Find(gid);
    if (at == groups_.end()) {
      if (groups_.size() == kMaxGroups) {
        return absl::ResourceExhaustedError(
            absl::StrCat("all ", kMaxGroups, " multicast groups are in use"));
      }
      groups_.push_back({gid, {&qp}});
      return true;
    }
    if (std::find(at->members.begin(), at->members.end(), &qp) !=
        at->members.end()) {
      return false;
    }
    if (at->members.size() == kMaxMembers) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the multicast group has ", kMaxMembers, " queue pairs"));
    }
    at->members.push_back(&qp);
    return false;
  }

  enum class Left { kNotMember, kOthersStay, kGroupEmpty };
  Left Leave(EngineQp& qp, const wire::Gid& gid) {
    const auto at = Find(gid);
    if (at == groups_.end() || std::erase(at->members, &qp) == 0) {
      return Left::kNotMember;
    }
    if (!at->members.empty()) return Left::kOthersStay;
    groups_.erase(at);
    return Left::kGroupEmpty;
  }

  // One of the groups of the queue pair, or null.
  const wire::Gid* GroupOf(const EngineQp& qp) const {
    for (const Group& group : groups_) {
      if (std::find(group.members.begin(), group.members.end(), &qp) !=
          group.members.end()) {
        return &group.gid;
      }
    }
    return nullptr;
  }

  // Empty: nobody has joined.
  std::span<EngineQp* const> MembersOf(const wire::Gid& gid) {
    const auto at = Find(gid);
    if (at == groups_.end()) return {};
    return at->members;
  }

 private:
  struct Group {
    wire::Gid gid;
    std::vector<EngineQp*> members;
  };

  std::vector<Group>::iterator Find(const wire::Gid& gid) {
    return std::find_if(groups_.begin(), groups_.end(),
                        [&](const Group& group) { return group.gid == gid; });
  }

  std::vector<Group> groups_;
};

}  // namespace urnic
