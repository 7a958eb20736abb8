// Registers the provider with the libibverbs that has loaded it. Nothing else
// happens until a device is opened: listing devices holds a lock, and programs
// list devices that they do not use.

#include <cstdlib>

#include "verbs/identity/device_identity.h"
#include "verbs/provider/context.h"
#include "verbs/provider/fresh_copy.h"
#include "verbs/provider/library_version.h"
#include "verbs/provider/rdma_cm_device.h"

namespace urnic::provider {

namespace {

verbs_device* AllocDevice(verbs_sysfs_dev*) {
  return static_cast<verbs_device*>(std::calloc(1, sizeof(verbs_device)));
}

void FreeDevice(verbs_device* device) { std::free(device); }

constexpr verbs_match_ent kMatches[] = {
    {nullptr, "rdma_device:Nurnic[0-9]*", 0, 0, kVerbsMatchModalias},
    {nullptr, nullptr, 0, 0, 0},
};

constexpr verbs_device_ops kDeviceOps = {
    .name = "urnic",
    .match_min_abi_version = URNIC_PROVIDER_ABI,
    .match_max_abi_version = URNIC_PROVIDER_ABI,
    .match_table = kMatches,
    .static_providers = nullptr,
    .match_device = nullptr,
    .alloc_context = OpenContext,
    .import_context = nullptr,
    .alloc_device = AllocDevice,
    .uninit_device = FreeDevice,
};

__attribute__((constructor)) void Register() {
  if (!LibraryIsSupported() || KeepOrBeFreshCopy()) return;
  verbs_register_driver_34(&kDeviceOps);
  OfferRdmaCmDevice();
}

__attribute__((destructor)) void AtExit() {
  BeginRdmaCmEnd();
  // What was posted goes first, then the news that nothing more comes.
  control::Device::FlushAll();
  LeaveRdmaCmPeers();
  control::Device::FlushAll();
  control::Device::AwaitHeldFrames();
  control::Device::ReportAll();
}

}  // namespace

const Entry URNIC_PROVIDER_ENTRY = {.open = OpenContext,
                                    .rdma_cm = &kRdmaCmDevice};

}  // namespace urnic::provider
