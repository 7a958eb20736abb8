#pragma once

// A port belongs to one process, and each RNIC of a host has its own ordinal of
// kOrdinals (transport/base/numbers.h).
// Both are claimed by binding an abstract unix socket: the kernel releases the
// name when the process ends, however it ends. Abstract names belong to a
// network namespace, which is what "host" means here.
//
// Any user may bind such a name. One that is held by a user without a right to
// the port (urnic_claim_has_right()) is passed over: the claim is then a name
// of ours behind it, with a random part that nobody can hold in advance. So
// whoever claims a port first binds a name, then looks at all names of that
// port in the kernel's list of sockets, and gives way to another who has the
// right: of two, at least the one who bound last sees the other. Where the
// kernel has no such list, the plain name alone decides. What gives the right
// to an interface, a packet socket on it, is there before the name is, so that
// nobody passes over an RNIC that is still starting.
//
// Ordinals have no owners: another user's RNIC has one by right. Only when all
// are taken, one that is not root's or our own user's is shared.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/base/numbers.h"
#include "verbs/libc/claim_holders.h"

namespace urnic {

// Who opens the port: told to a second opener.
enum class PortMode : uint8_t { kEmbedded, kService };

// Holds the claim until it is destroyed. A forked child lets go of its copies
// by itself. Any thread.
class PortClaim {
 public:
  // `identity` as in PortSpec; "loop" is no resource and only takes an
  // ordinal. ALREADY_EXISTS (errno EBUSY) names the holder's pid, or why it is
  // not known, and mode. RESOURCE_EXHAUSTED: all ordinals of this namespace are
  // taken.
  static absl::StatusOr<PortClaim> Take(std::string_view identity,
                                        PortMode mode);

  PortClaim() = default;
  ~PortClaim();
  PortClaim(PortClaim&& other) noexcept { *this = std::move(other); }
  PortClaim& operator=(PortClaim&& other) noexcept;

  // 0..7.
  unsigned ordinal() const { return ordinal_; }
  // One line for each name that was passed over: whose it is, and what to do.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  absl::Status TakePort(const std::string& identity, PortMode mode);
  absl::Status TakeOrdinal();

  int right_fd_ = -1;
  int lock_fd_ = -1;
  int mode_fd_ = -1;
  int ordinal_fd_ = -1;
  unsigned ordinal_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace urnic
