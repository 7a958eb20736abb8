#pragma once

// A port belongs to one process, and each RNIC of a host has its own ordinal.
// Both are claimed by binding an abstract unix socket: the kernel releases the
// name when the process ends, however it ends. Abstract names belong to a
// network namespace, which is what "host" means here.

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace urnic {

inline constexpr unsigned kOrdinals = 8;

// Who opens the port: told to a second opener.
enum class PortMode : uint8_t { kEmbedded, kService };

// Holds the claim until it is destroyed. A forked child lets go of its copies
// by itself. Any thread.
class PortClaim {
 public:
  // `identity` as in PortSpec; "loop" is no resource and only takes an
  // ordinal. ALREADY_EXISTS (errno EBUSY) names the holder's pid and mode.
  // RESOURCE_EXHAUSTED: all ordinals of this namespace are taken.
  static absl::StatusOr<PortClaim> Take(std::string_view identity,
                                        PortMode mode);

  PortClaim() = default;
  ~PortClaim();
  PortClaim(PortClaim&& other) noexcept { *this = std::move(other); }
  PortClaim& operator=(PortClaim&& other) noexcept;

  // 0..7.
  unsigned ordinal() const { return ordinal_; }

 private:
  absl::Status TakePort(std::string_view identity, PortMode mode);
  absl::Status TakeOrdinal();

  int lock_fd_ = -1;
  int mode_fd_ = -1;
  int ordinal_fd_ = -1;
  unsigned ordinal_ = 0;
};

}  // namespace urnic
