#include "datapath/port/socket_trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

constexpr char kHarm[] =
    "a peer on this kind of port can take over the program (docs/trust.md)";

// connect(2) requires write permission on the socket and search permission on
// its directory. The directories above it may exclude others, too.
bool OthersMayConnect(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == path.npos ? "."
                                : slash == 0       ? "/"
                                                   : path.substr(0, slash);
  struct stat file = {};
  struct stat above = {};
  if (stat(path.c_str(), &file) != 0 || stat(directory.c_str(), &above) != 0) {
    return false;
  }
  const auto both = [&](mode_t write, mode_t search) {
    return (file.st_mode & write) != 0 && (above.st_mode & search) != 0;
  };
  return both(S_IWOTH, S_IXOTH) || both(S_IWGRP, S_IXGRP);
}

}  // namespace

std::string WhoElseMayJoin(const PortSpec& spec) {
  if (spec.kind != PortKind::kMemif && spec.kind != PortKind::kVirtioUser) {
    return "";
  }
  const std::string& path = spec.socket_path;
  if (path.empty()) {
    return absl::StrCat(
        "any user of this network namespace may join the "
        "abstract socket ",
        spec.socket, "; ", kHarm, ": use a file, socket=PATH");
  }
  struct stat file = {};
  if (spec.listens) {
    if (!OthersMayConnect(path)) return "";
    return absl::StrCat("other users may connect to ", path, "; ", kHarm);
  }
  if (stat(path.c_str(), &file) != 0 || file.st_uid == 0 ||
      file.st_uid == geteuid()) {
    return "";
  }
  return absl::StrCat("the peer's socket ", path, " belongs to user ",
                      file.st_uid, "; ", kHarm);
}

}  // namespace urnic
