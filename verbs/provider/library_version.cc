#include "verbs/provider/library_version.h"

#include <dlfcn.h>

#include <iterator>

#include "verbs/control/debug_log.h"
#include "verbs/provider/rdmav34.h"

namespace urnic::provider {

namespace {

// One symbol that was new in each version.
constexpr struct {
  const char* version;
  const char* symbol;
} kVersions[] = {
    {"IBVERBS_1.1", "ibv_get_device_list"},
    {"IBVERBS_1.5", "ibv_get_pkey_index"},
    {"IBVERBS_1.11", "_ibv_query_gid_ex"},
    {"IBVERBS_1.12", "ibv_reg_dmabuf_mr"},
    {"IBVERBS_1.13", "ibv_import_dm"},
    {"IBVERBS_1.14", "ibv_query_qp_data_in_order"},
    {"IBVERBS_1.15", "ibv_reg_mr_ex"},
    {"IBVERBS_1.16", "ibv_query_port_speed"},
    {"IBVERBS_1.17", "ibv_alloc_buf"},
    {"IBVERBS_1.18", "ibv_create_comp_cntr"},
};

}  // namespace

std::string NewestPublicVersion(void* handle) {
  for (size_t i = std::size(kVersions); i-- > 0;) {
    if (dlvsym(handle, kVersions[i].symbol, kVersions[i].version) != nullptr) {
      return kVersions[i].version;
    }
  }
  return "";
}

bool LibraryIsSupported() {
  // Not RTLD_DEFAULT: programs such as NCCL load the library for themselves.
  Dl_info info = {};
  void* handle = nullptr;
  const auto symbol = reinterpret_cast<void*>(&verbs_register_driver_34);
  if (dladdr(symbol, &info) != 0) {
    handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  std::string version;
  if (handle != nullptr) {
    version = NewestPublicVersion(handle);
    dlclose(handle);
  }
  if (version == kSupportedVersion) return true;
  if (version.empty()) version = "no known version";
  control::ComplainLoudly(
      std::string(info.dli_fname != nullptr ? info.dli_fname : "libibverbs") +
      " offers " + version + ", this provider is built for " +
      kSupportedVersion + " (rdma-core 36 to 56): its devices stay hidden");
  return false;
}

}  // namespace urnic::provider
