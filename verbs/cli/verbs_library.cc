#include "verbs/cli/verbs_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace urnic {

absl::StatusOr<VerbsLibrary> ProbeVerbsLibrary() {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(dlerror());
  VerbsLibrary found;
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
    std::error_code error;
    found.path = std::filesystem::canonical(map->l_name, error).string();
  }
  found.version = urnic_verbs_version_of(library);
  dlclose(library);
  return found;
}

}  // namespace urnic
