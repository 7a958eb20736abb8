#include "verbs/cli/verbs_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

// A version's own name is a symbol of that version, with the value 0: only
// dlerror tells that from a version that does not exist.
bool HasVersion(void* library, const std::string& version) {
  dlerror();
  dlvsym(library, version.c_str(), version.c_str());
  return dlerror() == nullptr;
}

// The largest number for which "<prefix><number>" exists. Versions are not
// dense, so all up to a number far above today's are tried.
int Newest(void* library, const char* prefix) {
  constexpr int kHighest = 200;
  for (int i = kHighest; i > 0; --i)
    if (HasVersion(library, absl::StrCat(prefix, i))) return i;
  return 0;
}

}  // namespace

absl::StatusOr<VerbsLibrary> ProbeVerbsLibrary() {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(dlerror());
  VerbsLibrary found;
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
    std::error_code error;
    found.path = std::filesystem::canonical(map->l_name, error).string();
  }
  found.newest_minor = Newest(library, "IBVERBS_1.");
  found.private_abi = Newest(library, "IBVERBS_PRIVATE_");
  dlclose(library);
  return found;
}

}  // namespace urnic
