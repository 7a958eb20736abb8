#include "verbs/cli/install_paths.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verbs/libc/library_version.h"

namespace urnic {

absl::StatusOr<std::string> OwnPath() {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return absl::NotFoundError(absl::StrCat("/proc/self/exe: ", error.message(),
                                            "; check that /proc is mounted"));
  return self.string();
}

absl::StatusOr<InstallPaths> FindInstallPaths() {
  const absl::StatusOr<std::string> own = OwnPath();
  if (!own.ok()) return own.status();
  const std::filesystem::path self = *own;
  const std::string lib = (self.parent_path().parent_path() / "lib").string();
  InstallPaths paths{.preload = lib + "/liburnic-preload.so",
                     .ibv_drivers = lib + "/liburnic"};
  std::vector<std::string> files = {paths.preload};
  for (const urnic_verbs_version& version : urnic_verbs_known) {
    files.push_back(
        absl::StrCat(paths.ibv_drivers, "-rdmav", version.private_abi, ".so"));
  }
  for (const std::string& file : files)
    if (access(file.c_str(), R_OK) != 0)
      return absl::NotFoundError(absl::StrCat(
          file,
          " is missing; the urnic command needs its lib directory next to its "
          "bin directory (./dev build makes both in out/)"));
  if (lib.find_first_of(" \t:;") != std::string::npos)
    return absl::InvalidArgumentError(
        absl::StrCat(lib,
                     ": LD_PRELOAD and IBV_DRIVERS cannot contain a path with "
                     "a blank, ':' or ';'; move the tree to another path"));
  return paths;
}

}  // namespace urnic
