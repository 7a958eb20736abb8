#pragma once

// A port belongs to one process, and each RNIC of a host has its own ordinal of
// kOrdinals (transport/base/numbers.h). Both are claimed by binding an abstract
// unix socket: the kernel releases the name when the process ends in any way.
// Abstract names belong to a network namespace; "host" means a network
// namespace here.
//
// Any user may bind such a name. If a user without a right to the port
// (urnic_claim_has_right()) holds the name, the claim uses a second name with a
// random part, which no one can hold in advance. So an opener first binds a
// name, and then looks at all names of that port in the kernel's list of
// sockets. If another holder has the right, the opener gives way: of two
// openers, at least the one that bound last sees the other. If the kernel has
// no such list, the plain name alone decides. The right to an interface comes
// from a packet socket on it, which is opened before the name is bound, so no
// opener ignores an RNIC that is still starting.
//
// Every user has a right to an ordinal. If all are taken, an RNIC shares one
// that belongs neither to root nor to its own user.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/base/numbers.h"
#include "verbs/libc/claim_holders.h"

namespace urnic {

// Holds the claim until it is destroyed. A forked child releases its copies
// automatically. Any thread.
class PortClaim {
 public:
  // `identity` as in PortSpec; "loop" is not a resource and only takes an
  // ordinal. ALREADY_EXISTS (errno EBUSY) names the holder's pid, or why it is
  // not known. RESOURCE_EXHAUSTED: all ordinals of this namespace are taken.
  static absl::StatusOr<PortClaim> Take(std::string_view identity);

  PortClaim() = default;
  ~PortClaim();
  PortClaim(PortClaim&& other) noexcept { *this = std::move(other); }
  PortClaim& operator=(PortClaim&& other) noexcept;

  // 0..7.
  unsigned ordinal() const { return ordinal_; }
  // One line for each ignored name: its owner, and what to do.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  absl::Status TakePort(const std::string& identity);
  absl::Status TakeOrdinal();

  int right_fd_ = -1;
  int lock_fd_ = -1;
  int ordinal_fd_ = -1;
  unsigned ordinal_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace urnic
