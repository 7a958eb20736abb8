#pragma once

// A device as verbs programs see it: its kind, the objects on it, and the
// listeners of its events. All contexts that a program opens on the same device
// share one Device. Everything that the devices of a port share is in
// open_nic.h.
//
// Lifecycle. The first Open() opens the port, if no other device of this
// process has it open (OpenNic::Open). The last reference to the last device
// closes it.
//
// Threads: every function may be called by any thread.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/limits.h"
#include "verbs/control/object_table.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/owner.h"
#include "verbs/identity/device_identity.h"

namespace urnic::control {

class AddressHandle;
class Cq;
class Mr;
class Mw;
class Pd;
class Qp;
class Srq;

class Device final : private OpenNic::Watcher {
 public:
  // Opens the device, or shares it if this process has it open. Errors of
  // OpenNic::Open(). ABORTED: in a forked child.
  static absl::StatusOr<std::shared_ptr<Device>> Open(
      const urnic_device_identity& identity, const ProgramHooks& hooks);

  // Null: this process does not have the device open.
  static std::shared_ptr<Device> FindOpen(
      const urnic_device_identity& identity);

  // REQUIRES: all objects of the device are destroyed.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The configuration of the device.
  const urnic_device_identity& identity() const { return identity_; }
  const urnic_device_kind& kind() const { return *identity_.device_kind; }
  const char* name() const override { return identity_.name; }

  // The port of the device, and its addresses and routes.
  OpenNic& open_nic() { return *open_nic_; }
  const GidTable& gids() const { return open_nic_->gids(); }
  const DeviceRoutes& routes() const { return open_nic_->routes(); }
  Nic& nic() { return open_nic_->nic(); }
  Engine& engine() { return open_nic_->engine(); }
  Network& network() { return open_nic_->network(); }
  Port& port() { return open_nic_->port(); }
  PortAttributes QueryPort() const { return open_nic_->QueryPort(); }
  uint32_t ip_mtu() const { return open_nic_->ip_mtu(); }
  uint32_t mtu_max() const { return open_nic_->mtu_max(); }
  uint32_t window_packets() const { return open_nic_->window_packets(); }
  void GuardMemory() { open_nic_->GuardMemory(); }
  // The tracker of the memory that control calls allocate.
  MemoryTracker* memory() { return &open_nic_->memory(); }

  // Records that a call of the program was refused, for `urnic show error` and
  // the logs. REQUIRES: the token is not held.
  void NoteRefusal(const absl::Status& status);
  // The same for a call that posts, and therefore must not wait: if another
  // thread holds the token for 100 us, only the debug log gets the failure.
  // Sets `failure.iwarp`.
  void NotePostRefusal(Failure failure) {
    NoteWithin(Duration::Microseconds(100), std::move(failure));
  }
  // The same for a mistake of the program, which must not be missed: waits up
  // to 100 ms for the token.
  void NoteMisuse(Failure failure) {
    NoteWithin(Duration::Milliseconds(100), std::move(failure));
  }
  // An error while the device has failed (recovery.h).
  absl::Status CheckWorks() const;
  const urnic_mailbox* mailbox() const;

  // Records that another thread waits until `thread` leaves `verb`, and has
  // waited long. `verb` null: a verb that posts or polls. Returns the number of
  // the entry in Offenders.
  uint64_t NoteLateThread(pid_t thread, const char* verb);
  // Records that a thread that destroys `queue` ("qp 17") has waited long for
  // the program to acknowledge its events. Returns the number in Offenders.
  uint64_t NoteUnacknowledged(const std::string& queue);
  // The program has overwritten memory of queue pair `number`. The queue pair
  // fails, and `user`, as given to Qp::Create() or Open(), gets no more events
  // of it.
  void FenceQp(uint32_t number, const void* user);

  // Until Unlisten() returns, `sink` gets the events of the port.
  void Listen(EventSink* sink);
  void Unlisten(EventSink* sink);

  // Its objects.
  ObjectTable<Pd>& pds() { return pds_; }
  ObjectTable<Mr>& mrs() { return mrs_; }
  ObjectTable<Mw>& mws() { return mws_; }
  ObjectTable<Cq>& cqs() { return cqs_; }
  ObjectTable<Qp>& qps() { return qps_; }
  ObjectTable<Srq>& srqs() { return srqs_; }
  ObjectTable<AddressHandle>& ahs() { return ahs_; }
  // Takes a number for a protection domain, unique in this process, so that a
  // domain that a program passes to another device by mistake matches nothing
  // there. A number is reused after all others, of which there are more than
  // domains (mem::kMaxPdId).
  static uint32_t TakePdId();
  static void ReturnPdId(uint32_t id);

  // Whether no object is left.
  bool is_empty() const {
    return (pds_.size() | mrs_.size() | mws_.size() | cqs_.size() |
            qps_.size() | srqs_.size() | ahs_.size()) == 0;
  }

 private:
  Device(const urnic_device_identity& identity,
         std::shared_ptr<OpenNic> open_nic);
  void NoteWithin(Duration patience, Failure failure);
  // Calls f(qp) for all queue pairs, a few at a time, except for those that the
  // program has overwritten.
  template <typename F>
  void ForEachQp(F&& f);
  void OnPortState(bool active) override;
  void OnDeviceFailed() override;
  void FailBusyQps() override;
  uint32_t FailQpsFrom(const wire::Gid& local) override;
  std::vector<uint32_t> BusyQps() override;
  void OnAddressesChanged() override;
  std::optional<uint64_t> Describe(ObjectKind what, uint64_t serial,
                                   std::string& out) override;

  const urnic_device_identity identity_;
  const std::shared_ptr<OpenNic> open_nic_;
  std::mutex listeners_mutex_;
  std::vector<EventSink*> listeners_;  // under listeners_mutex_

  ObjectTable<Pd> pds_;
  ObjectTable<Mr> mrs_;
  ObjectTable<Mw> mws_;
  ObjectTable<Cq> cqs_;
  ObjectTable<Qp> qps_;
  ObjectTable<Srq> srqs_;
  ObjectTable<AddressHandle> ahs_;
};

}  // namespace urnic::control
