#pragma once

// Where the shared objects are: in ../lib beside this program, wherever the
// tree was copied to.

#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct InstallPaths {
  std::string preload;      // .../lib/liburnic-preload.so
  std::string ibv_drivers;  // .../lib/liburnic: libibverbs adds -rdmavNN.so
};

// NotFound when one is missing; InvalidArgument when the path cannot be said in
// LD_PRELOAD or IBV_DRIVERS, which separate by blanks, ':' and ';'.
absl::StatusOr<InstallPaths> FindInstallPaths();

}  // namespace urnic
