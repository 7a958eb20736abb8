#pragma once

// Where the shared objects are: in ../lib relative to this program's directory,
// wherever the tree was copied to.

#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct InstallPaths {
  std::string preload;      // .../lib/liburnic-preload.so
  std::string ibv_drivers;  // .../lib/liburnic: libibverbs adds -rdmavNN.so
};

// Of this program, without symbolic links.
absl::StatusOr<std::string> OwnPath();

// NotFound: one is missing (the provider has several names). InvalidArgument:
// LD_PRELOAD or IBV_DRIVERS cannot hold the path, because it contains one of
// their separators (blanks, ':' and ';').
absl::StatusOr<InstallPaths> FindInstallPaths();

}  // namespace urnic
