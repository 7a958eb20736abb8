#pragma once

// A device as verbs programs see it: its kind, how many objects it has, and who
// listens to its events. All contexts that a program opens on the same device
// share one Device. What belongs to the port, which the devices of a port
// share, is in open_nic.h.
//
// Lifecycle. The first Open() opens the port, if no other device of this
// process has it open (OpenNic::Open). The last reference to the last device
// closes it.
//
// Threads: every function may be called by any thread.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/limits.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/identity/device_identity.h"

namespace urnic::control {

class Device final : private OpenNic::Watcher {
 public:
  // Opens the device, or shares it if this process has it open. Errors of
  // OpenNic::Open(). ABORTED: in a forked child.
  static absl::StatusOr<std::shared_ptr<Device>> Open(
      const urnic_device_identity& identity, const ProgramHooks& hooks);

  // REQUIRES: all objects of the device are destroyed.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The configuration of the device.
  const urnic_device_identity& identity() const { return identity_; }
  const urnic_device_kind& kind() const { return *identity_.device_kind; }

  // Of its port.
  OpenNic& open_nic() { return *open_nic_; }
  const GidTable& gids() const { return open_nic_->gids(); }
  const DeviceRoutes& routes() const { return open_nic_->routes(); }
  Nic& nic() { return open_nic_->nic(); }
  Engine& engine() { return open_nic_->engine(); }
  Network& network() { return open_nic_->network(); }
  Port& port() { return open_nic_->port(); }
  PortAttributes QueryPort() const { return open_nic_->QueryPort(); }
  uint32_t mtu_max() const { return open_nic_->mtu_max(); }
  uint32_t window_packets() const { return open_nic_->window_packets(); }
  void GuardMemory() { open_nic_->GuardMemory(); }

  // Until Unlisten() returns, `sink` is told of changes of the port.
  void Listen(EventSink* sink);
  void Unlisten(EventSink* sink);

  // Reserves a place for one more object, or gives it back. RESOURCE_EXHAUSTED:
  // names the kind and the limit.
  absl::Status AddPd() {
    return Add(pds_, kind().limits.max_pds, "protection domains");
  }
  absl::Status AddCq() {
    return Add(cqs_, kind().limits.max_cqs, "completion queues");
  }
  absl::Status AddSrq() {
    return Add(srqs_, kind().limits.max_srqs, "shared receive queues");
  }
  absl::Status AddAh() {
    return Add(ahs_, kind().limits.max_ahs, "address handles");
  }
  absl::Status AddQp() {
    return Add(qps_, kind().limits.max_qps, "queue pairs");
  }
  void RemoveQp() { --qps_; }
  void RemoveSrq() { --srqs_; }
  void RemoveAh() { --ahs_; }
  void RemovePd() { --pds_; }
  void RemoveCq() { --cqs_; }
  void CountMr(int change) { mrs_ += change; }
  // A number for a domain, unique in this process: a domain that is given to
  // another device by mistake means nothing there. A number is reused after
  // 65536 others at the earliest, so the numbers do not run out (kMaxPdId).
  static uint32_t TakePdId();
  static void ReturnPdId(uint32_t id);

  ObjectCounts counts() const {
    return {.pds = pds_, .mrs = mrs_, .cqs = cqs_, .qps = qps_};
  }

 private:
  Device(const urnic_device_identity& identity,
         std::shared_ptr<OpenNic> open_nic);
  void OnPortState(bool active) override;
  void OnAddressesChanged() override;
  absl::Status Add(std::atomic<int>& count, uint32_t limit, const char* what);

  const urnic_device_identity identity_;
  const std::shared_ptr<OpenNic> open_nic_;
  std::mutex listeners_mutex_;
  std::vector<EventSink*> listeners_;  // under listeners_mutex_

  std::atomic<int> pds_{0};
  std::atomic<int> mrs_{0};
  std::atomic<int> cqs_{0};
  std::atomic<int> qps_{0};
  std::atomic<int> srqs_{0};
  std::atomic<int> ahs_{0};
};

}  // namespace urnic::control
