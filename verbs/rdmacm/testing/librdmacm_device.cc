#include "verbs/rdmacm/testing/librdmacm_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "transport/base/check.h"
#include "verbs/identity/device_identity.h"
#include "verbs/preload/preload_api.h"
#include "verbs/rdmacm/device_files.h"
#include "verbs/rdmacm/random.h"
#include "verbs/rdmacm/testing/fake_network.h"

namespace urnic::rdmacm {

namespace {

struct TrustingMemory final : UserMemory {
  bool Read(void* to, uint64_t from, size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return true;
  }
  bool Write(uint64_t to, const void* from, size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return true;
  }
};

// Lives as long as the process, like the real device.
struct World {
  FakeNetwork network;
  std::vector<std::unique_ptr<FakeRnic>> rnics;
  TrustingMemory memory;
  std::unique_ptr<Service> service;
  std::unique_ptr<DeviceFiles> files;
};
World* world;

void AddRnic(const urnic_device_identity& identity) {
  RnicInfo info;
  info.name = identity.name;
  std::copy_n(identity.node_guid, 8, info.node_guid.begin());
  std::vector<RnicAddress> addresses;
  for (uint32_t i = 0; i < URNIC_GID_TABLE_LEN; ++i) {
    const urnic_gid_entry& entry = identity.gids[i];
    if (entry.type != URNIC_GID_ROCE_V2) continue;
    const wire::Gid gid = wire::Gid::FromIpv6(entry.gid);
    const uint8_t bits = gid.is_ipv4() ? 96 + 24 : 64;
    addresses.push_back({.gid = gid,
                         .gid_index = static_cast<uint8_t>(i),
                         .prefix_bits = bits,
                         .gid_index_v1 = static_cast<uint8_t>(i - 1)});
  }
  world->rnics.push_back(
      std::make_unique<FakeRnic>(world->network, info, addresses));
}

}  // namespace

void InstallLibrdmacmDevice() {
  const auto* preload = static_cast<const urnic_preload_api*>(
      dlsym(RTLD_DEFAULT, URNIC_PRELOAD_SYMBOL));
  URNIC_CHECK(preload != nullptr);
  world = new World;
  std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
  char error[256];
  const int count =
      urnic_device_identity_from_env(identities.data(), error, sizeof(error));
  std::vector<Rnic*> rnics;
  for (int i = 0; i < count; ++i) {
    AddRnic(identities[static_cast<size_t>(i)]);
    rnics.push_back(world->rnics.back().get());
  }
  world->service = std::make_unique<Service>(rnics, RandomKey());
  world->files =
      std::make_unique<DeviceFiles>(*world->service, world->memory, *preload);
  static constexpr urnic_rdma_cm_device kDevice = {
      .open = [](void* node) { return world->files->Open(node); },
      .write =
          [](void* file, const void* command, size_t bytes) {
            return world->files->Write(file, command, bytes);
          },
      .close = [](void* file) { world->files->Close(file); },
  };
  URNIC_CHECK(preload->set_rdma_cm_device(&kDevice) == 0);
  std::thread([] {
    for (;;) world->network.WaitAndDeliver();
  }).detach();
}

}  // namespace urnic::rdmacm
