#pragma once

// The control thread of one port: finds the device, starts it, publishes it to
// the hot path, watches it, and replaces it when it fails. No external event
// ends its work. A failure sets a line of text (info(), and the report), with a
// remedy if a person can fix it. The next attempt follows after 20 ms at first,
// and after half a second at most.
//
//   look for what the device needs --> probe --> configure --> start
//        ^   (interface, socket)                                 |
//        |                                                    publish
//        +---- withdraw, stop, close <---- watch <---------------+
//                                          (link, interface)
//
// Whether a lost peer requires a new device depends on the driver. vhost and a
// virtio_user server wait for the next peer by themselves; virtio_user and
// memif clients are re-created.
//
// Threads: one detached thread with all signals blocked, which keeps the object
// alive; process exit neither joins nor stops it. Functions marked hot are for
// the engine's token holder, the others for any thread.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "datapath/guest/device_gate.h"
#include "datapath/port/device_fault_clock.h"
#include "datapath/port/dpdk_device.h"
#include "datapath/port/interface_watch.h"
#include "datapath/port/port.h"
#include "datapath/port/port_spec.h"

namespace urnic {

class PortKeeper {
 public:
  // The pool must outlive Stop() returning true.
  static absl::StatusOr<std::shared_ptr<PortKeeper>> Start(
      PortSpec spec, rte_mempool* pool, uint16_t rx_ring, uint16_t tx_ring,
      PortReport report, PortWarning warn);
  ~PortKeeper();
  PortKeeper(const PortKeeper&) = delete;
  PortKeeper& operator=(const PortKeeper&) = delete;

  // Withdraws and removes the device. False: DPDK did not release it within
  // some seconds. Then the thread, the device and the pool are left alone.
  bool Stop();

  DeviceGate& gate() { return gate_; }
  // An epoll descriptor; see Port::wait_fd().
  int wait_fd() const { return epoll_fd_; }
  // Hot: of this device, or the last one.
  bool finishes_tcp_checksums() const {
    return finishes_tcp_checksums_.load(std::memory_order_relaxed);
  }
  // Hot: Port::ArmWakeup() and DisarmWakeup().
  bool Arm();
  void Disarm();

  // Port::ReplaceDevice().
  bool ReplaceDevice(const char* why);

  // Adds the counts of this device and its predecessors.
  void AddCounters(PortCounters& sum) const;
  PortInfo info() const;
  // The interface_mtu of info(), without waiting. 0: there is no interface, or
  // it is still unknown.
  uint32_t interface_mtu() const {
    return interface_mtu_.load(std::memory_order_relaxed);
  }

 private:
  enum class Verdict : uint8_t { kKeep, kReplace };

  PortKeeper(PortSpec spec, rte_mempool* pool, uint16_t rx_ring,
             uint16_t tx_ring, PortReport report, PortWarning warn);
  absl::Status OpenDescriptors();
  static void* ThreadMain(void* self);
  void Run();
  // Each returns false if it must be tried again later; Say() has reported why.
  bool PrerequisitesMet();
  bool Probe();
  bool BringUp();
  void Watch();
  int WatchIntervalMs() const;
  Verdict LookAfterDevice();
  // The verdict that follows from injected faults and from ReplaceDevice().
  Verdict LookForFaults();
  void TakeDown();
  void AbandonProbe();

  // Sleeps until an event, an injected fault, a stop or the time-out; negative:
  // no limit.
  void Wait(int timeout_ms);
  void WaitBackOff();
  void DiscardEdges();
  // The state while there is no device.
  PortState WithoutDevice() const {
    return was_up_ ? PortState::kFailed : PortState::kStarting;
  }
  void Say(PortState state, std::string text, std::string remedy = "");
  // Reports a device that was not found, or did not start.
  void SayFailure(const absl::Status& status);
  void SayLink(bool up);
  void SayMtu(int mtu);
  void WarnOfOthers();
  void WarnOfRefused();
  void WakeEngine();
  void AddWakeup();
  void RemoveWakeup();

  const PortSpec spec_;
  rte_mempool* const pool_;
  const uint16_t rx_ring_;
  const uint16_t tx_ring_;
  const unsigned number_;
  const PortReport report_;
  const PortWarning warn_;

  DeviceGate gate_;
  // Written by the keeper while the device is withdrawn, read through the gate.
  WakeKind wake_kind_ = WakeKind::kNone;
  int wake_fd_ = -1;

  int epoll_fd_ = -1;
  int engine_event_fd_ = -1;  // in epoll_fd_: the state changed
  int event_fd_ = -1;         // wakes the keeper
  std::atomic<bool> stop_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> leave_fds_open_ = false;
  // Why the device must be replaced; null: it need not be replaced.
  std::atomic<const char*> replace_ = nullptr;

  // Only the keeper thread uses these.
  std::unique_ptr<DeviceProbe> probe_;
  std::unique_ptr<InterfaceWatch> interface_;
  DeviceFaultClock faults_;
  bool was_up_ = false;
  bool had_carrier_ = false;
  int backoff_ms_ = 0;
  std::string warned_;
  bool warned_of_refused_ = false;
  std::atomic<uint32_t> interface_mtu_ = 0;  // as in info_
  std::atomic<bool> finishes_tcp_checksums_ = false;

  // Guards the members below. Never held while DPDK may wait for a link
  // callback.
  mutable std::mutex mutex_;
  std::unique_ptr<DpdkDevice> device_;  // changed by the keeper only
  // Only the keeper changes it. False while DPDK allocates a device's queues:
  // then no thread may read its counters, because its array of queues is null.
  bool configured_ = false;
  PortCounters past_;  // of earlier devices
  PortInfo info_;
};

}  // namespace urnic
