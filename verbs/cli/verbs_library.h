#pragma once

// Finds the libibverbs that a program on this machine would load.

#include <string>

#include "absl/status/statusor.h"
#include "verbs/libc/library_version.h"

namespace urnic {

struct VerbsLibrary {
  std::string path;      // symbolic links resolved
  int newest_minor = 0;  // n of the newest IBVERBS_1.<n>
  int private_abi = 0;   // IBVERBS_PRIVATE_<n>, the plugin suffix
};

// NotFound when libibverbs.so.1 cannot be loaded.
absl::StatusOr<VerbsLibrary> ProbeVerbsLibrary();

inline bool IsSupported(const VerbsLibrary& library) {
  return library.newest_minor == URNIC_VERBS_MINOR &&
         library.private_abi == URNIC_VERBS_PRIVATE;
}

}  // namespace urnic
