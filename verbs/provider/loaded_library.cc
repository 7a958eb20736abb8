#include "verbs/provider/loaded_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "transport/base/check.h"
#include "verbs/control/debug_log.h"
#include "verbs/libc/library_version.h"

namespace urnic::provider {

namespace {

using Operation = verbs_context_ops::Unused;

struct Library {
  int minor;
  void (*register_driver)(const verbs_device_ops* ops);
  // Returns a zeroed structure of `bytes` from malloc, with an initialized
  // verbs_context at `offset`. Owns cmd_fd, even if it fails.
  void* (*init_and_alloc_context)(ibv_device* device, int cmd_fd, size_t bytes,
                                  verbs_context* offset, uint32_t driver_id);
  // Closes cmd_fd and async_fd; the structure stays the caller's.
  void (*uninit_context)(verbs_context* context);
  // Copies the non-null entries of a table in the library's own order.
  void (*set_ops)(verbs_context* context, const Operation* operations);
};
constinit Library g_library = {};

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool FindFunctions(void* library, const urnic_verbs_version& version) {
  g_library.minor = version.newest_minor;
  const std::string register_driver =
      "verbs_register_driver_" + std::to_string(version.private_abi);
  return Find(library, register_driver.c_str(), g_library.register_driver) &&
         Find(library, "_verbs_init_and_alloc_context",
              g_library.init_and_alloc_context) &&
         Find(library, "verbs_uninit_context", g_library.uninit_context) &&
         Find(library, "verbs_set_ops", g_library.set_ops);
}

// From the beginning of a verbs_context to the part that programs use.
size_t BytesBeforePublicPart() {
  return VerbsContextBytes(g_library.minor) - sizeof(ibv_context);
}

}  // namespace

bool FindLibrary() {
  // The library that the loader has found for this plugin. RTLD_DEFAULT would
  // not do, because programs such as NCCL load another one for themselves.
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  urnic_verbs_version version = {};
  bool found = false;
  if (library != nullptr) {
    version = urnic_verbs_version_of(library);
    found =
        urnic_verbs_is_known(version) != 0 && FindFunctions(library, version);
    dlclose(library);
  }
  if (found) return true;
  char why[200];
  urnic_verbs_say_unknown(version, why, sizeof(why));
  control::ComplainLoudly(std::string("libibverbs: ") + why);
  return false;
}

void RegisterDriver(const verbs_device_ops* ops) {
  g_library.register_driver(ops);
}

verbs_context* NewVerbsContext(ibv_device* device, int cmd_fd,
                               size_t extra_bytes) {
  constexpr uint32_t kUnknownDriver = 0;
  const size_t bytes = VerbsContextBytes(g_library.minor);
  auto* context = static_cast<verbs_context*>(g_library.init_and_alloc_context(
      device, cmd_fd, bytes + extra_bytes, nullptr, kUnknownDriver));
  if (context == nullptr) return nullptr;
  // The size that the library itself has stored.
  size_t its_bytes = 0;
  std::memcpy(&its_bytes,
              reinterpret_cast<char*>(PublicPartOf(context)) - sizeof(size_t),
              sizeof(its_bytes));
  URNIC_CHECK(its_bytes == bytes);
  return context;
}

void DeleteVerbsContext(ibv_context* context) {
  auto* whole = reinterpret_cast<verbs_context*>(
      reinterpret_cast<char*>(context) - BytesBeforePublicPart());
  g_library.uninit_context(whole);
  std::free(whole);
}

ibv_context* PublicPartOf(verbs_context* context) {
  return reinterpret_cast<ibv_context*>(reinterpret_cast<char*>(context) +
                                        BytesBeforePublicPart());
}

void SetOperations(verbs_context* context, const verbs_context_ops& ops) {
  const auto* newest = reinterpret_cast<const Operation*>(&ops);
  Operation theirs[kOperations] = {};
  size_t count = 0;
  for (const size_t index : OperationsOf(g_library.minor)) {
    if (index != kOperations) theirs[count++] = newest[index];
  }
  g_library.set_ops(context, theirs);
}

}  // namespace urnic::provider
