#pragma once

// Implements /dev/infiniband/rdma_cm: the functions that the preload calls
// (urnic_rdma_cm_device in preload_api.h), on top of the service.

#include <cstddef>
#include <mutex>
#include <unordered_set>

#include "verbs/preload/preload_api.h"
#include "verbs/rdmacm/commands.h"

namespace urnic::rdmacm {

class DeviceFiles final : private ChannelFinder {
 public:
  // All must outlive this object.
  DeviceFiles(Service& service, UserMemory& memory,
              const urnic_preload_api& preload)
      : service_(service), memory_(memory), preload_(preload) {}

  // Any thread.
  void* Open(void* node);
  int Write(void* file, const void* command, size_t bytes);
  void Close(void* file);

 private:
  struct File final : EventChannel::Readiness {
    void SetReady(bool ready, bool news) override {
      set_ready(node, !ready ? 0
                      : news ? URNIC_RDMA_CM_NEW_EVENT
                             : URNIC_RDMA_CM_OLD_EVENTS);
    }
    void (*set_ready)(void* node, int ready) = nullptr;
    void* node = nullptr;
    EventChannel* channel = nullptr;
  };

  EventChannel* Find(uint32_t fd) override;

  Service& service_;
  UserMemory& memory_;
  const urnic_preload_api& preload_;
  std::mutex mutex_;
  std::unordered_set<File*> open_;
};

}  // namespace urnic::rdmacm
