#pragma once

// The verbs view of one RNIC inside this process: its identity and its objects.
// The RNIC itself is a Nic (datapath/nic/nic.h). All contexts that a program
// opens on the same device share one Device.
//
// Lifecycle. The first Open() claims the port, starts the EAL if necessary,
// creates port and engine and starts the helper thread. It waits for the port's
// device to come up, up to three seconds, and 0.2 seconds for a peer. Later
// changes are reported (EventSink::OnPortState). When the last reference is
// gone, the engine stops and releases the port, so that this process or another
// one can open it again. The EAL keeps running. At process exit nothing needs
// to be closed (FlushAll() is enough): nothing here has a static destructor.
//
// Threads: every function may be called by any thread.

#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/nic/nic.h"
#include "datapath/port/port.h"
#include "verbs/control/control_socket.h"
#include "verbs/control/device_routes.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/limits.h"
#include "verbs/control/no_listener.h"
#include "verbs/control/owner.h"
#include "verbs/identity/device_identity.h"

namespace urnic::control {

// Functions of the preload (verbs/preload/preload_api.h) for the guard around
// the program's memory and for changes in sysfs. Null without the preload.
struct ProgramHooks {
  int (*set_signal_hooks)(SignalHandler handler) = nullptr;
  SignalHandler chain_signal = nullptr;
  const unsigned* (*mask_changes)() = nullptr;
  const char* (*run_dir)() = nullptr;
  int (*set_gids)(const urnic_device_identity* device) = nullptr;
  int (*set_port_active)(const char* device, int active) = nullptr;
};

// The answer to a port query, besides the constants of limits.h.
struct PortAttributes {
  uint32_t bad_pkeys = 0;  // packets whose P_Key is not the queue pair's
  uint32_t bad_qkeys = 0;
  bool active = true;
  uint8_t active_mtu = 0;  // IBTA code, 1: 256 bytes .. 5: 4096 bytes
};

class Device {
 public:
  // Opens the device, or shares it if this process has it open.
  // ALREADY_EXISTS: another process has the port; its pid is in the message.
  // INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED: from the
  // port or the EAL, in their words. ABORTED: in a forked child.
  static absl::StatusOr<std::shared_ptr<Device>> Open(
      const urnic_device_identity& identity, const ProgramHooks& hooks);

  // Sends the responses that the open devices of this process still owe their
  // peers, as far as that needs no waiting. Otherwise a peer could miss its
  // last acknowledgement when a program ends without destroying its queue
  // pairs.
  static void FlushAll();

  // At exit(): waits until the frames that deliberate faults delay have left
  // all devices, at most FaultPort::kLastFrames in all. For a peer those frames
  // were already sent, so they must not die with the process.
  static void AwaitHeldFrames();

  // At exit(): writes the counters of the open devices of this process, as
  // closing them does (stats_file.h).
  static void ReportAll();

  // REQUIRES: all objects of the device are destroyed.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The configuration of the device; gids() has its present addresses.
  const urnic_device_identity& identity() const { return identity_; }
  const urnic_device_kind& kind() const { return *identity_.device_kind; }
  const GidTable& gids() const { return *gids_; }
  Nic& nic() { return *nic_; }
  Engine& engine() { return nic_->engine(); }
  Network& network() { return nic_->network(); }
  Port& port() { return nic_->port(); }

  // Changes the GID table. The engine starts or stops answering for the address
  // (Network::SetAddresses), the files in sysfs follow, and then listeners are
  // told. Errors of GidTable::Add() and Remove(); INTERNAL: sysfs could not be
  // written, but everything else is done.
  absl::Status AddAddress(const urnic_ip_address& address);
  absl::Status RemoveAddress(const urnic_ip_address& address);

  const DeviceRoutes& routes() const { return routes_; }
  // Changes the routes. The engine uses the new ones, and paths that they
  // change follow (Network::SetRoutes). Errors of DeviceRoutes::CheckGateway(),
  // Add() and Remove().
  absl::Status AddRoute(const net::Route& route);
  absl::Status RemoveRoute(const net::Route& route);

  PortAttributes QueryPort() const;
  // Until Unlisten() returns, `sink` is told of changes of the port.
  void Listen(EventSink* sink);
  void Unlisten(EventSink* sink);
  // The most payload bytes per packet that the port can carry: 256 to 4096.
  // Follows the MTU of the kernel's interface, up to "mtu=".
  uint32_t mtu_max() const;
  // How many packets one queue pair may keep in flight on this port.
  uint32_t window_packets() const;

  // Installs the guard around the program's memory; the first call counts.
  void GuardMemory();

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
  void RemoveSrq() { --srqs_; }
  void RemoveAh() { --ahs_; }
  void RemovePd() { --pds_; }
  void RemoveCq() { --cqs_; }
  void CountMr(int change) { mrs_ += change; }
  void CountQp(int change) { qps_ += change; }
  // A number for a domain, unique in this process: a domain that is given to
  // another device by mistake means nothing there. A number is reused after
  // 65536 others at the earliest, so the numbers do not run out (kMaxPdId).
  static uint32_t TakePdId();
  static void ReturnPdId(uint32_t id);

  ObjectCounts counts() const {
    return {.pds = pds_, .mrs = mrs_, .cqs = cqs_, .qps = qps_};
  }

 private:
  Device(const urnic_device_identity& identity, const ProgramHooks& hooks);
  absl::Status Start();
  void Report();
  // Passes reports of the port to listeners. The port's thread.
  void OnPortReport(const PortInfo& info);
  // Announces our addresses to neighbours. The port's thread.
  void AnnounceIfUp(const PortInfo& info);
  // Writes the GIDs to sysfs. REQUIRES: listeners_mutex_ is held.
  void ShowPortState();
  absl::Status OnAddressesChanged();
  void OnRoutesChanged();
  absl::Status Add(std::atomic<int>& count, uint32_t limit, const char* what);

  const urnic_device_identity identity_;
  const ProgramHooks hooks_;
  const std::shared_ptr<GidTable> gids_;
  std::mutex address_change_mutex_;  // one change at a time
  std::mutex route_change_mutex_;    // the same
  std::mutex listeners_mutex_;
  std::vector<EventSink*> listeners_;  // under listeners_mutex_
  bool told_active_ = false;           // the same
  std::mutex announce_mutex_;
  bool may_announce_ = false;  // under announce_mutex_: the NIC is whole
  bool was_up_ = false;        // the same

  // The order matters: the NIC is destroyed before the members that it calls.
  std::unique_ptr<NoListener> no_listener_;
  std::unique_ptr<Nic> nic_;
  DeviceRoutes routes_;
  std::unique_ptr<ControlSocket> control_socket_;

  bool reported_ = false;  // under the registry's mutex

  std::atomic<int> pds_{0};
  std::atomic<int> mrs_{0};
  std::atomic<int> cqs_{0};
  std::atomic<int> qps_{0};
  std::atomic<int> srqs_{0};
  std::atomic<int> ahs_{0};
};

}  // namespace urnic::control
