#pragma once

// Which libibverbs this machine has: the one that a program would load.

#include <string>

#include "absl/status/statusor.h"
#include "verbs/libc/library_version.h"

namespace urnic {

struct VerbsLibrary {
  std::string path;  // symbolic links resolved
  urnic_verbs_version version;
};

// NotFound when libibverbs.so.1 cannot be loaded.
absl::StatusOr<VerbsLibrary> ProbeVerbsLibrary();

}  // namespace urnic
