#pragma once

// A port that this process has open: the RNIC on it (datapath/nic/nic.h), its
// addresses and routes, and its representation in `urnic` and sysfs. The
// devices of a port (verbs/control/device.h), one for each transport, share it.
//
// Lifecycle. The first Open() claims the port, starts the EAL if necessary,
// creates port and engine and starts the helper thread. It waits for the port's
// device to come up, up to three seconds, and 0.2 seconds for a peer. Later
// changes are reported (Watcher::OnPortState). When the last reference is gone,
// the engine stops and releases the port, so that this process or another one
// can open it again. The EAL keeps running. At process exit nothing needs to be
// closed (FlushAll() is enough): nothing here has a static destructor.
//
// Threads: every function may be called by any thread.

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/memory/guarded_memory.h"
#include "ras/errors/error_code.h"
#include "ras/memory/memory_tracker.h"
#include "verbs/control/device_routes.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/input_logs.h"
#include "verbs/control/object_facts.h"
#include "verbs/control/offenders.h"
#include "verbs/identity/device_identity.h"

namespace urnic {
class Engine;
struct EngineCounters;
class Network;
class Nic;
class Port;
struct NicConfig;
struct PortInfo;
namespace iwarp {
struct Options;
}
}  // namespace urnic

namespace urnic::control {

class ControlSocket;
class ErrorLog;
class NoListener;
class Recorder;
class Recovery;

// Functions of the preload (verbs/preload/preload_api.h), for the guard around
// the program's memory and for changes in sysfs. Null without the preload.
struct ProgramHooks {
  int (*set_signal_hooks)(SignalHandler handler) = nullptr;
  SignalHandler chain_signal = nullptr;
  const unsigned* (*mask_changes)() = nullptr;
  const char* (*run_dir)() = nullptr;
  int (*set_gids)(const urnic_device_identity* device) = nullptr;
  int (*set_port_active)(const char* device, int active) = nullptr;
  const char* (*removed)(int i) = nullptr;
};

// The answer to a port query, besides the constants of limits.h.
struct PortAttributes {
  uint32_t bad_pkeys = 0;  // packets whose P_Key does not match their QP's
  uint32_t bad_qkeys = 0;
  bool active = true;
  uint8_t active_mtu = 0;  // IBTA code, 1: 256 bytes .. 5: 4096 bytes
};

class OpenNic {
 public:
  // Gets the changes of a port, from Watch() to Unwatch().
  class Watcher {
   public:
    // The port went up or down. Queries and sysfs already show the new state.
    // Called by the port's control thread.
    virtual void OnPortState(bool active) = 0;
    // An address was added or removed. gids() and sysfs already show it. Called
    // by the thread that made the change.
    virtual void OnAddressesChanged() = 0;
    // The device has failed: moves its busy queue pairs to ERR, and raises the
    // events. Called by the recovery's thread.
    virtual void OnDeviceFailed() = 0;
    // Moves queue pairs to ERR that have become busy since then.
    virtual void FailBusyQps() = 0;
    // Moves queue pairs with a path from this address to ERR, each with its
    // event. Returns how many.
    virtual uint32_t FailQpsFrom(const wire::Gid& local) = 0;
    // The numbers of the queue pairs in RTR and beyond. Any thread.
    virtual std::vector<uint32_t> BusyQps() = 0;
    // Appends the lines of facts of some of its objects (object_facts.h), from
    // `serial` on. Returns the number to continue from; none: there are no
    // more. Any thread.
    virtual std::optional<uint64_t> Describe(ObjectKind what, uint64_t serial,
                                             std::string& out) = 0;
    virtual const char* name() const = 0;

   protected:
    ~Watcher() = default;
  };

  // Opens the port of a device, or shares it if this process has it open.
  // ALREADY_EXISTS: another process has the port; its pid is in the message.
  // INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED: errors of
  // the port or the EAL, with their messages. REQUIRES: not in a forked child.
  static absl::StatusOr<std::shared_ptr<OpenNic>> Open(
      const urnic_device_identity& identity, const ProgramHooks& hooks);

  // Sends the responses that the open ports of this process still owe their
  // peers, if it can do so without waiting. Otherwise a peer could miss its
  // last acknowledgement when a program ends without destroying its queue
  // pairs.
  static void FlushAll();

  // At exit(): waits until all ports have sent the frames that injected faults
  // delay, at most FaultPort::kLastFrames in all. A network that delays frames
  // would still deliver them after the process has ended.
  static void AwaitHeldFrames();

  // At exit(): writes the counters of the open ports of this process, as
  // closing them does (stats_file.h), waits for the error log, 200 ms at most,
  // and ends the recordings.
  static void ReportAll();

  // REQUIRES: no object is left.
  ~OpenNic();
  OpenNic(const OpenNic&) = delete;
  OpenNic& operator=(const OpenNic&) = delete;

  // The name of the port, which is that of its first device, and its
  // configuration. gids() has the current addresses.
  const char* name() const { return identity_.port_name; }
  const urnic_device_identity& identity() const { return identity_; }
  // The names of its devices, whether they are open or not.
  std::vector<std::string> DeviceNames() const;
  const GidTable& gids() const { return *gids_; }
  Nic& nic() { return *nic_; }
  Engine& engine();
  Network& network();
  Port& port();
  // Engine::CountersOfAll(), or Engine::counters() if a thread that will not
  // run again holds the token.
  EngineCounters CountersOfAll();

  // The tracker of the memory that control calls allocate.
  MemoryTracker& memory() { return memory_; }

  // Change the addresses, in this order: the engine starts or stops answering
  // for the address (Network::SetAddresses), the files in sysfs change, and
  // watchers are told. Errors: those of GidTable::Add() and Remove(); INTERNAL:
  // sysfs could not be written, but everything else is done.
  absl::Status AddAddress(const urnic_ip_address& address);
  absl::Status RemoveAddress(const urnic_ip_address& address);

  const DeviceRoutes& routes() const { return routes_; }
  // Change the routes. The engine uses the new ones, and existing paths follow
  // them (Network::SetRoutes). Errors: those of DeviceRoutes::CheckGateway(),
  // Add() and Remove().
  absl::Status AddRoute(const net::Route& route);
  absl::Status RemoveRoute(const net::Route& route);

  // What keeps the port from closing, or the device from recovering.
  Offenders& offenders() { return offenders_; }
  InputLogs& input_logs() { return input_logs_; }
  Recovery& recovery() { return *recovery_; }
  const Recovery& recovery() const { return *recovery_; }
  // Called by the recovery: moves the busy queue pairs to ERR, and tells
  // watchers and rdma_cm that the device has failed.
  void OnDeviceFailed();
  // Called by the recovery: moves queue pairs to ERR that have become busy
  // since then.
  void FailBusyQps();
  // Recorder::KeepDump(), if there is a recorder; otherwise only calls
  // `before`.
  void KeepDump(const std::function<void(const std::string& path)>& before);
  // Records ErrorCode::kRecoveryBlocked for the devices of these queue pairs.
  void NoteBlocked(const std::vector<std::pair<std::string, uint32_t>>& qps,
                   const std::string& text);
  void OnDeviceRecovered();
  // The busy queue pairs, each with its device. While the device has failed,
  // these are the failed queue pairs that the program has not destroyed or
  // reset.
  std::vector<std::pair<std::string, uint32_t>> BusyQps();
  // Records a failure of the port for each of its devices.
  void NoteOfPort(ErrorCode code, const std::string& text);

  PortAttributes QueryPort() const;
  // Until Unwatch() returns, `watcher` gets the changes.
  void Watch(Watcher* watcher);
  void Unwatch(Watcher* watcher);
  // Describe() of the open device with this name. None: there are no more
  // objects, or the device is not open.
  std::optional<uint64_t> Describe(const std::string& device, ObjectKind what,
                                   uint64_t serial, std::string& out);
  // In bytes: the longest IP packet, and the largest MTU of RoCE that fits into
  // it (payload per packet, 256 to 4096). They follow the MTU of the kernel's
  // interface, up to "mtu=".
  uint32_t ip_mtu() const;
  uint32_t mtu_max() const;
  // How many packets one queue pair may keep in flight on this port.
  uint32_t window_packets() const;

  // Installs the guard around the program's memory; later calls have no effect.
  void GuardMemory();

 private:
  OpenNic(const urnic_device_identity& identity, const ProgramHooks& hooks);
  absl::Status Start();
  absl::StatusOr<std::unique_ptr<Port>> MakePort(
      std::vector<std::string>& removed);
  NicConfig MakeNicConfig(const iwarp::Options& options) const;
  void OpenControlSocket();
  void Report();
  // Reports the leftovers of dead programs that this process has removed: in
  // the debug log, and as errors of the process's first port. `all`: those at
  // this port.
  void NameRemoved(std::vector<std::string> all);
  // Reports memory that was not freed, in the error log.
  void NameLeaks();
  // Passes reports of the port to watchers. The port's thread.
  void OnPortReport(const PortInfo& info);
  // Tells watchers and sysfs whether the port is active, if that has changed.
  // `is_whole`: the recovery exists. REQUIRES: watchers_mutex_ is held.
  void TellPortState(const PortInfo& info, bool is_whole);
  // Announces our addresses to neighbours. The port's thread.
  void AnnounceIfUp(const PortInfo& info);
  // Writes the state of the port to sysfs, for each of its devices. REQUIRES:
  // watchers_mutex_ is held.
  void ShowPortState();
  // Call this before our address is removed: ends its connections while they
  // can still tell their peers.
  void EndConnectionsFrom(const wire::Gid& local);
  absl::Status OnAddressesChanged();
  void OnRoutesChanged();
  // Records a failure for each device whose kind is in the set `kinds` (bits).
  void NoteOfKinds(uint32_t kinds, ErrorCode code, const std::string& text);
  std::string DeviceName(int kind) const;
  bool Has(int kind) const { return (identity_.kinds & 1u << kind) != 0; }
  MemoryTracker memory_;
  const urnic_device_identity identity_;  // of one of the port's devices
  const ProgramHooks hooks_;
  const std::shared_ptr<GidTable> gids_;
  std::mutex address_change_mutex_;  // one change at a time
  std::mutex route_change_mutex_;    // the same
  std::mutex watchers_mutex_;
  std::vector<Watcher*> watchers_;  // under watchers_mutex_
  bool told_active_ = false;        // the same
  std::mutex announce_mutex_;
  bool is_whole_ = false;  // under announce_mutex_: NIC and recovery exist
  bool was_up_ = false;    // the same

  // The order matters: the NIC is destroyed before the members that it calls.
  std::unique_ptr<NoListener> no_listener_;
  std::unique_ptr<Nic> nic_;
  DeviceRoutes routes_;
  Offenders offenders_;
  InputLogs input_logs_;
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<ControlSocket> control_socket_;
  std::unique_ptr<ErrorLog> error_log_;
  std::unique_ptr<Recorder> recorder_;

  bool reported_ = false;  // under the mutex of the open ports
};

}  // namespace urnic::control
