#include "verbs/control/device.h"

#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/mem/mr_table.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/fork_guard.h"
#include "verbs/control/object_facts.h"
#include "verbs/control/qp.h"
#include "verbs/control/recovery.h"
#include "verbs/control/shared_places.h"

namespace urnic::control {

namespace {

// The index is the node (urnic_device_identity::node).
using OpenDevices = SharedPlaces<Device, URNIC_MAX_DEVICES>;

OpenDevices& TheOpenDevices() {
  static OpenDevices* const devices = new OpenDevices;
  return *devices;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> Device::Open(
    const urnic_device_identity& identity, const ProgramHooks& hooks) {
  if (InForkedChild()) {
    return Refusal(ErrorCode::kAfterFork,
                   absl::StrCat(identity.name,
                                ": the device belongs to the parent of "
                                "this forked process"));
  }
  InstallForkGuard();
  return TheOpenDevices().Share(
      static_cast<size_t>(identity.node),
      [&]() -> absl::StatusOr<std::unique_ptr<Device>> {
        auto nic = OpenNic::Open(identity, hooks);
        if (nic.ok()) {
          return std::unique_ptr<Device>(new Device(identity, *std::move(nic)));
        }
        return Prefixed(absl::StrCat(identity.name, ": "), nic.status());
      });
}

std::shared_ptr<Device> Device::FindOpen(
    const urnic_device_identity& identity) {
  if (InForkedChild()) return nullptr;
  return TheOpenDevices().Find(static_cast<size_t>(identity.node));
}

Device::Device(const urnic_device_identity& identity,
               std::shared_ptr<OpenNic> open_nic)
    : identity_(identity),
      open_nic_(std::move(open_nic)),
      pds_("protection domains", kind().limits.max_pds),
      // The network's table of keys limits them.
      mrs_("memory regions", UINT32_MAX),
      mws_("memory windows", UINT32_MAX),
      cqs_("completion queues", kind().limits.max_cqs),
      qps_("queue pairs", kind().limits.max_qps),
      srqs_("shared receive queues", kind().limits.max_srqs),
      ahs_("address handles", kind().limits.max_ahs) {
  open_nic_->Watch(this);
}

Device::~Device() {
  URNIC_CHECK(is_empty());
  open_nic_->Unwatch(this);
}

void Device::NoteRefusal(const absl::Status& status) {
  DebugLog(std::string(status.message()));
  const auto code = CodeOf(status);
  if (!code) return;  // the error of a library, which has no code of ours
  Engine::ControlScope scope(engine());
  engine().failures().Add({.code = *code,
                           .iwarp = HasService(kind(), QpService::kIwarp),
                           .text = std::string(WithoutCode(status))});
}

void Device::NoteWithin(Duration patience, Failure failure) {
  DebugLog(absl::StrCat(ErrorName(failure.code), ": ", failure.text));
  failure.iwarp = HasService(kind(), QpService::kIwarp);
  Engine::ControlScope scope(engine(), patience);
  if (scope.entered()) engine().failures().Add(std::move(failure));
}

uint64_t Device::NoteLateThread(pid_t thread, const char* verb) {
  const std::string what =
      absl::StrCat("thread ", thread, " of this program does not leave ",
                   verb != nullptr ? verb : "a verb that posts or polls");
  NotePostRefusal({.code = ErrorCode::kThreadLate, .text = what});
  return open_nic_->offenders().Add(Offence::kThread, what);
}

uint64_t Device::NoteUnacknowledged(const std::string& queue) {
  const std::string what =
      absl::StrCat(queue,
                   " is destroyed, but the program has not acknowledged its "
                   "events (ibv_ack_async_event, ibv_ack_cq_events)");
  NoteMisuse({.code = ErrorCode::kEventsUnacknowledged, .text = what});
  return open_nic_->offenders().Add(Offence::kEvents, what);
}

template <typename F>
void Device::ForEachQp(F&& f) {
  constexpr size_t kStep = 64;
  std::optional<uint64_t> serial = 0;
  while (serial) {
    serial = qps_.Visit(*serial, kStep, [&](Qp& qp) {
      if (Qp::HasStartMark(&qp)) f(qp);
    });
  }
}

void Device::FenceQp(uint32_t number, const void* user) {
  ForEachQp([=](Qp& qp) {
    if (qp.qpn() == number) qp.Fail(user);
  });
}

uint32_t Device::FailQpsFrom(const wire::Gid& local) {
  uint32_t count = 0;
  ForEachQp([&](Qp& qp) { count += qp.FailIfFrom(local) ? 1 : 0; });
  return count;
}

std::vector<uint32_t> Device::BusyQps() {
  std::vector<uint32_t> numbers;
  ForEachQp([&](Qp& qp) {
    if (qp.IsBusy()) numbers.push_back(qp.qpn());
  });
  return numbers;
}

void Device::OnDeviceFailed() {
  {
    std::lock_guard lock(listeners_mutex_);
    for (EventSink* sink : listeners_) sink->OnDeviceFatal();
  }
  FailBusyQps();
}

void Device::FailBusyQps() {
  ForEachQp([](Qp& qp) {
    if (qp.IsBusy()) qp.Fail();
  });
}

absl::Status Device::CheckWorks() const {
  return open_nic_->recovery().CheckWorks();
}

const urnic_mailbox* Device::mailbox() const {
  return open_nic_->recovery().mailbox();
}

void Device::Listen(EventSink* sink) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(sink);
}

void Device::Unlisten(EventSink* sink) {
  std::lock_guard lock(listeners_mutex_);
  std::erase(listeners_, sink);
}

void Device::OnPortState(bool active) {
  std::lock_guard lock(listeners_mutex_);
  for (EventSink* sink : listeners_) sink->OnPortState(active);
}

void Device::OnAddressesChanged() {
  if (kind().gid_source != URNIC_GIDS_OF_ADDRESSES) return;
  std::lock_guard lock(listeners_mutex_);
  for (EventSink* sink : listeners_) sink->OnGidChange();
}

namespace {

// Numbers follow one another, so one that was given back comes again after all
// others. Only those in use take memory: a domain that has ended leaves
// nothing. Never destroyed: programs may close devices while they exit.
struct PdIds {
  std::mutex mutex;
  uint32_t last = 0;
  std::unordered_set<uint32_t> in_use;
};
PdIds& ThePdIds() {
  static PdIds* const ids = new PdIds;
  return *ids;
}

}  // namespace

uint32_t Device::TakePdId() {
  PdIds& ids = ThePdIds();
  std::lock_guard lock(ids.mutex);
  do {
    ids.last = ids.last + 1 < mem::kMaxPdId ? ids.last + 1 : 1;
  } while (!ids.in_use.insert(ids.last).second);
  return ids.last;
}

void Device::ReturnPdId(uint32_t id) {
  PdIds& ids = ThePdIds();
  std::lock_guard lock(ids.mutex);
  ids.in_use.erase(id);
}

std::optional<uint64_t> Device::Describe(ObjectKind what, uint64_t serial,
                                         std::string& out) {
  return DescribeObjects(*this, what, serial, out);
}

}  // namespace urnic::control
