#pragma once

// The queue pairs, or windows of RUD, that get the packets of each multicast
// group. (transport/net/membership.h tells the network about groups.) Token
// holder only. MembersOf() is on the packet path: one lookup, however many
// groups there are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "transport/base/hash_index.h"
#include "transport/wire/address.h"

namespace urnic {

class RoceQp;
class RudWindow;

template <typename Qp>
class GroupsOf {
 public:
  static constexpr uint32_t kMaxGroups = 1u << 13;
  static constexpr uint32_t kMaxMembers = 1u << 8;

  // `salt`: random, see HashKey(). The sender chooses the group of a datagram.
  explicit GroupsOf(uint64_t salt) : groups_(0, Hash{salt}) {}

  // Adds a member; a second call has no effect. True: it is the first member of
  // the group. INVALID_ARGUMENT: not a multicast GID; RESOURCE_EXHAUSTED: the
  // group has kMaxMembers members, or there are kMaxGroups groups.
  absl::StatusOr<bool> Join(Qp& qp, const wire::Gid& gid) {
    if (!gid.is_multicast()) {
      return Refusal(ErrorCode::kBadAddress, "the GID is not a multicast GID");
    }
    const auto at = groups_.find(gid);
    if (at == groups_.end()) {
      if (groups_.size() == kMaxGroups) {
        return Refusal(
            ErrorCode::kNoPlace,
            absl::StrCat("all ", kMaxGroups, " multicast groups are in use"));
      }
      groups_.emplace(gid, Members{&qp});
      return true;
    }
    Members& members = at->second;
    if (Contains(members, qp)) return false;
    if (members.size() == kMaxMembers) {
      return Refusal(ErrorCode::kNoPlace,
                     absl::StrCat("the multicast group has ", kMaxMembers,
                                  " queue pairs"));
    }
    members.push_back(&qp);
    return false;
  }

  enum class Left { kNotMember, kOthersStay, kGroupEmpty };
  Left Leave(Qp& qp, const wire::Gid& gid) {
    const auto at = groups_.find(gid);
    if (at == groups_.end() || std::erase(at->second, &qp) == 0) {
      return Left::kNotMember;
    }
    if (!at->second.empty()) return Left::kOthersStay;
    groups_.erase(at);
    return Left::kGroupEmpty;
  }

  // Whether `qp` is a member of any group. Looks at all groups.
  bool IsMember(const Qp& qp) const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const auto& group) {
      return Contains(group.second, qp);
    });
  }
  // The groups of the queue pair, in no order. Looks at all groups.
  std::vector<wire::Gid> AllOf(const Qp& qp) const {
    std::vector<wire::Gid> found;
    for (const auto& [gid, members] : groups_) {
      if (Contains(members, qp)) found.push_back(gid);
    }
    return found;
  }

  // In the order in which they joined; empty: the group has no members.
  std::span<Qp* const> MembersOf(const wire::Gid& gid) const {
    const auto at = groups_.find(gid);
    if (at == groups_.end()) return {};
    return at->second;
  }

 private:
  using Members = std::vector<Qp*>;
  struct Hash {
    uint64_t salt;
    size_t operator()(const wire::Gid& gid) const {
      return HashKey(salt, gid.word(0), gid.word(1));
    }
  };

  static bool Contains(const Members& members, const Qp& qp) {
    return std::find(members.begin(), members.end(), &qp) != members.end();
  }

  std::unordered_map<wire::Gid, Members, Hash> groups_;
};

using Groups = GroupsOf<RoceQp>;
using RudGroups = GroupsOf<RudWindow>;

}  // namespace urnic
