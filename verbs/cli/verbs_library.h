#pragma once

// Which libibverbs this machine has. Its private interface to providers changes
// without a change of any name, so it is told by the newest public symbol
// version, which the provider checks as well.

#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct VerbsLibrary {
  std::string path;      // symbolic links resolved
  int newest_minor = 0;  // IBVERBS_1.<n>
  int private_abi = 0;   // IBVERBS_PRIVATE_<n>, the plugin suffix
};

// rdma-core v36 to v56.
inline constexpr int kSupportedNewestMinor = 14;
inline constexpr int kSupportedPrivateAbi = 34;

// NotFound when libibverbs.so.1 cannot be loaded.
absl::StatusOr<VerbsLibrary> ProbeVerbsLibrary();

inline bool IsSupported(const VerbsLibrary& library) {
  return library.newest_minor == kSupportedNewestMinor &&
         library.private_abi == kSupportedPrivateAbi;
}

}  // namespace urnic
