// Registers the provider with the libibverbs that has loaded it. Nothing else
// happens until a device is opened: listing devices holds a lock, and programs
// list devices that they do not use.

#include <cstdio>
#include <cstdlib>

#include "verbs/identity/device_identity.h"
#include "verbs/identity/device_kind.h"
#include "verbs/provider/context.h"
#include "verbs/provider/fresh_copy.h"
#include "verbs/provider/loaded_library.h"
#include "verbs/provider/rdma_cm_device.h"

namespace urnic::provider {

namespace {

verbs_device* AllocDevice(verbs_sysfs_dev*) {
  auto* const device =
      static_cast<verbs_device*>(std::calloc(1, sizeof(verbs_device)));
  if (device != nullptr) device->core_support = kCoreSupportOptionalMrAccess;
  return device;
}

void FreeDevice(verbs_device* device) { std::free(device); }

// Devices of every kind, by name. libibverbs keeps the pointers.
const verbs_match_ent* Matches() {
  static char names[URNIC_DEVICE_KINDS][48];
  static verbs_match_ent matches[URNIC_DEVICE_KINDS + 1];  // zeros at the end
  for (int i = 0; i < URNIC_DEVICE_KINDS; ++i) {
    std::snprintf(names[i], sizeof(names[i]), "rdma_device:N%s[0-9]*",
                  urnic_device_kinds[i].name_prefix);
    matches[i] = {nullptr, names[i], 0, 0, kVerbsMatchModalias};
  }
  return matches;
}

verbs_device_ops device_ops = {
    .name = "urnic",
    .match_min_abi_version = URNIC_PROVIDER_ABI,
    .match_max_abi_version = URNIC_PROVIDER_ABI,
    .match_table = nullptr,  // set by Register()
    .static_providers = nullptr,
    .match_device = nullptr,
    .alloc_context = OpenContext,
    .import_context = nullptr,
    .alloc_device = AllocDevice,
    .uninit_device = FreeDevice,
};

__attribute__((constructor)) void Register() {
  if (!FindLibrary() || KeepOrBeFreshCopy()) return;
  device_ops.match_table = Matches();
  RegisterDriver(&device_ops);
  OfferRdmaCmDevice();
}

__attribute__((destructor)) void AtExit() {
  BeginRdmaCmEnd();
  // Posted requests are sent first, then the ends of connections.
  control::OpenNic::FlushAll();
  LeaveRdmaCmPeers();
  control::OpenNic::FlushAll();
  control::OpenNic::AwaitHeldFrames();
  control::OpenNic::ReportAll();
}

}  // namespace

const Entry URNIC_PROVIDER_ENTRY = {.open = OpenContext,
                                    .rdma_cm = &kRdmaCmDevice};

}  // namespace urnic::provider
