#include "verbs/provider/rdma_cm_device.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "datapath/memory/address_space.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/fork_guard.h"
#include "verbs/identity/device_identity.h"
#include "verbs/provider/context.h"
#include "verbs/provider/fresh_copy.h"
#include "verbs/rdmacm/device_files.h"
#include "verbs/rdmacm/engine_rnic.h"
#include "verbs/rdmacm/random.h"

namespace urnic::provider {

namespace {

class ProgramMemory final : public rdmacm::UserMemory {
 public:
  bool Read(void* to, uint64_t from, size_t bytes) override {
    return AddressSpace().Copy(to, reinterpret_cast<const void*>(from), bytes);
  }
  bool Write(uint64_t to, const void* from, size_t bytes) override {
    return AddressSpace().Copy(reinterpret_cast<void*>(to), from, bytes);
  }
};

// The state of rdma_cm, for the life of the process.
struct RdmaCm {
  ProgramMemory memory;
  std::vector<std::unique_ptr<rdmacm::EngineRnic>> rnics;
  std::unique_ptr<rdmacm::Service> service;
  std::unique_ptr<rdmacm::DeviceFiles> files;
};

// Null with errno if URNIC_PORTS is invalid.
RdmaCm* MakeRdmaCm() {
  std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
  char error[256] = "";
  const int count =
      urnic_device_identity_from_env(identities.data(), error, sizeof(error));
  if (count < 0) {
    control::ComplainLoudly(std::string("URNIC_PORTS: ") + error);
    errno = -count;
    return nullptr;
  }
  const control::ProgramHooks hooks = PreloadHooks();
  control::InstallForkGuard();
  InstallMemoryGuard(hooks.set_signal_hooks, hooks.chain_signal,
                     hooks.mask_changes);
  auto made = std::make_unique<RdmaCm>();
  std::vector<rdmacm::Rnic*> rnics;
  for (int i = 0; i < count; ++i) {
    made->rnics.push_back(std::make_unique<rdmacm::EngineRnic>(
        identities[static_cast<size_t>(i)], hooks));
    rnics.push_back(made->rnics.back().get());
  }
  made->service = std::make_unique<rdmacm::Service>(rnics, rdmacm::RandomKey());
  made->files = std::make_unique<rdmacm::DeviceFiles>(*made->service,
                                                      made->memory, *Preload());
  return made.release();
}

std::atomic<RdmaCm*> g_rdma_cm = nullptr;

constexpr control::ConnectionHooks kConnectionHooks = {
    .send_images =
        [](std::string_view device,
           const control::ControlSocket::Reply& reply) {
          return g_rdma_cm.load()->service->SendImages(device, reply);
        },
    .describe_ids =
        [](std::string_view device, uint64_t serial, std::string& out) {
          return g_rdma_cm.load()->service->DescribeIds(device, serial, out);
        },
    .end_connections =
        [](std::string_view device, const wire::Gid& local) {
          return g_rdma_cm.load()->service->DisconnectFrom(device, local);
        },
    .device_failed =
        [](std::string_view device) {
          g_rdma_cm.load()->service->OnDeviceFailed(device);
        }};

RdmaCm* TheRdmaCm() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (g_rdma_cm.load() == nullptr) {
    g_rdma_cm.store(MakeRdmaCm());
    if (g_rdma_cm.load() != nullptr)
      control::SetConnectionHooks(&kConnectionHooks);
  }
  return g_rdma_cm.load();
}

void* Open(void* node) {
  // The parent's ids, ports and locks do not belong to the child, so all files
  // of a child are its copy's.
  if (control::InForkedChild()) {
    const Entry* const fresh = FreshCopy();
    if (fresh != nullptr) return fresh->rdma_cm->open(node);
    errno = EIO;
    return nullptr;
  }
  RdmaCm* const rdma_cm = TheRdmaCm();
  return rdma_cm != nullptr ? rdma_cm->files->Open(node) : nullptr;
}

int Write(void* file, const void* command, size_t bytes) {
  if (control::InForkedChild()) {
    return FreshCopy()->rdma_cm->write(file, command, bytes);
  }
  return TheRdmaCm()->files->Write(file, command, bytes);
}

void Close(void* file) {
  if (control::InForkedChild()) {
    FreshCopy()->rdma_cm->close(file);
  } else {
    TheRdmaCm()->files->Close(file);
  }
}

}  // namespace

constexpr urnic_rdma_cm_device kRdmaCmDevice = {
    .open = Open, .write = Write, .close = Close};

void OfferRdmaCmDevice() {
  const urnic_preload_api* const preload = Preload();
  if (preload == nullptr ||
      preload->size < offsetof(urnic_preload_api, rdma_cm_file) +
                          sizeof(preload->rdma_cm_file)) {
    return;
  }
  // Fails in a second copy of this library: the first one serves.
  preload->set_rdma_cm_device(&kRdmaCmDevice);
}

void BeginRdmaCmEnd() {
  RdmaCm* const rdma_cm = g_rdma_cm.load();
  if (rdma_cm != nullptr && !control::InForkedChild()) {
    rdma_cm->service->BeginEnd();
  }
}

void LeaveRdmaCmPeers() {
  RdmaCm* const rdma_cm = g_rdma_cm.load();
  if (rdma_cm != nullptr && !control::InForkedChild()) {
    rdma_cm->service->TakeLeave();
  }
}

}  // namespace urnic::provider
