#include "verbs/provider/library_version.h"

#include <dlfcn.h>

#include <string>

#include "verbs/control/debug_log.h"
#include "verbs/libc/library_version.h"
#include "verbs/provider/rdmav34.h"

namespace urnic::provider {

namespace {

std::string Version(int minor) { return "IBVERBS_1." + std::to_string(minor); }

}  // namespace

bool LibraryIsSupported() {
  // Not RTLD_DEFAULT: programs such as NCCL load the library for themselves.
  Dl_info info = {};
  void* handle = nullptr;
  const auto symbol = reinterpret_cast<void*>(&verbs_register_driver_34);
  if (dladdr(symbol, &info) != 0) {
    handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  int newest = 0;
  if (handle != nullptr) {
    newest = urnic_verbs_newest_minor(handle);
    dlclose(handle);
  }
  if (newest == URNIC_VERBS_MINOR) return true;
  control::ComplainLoudly(
      std::string(info.dli_fname != nullptr ? info.dli_fname : "libibverbs") +
      " offers " + (newest == 0 ? "no known version" : Version(newest)) +
      ", this provider is built for " + Version(URNIC_VERBS_MINOR) +
      " (" URNIC_VERBS_RELEASES "): its devices stay hidden");
  return false;
}

}  // namespace urnic::provider
