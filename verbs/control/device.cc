#include "verbs/control/device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/helper_thread.h"
#include "datapath/guest/give_way.h"
#include "datapath/port/fault_port.h"
#include "datapath/port/port_factory.h"
#include "transport/base/check.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/fork_guard.h"
#include "verbs/control/port_reporter.h"
#include "verbs/control/stats_file.h"

namespace urnic::control {

namespace {

// The devices that this process has open, by position in URNIC_PORTS. Never
// destroyed: contexts may outlive main(). The mutex is held while a device is
// opened or closed, so that a closing device has released its port before it is
// opened again.
struct Registry {
  struct Place {
    std::unique_ptr<Device> device;
    int users = 0;
  };
  std::mutex mutex;
  std::array<Place, URNIC_MAX_PORTS> places;
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

std::shared_ptr<Device> Share(Registry::Place& place) {
  ++place.users;
  return {place.device.get(), [&place](Device*) {
            std::lock_guard lock(TheRegistry().mutex);
            if (--place.users == 0) place.device.reset();
          }};
}

uint8_t MtuCode(uint32_t bytes) {
  return static_cast<uint8_t>(std::bit_width(bytes / 256));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> Device::Open(
    const urnic_device_identity& identity, const ProgramHooks& hooks) {
  if (InForkedChild()) {
    return absl::AbortedError(
        absl::StrCat(identity.name,
                     ": the device belongs to the parent of "
                     "this forked process"));
  }
  InstallForkGuard();
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  URNIC_CHECK(identity.ordinal >= 0 && identity.ordinal < URNIC_MAX_PORTS);
  Registry::Place& place =
      registry.places[static_cast<size_t>(identity.ordinal)];
  if (place.device != nullptr) return Share(place);
  std::unique_ptr<Device> device(new Device(identity, hooks));
  if (absl::Status s = device->Start(); !s.ok()) {
    return absl::Status(
        s.code(), absl::StrCat(identity.name, ": ", std::string(s.message())));
  }
  place.device = std::move(device);
  return Share(place);
}

void Device::FlushAll() {
  if (InForkedChild()) return;
  Registry& registry = TheRegistry();
  // exit() may have been called anywhere, even while this mutex is held.
  std::unique_lock lock(registry.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (Registry::Place& place : registry.places) {
    if (place.device == nullptr) continue;
    // The first call may receive packets; the second sends their
    // acknowledgements.
    place.device->engine().Progress();
    place.device->engine().Progress();
  }
}

void Device::AwaitHeldFrames() {
  if (InForkedChild()) return;
  Registry& registry = TheRegistry();
  std::unique_lock lock(registry.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  // False: no open device holds frames.
  const auto take_turns = [&registry] {
    bool any = false;
    for (Registry::Place& place : registry.places) {
      if (place.device == nullptr || place.device->port().frames_held() == 0) {
        continue;
      }
      any = true;
      place.device->engine().Progress();
    }
    return any;
  };
  // The clock can be read only after a device has been opened.
  if (!take_turns()) return;
  const Time end = Environment::Now() + FaultPort::kLastFrames;
  while (Environment::Now() < end && take_turns()) GiveWay();
}

void Device::ReportAll() {
  if (InForkedChild()) return;
  Registry& registry = TheRegistry();
  std::unique_lock lock(registry.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (Registry::Place& place : registry.places) {
    if (place.device != nullptr) place.device->Report();
  }
}

Device::Device(const urnic_device_identity& identity, const ProgramHooks& hooks)
    : identity_(identity),
      hooks_(hooks),
      gids_(GidTable::Of(identity)),
      routes_(identity) {}

absl::Status Device::Start() {
  PortConfig port_config;
  port_config.dev = identity_.dev;
  if (identity_.ifname[0] == '\0' || identity_.mtu_is_given != 0) {
    port_config.mtu = static_cast<uint16_t>(identity_.mtu);
  }
  std::copy_n(identity_.mac, port_config.mac.bytes.size(),
              port_config.mac.bytes.begin());
  port_config.mac_of_interface = identity_.mac_is_port != 0;
  port_config.fault = identity_.fault;
  port_config.report = [this, tell = PortReporter(identity_.name)](
                           const PortInfo& info) mutable {
    tell(info);
    OnPortReport(info);
    AnnounceIfUp(info);
  };
  port_config.warn =
      [name = std::string(identity_.name)](const std::string& line) {
        ComplainLoudly(absl::StrCat(name, ": ", line));
      };
  auto port = CreatePort(port_config);
  if (!port.ok()) return port.status();

  NicConfig config;
  config.limits = {.max_qps = kind().limits.max_qps,
                   .max_mrs = kind().limits.max_mrs,
                   .max_srqs = kind().limits.max_srqs};
  config.vlan = static_cast<uint16_t>(identity_.vlan);
  for (const GidPair& pair : gids_->Pairs()) {
    config.addresses.push_back({pair.gid, pair.prefix_bits});
  }
  config.pkeys.assign(identity_.pkeys, identity_.pkeys + identity_.num_pkeys);
  config.on_path_mtu = [name = std::string(identity_.name)](const auto& m) {
    DebugLog(absl::StrCat(name, ": a router on the way to ", IpText(m.remote),
                          " takes ", m.mtu,
                          " bytes at most; queue pairs with a path_mtu above ",
                          urnic_ib_mtu(m.mtu), " do not reach it"));
  };
  nic_ = std::make_unique<Nic>(*std::move(port), config);
  no_listener_ = std::make_unique<NoListener>(identity_.node_guid);
  no_listener_->Serve(network());
  if (absl::Status s = HelperThread::Start(engine()); !s.ok()) {
    reported_ = true;  // nothing has been counted
    return s;
  }
  OnRoutesChanged();
  routes_.Follow([this] { OnRoutesChanged(); });
  if (hooks_.run_dir != nullptr && hooks_.run_dir() != nullptr) {
    control_socket_ = std::make_unique<ControlSocket>(
        hooks_.run_dir(), identity_.name,
        [this](std::string_view request, const ControlSocket::Reply& reply) {
          AnswerControl(*this, request, reply);
        });
  }
  nic_->AwaitPort();
  {
    std::lock_guard lock(announce_mutex_);
    may_announce_ = true;
    was_up_ = false;
  }
  AnnounceIfUp(nic_->port().info());
  std::lock_guard lock(listeners_mutex_);
  if (!told_active_) ShowPortState();  // down from the start: not reported
  return absl::OkStatus();
}

Device::~Device() {
  URNIC_CHECK(counts().none());
  // A device that failed to start has counted nothing.
  if (nic_ == nullptr) return;
  {
    std::lock_guard lock(announce_mutex_);
    may_announce_ = false;
  }
  nic_->AwaitHeldFrames();
  Report();
}

// Writes once: a device that is closed after exit() has already been reported.
void Device::Report() {
  if (reported_) return;
  reported_ = true;
  if (!StatsAreWanted()) return;
  // exit() may have been called inside the engine, or while a thread that will
  // not run again holds the token. Then the live queue pairs are left out.
  constexpr Duration kPatience = Duration::Milliseconds(100);
  Engine::ControlScope scope(engine(), kPatience);
  const EngineCounters counters =
      scope.entered() ? engine().qps().CountersOfAll() : engine().counters();
  AppendStats(identity_.name, counters, port().counters(),
              port().fault_counts());
}

namespace {

// A port that waits for its peer counts as active, because programs query once,
// right after they open the device. A port that has not come up yet (its text
// is empty), or that the user must fix first, does not.
bool IsActive(const PortInfo& info) {
  return !info.text.empty() && info.state != PortState::kFailed &&
         info.state != PortState::kLinkDown && info.remedy.empty();
}

}  // namespace

void Device::OnPortReport(const PortInfo& info) {
  std::lock_guard lock(listeners_mutex_);
  const bool active = IsActive(info);
  if (active == told_active_) return;
  told_active_ = active;
  ShowPortState();
  for (EventSink* sink : listeners_) sink->OnPortState(active);
}

void Device::AnnounceIfUp(const PortInfo& info) {
  std::lock_guard lock(announce_mutex_);
  const bool comes_up = info.state == PortState::kUp && !was_up_;
  was_up_ = info.state == PortState::kUp;
  if (!comes_up || !may_announce_) return;
  Engine::ControlScope scope(engine());
  network().Announce();
}

void Device::ShowPortState() {
  if (hooks_.set_port_active == nullptr) return;
  const int error = hooks_.set_port_active(identity_.name, told_active_);
  if (error != 0) {
    DebugLog(absl::StrCat(identity_.name, ": sysfs still shows the old state: ",
                          std::strerror(-error)));
  }
}

absl::Status Device::AddAddress(const urnic_ip_address& address) {
  std::lock_guard lock(address_change_mutex_);
  if (absl::Status s = gids_->Add(address); !s.ok()) return s;
  return OnAddressesChanged();
}

absl::Status Device::RemoveAddress(const urnic_ip_address& address) {
  std::lock_guard lock(address_change_mutex_);
  if (absl::Status s = gids_->Remove(address); !s.ok()) return s;
  return OnAddressesChanged();
}

absl::Status Device::OnAddressesChanged() {
  std::vector<net::LocalAddress> addresses;
  for (const GidPair& pair : gids_->Pairs()) {
    addresses.push_back({pair.gid, pair.prefix_bits});
  }
  {
    Engine::ControlScope scope(engine());
    network().SetAddresses(std::move(addresses), engine().Now());
  }
  OnRoutesChanged();
  const int error =
      hooks_.set_gids == nullptr ? 0 : hooks_.set_gids(gids_->Snapshot().get());
  {
    std::lock_guard lock(listeners_mutex_);
    for (EventSink* sink : listeners_) sink->OnGidChange();
  }
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      identity_.name, ": the files in sysfs still show the old addresses: ",
      std::strerror(-error)));
}

absl::Status Device::AddRoute(const net::Route& route) {
  if (absl::Status s = routes_.CheckGateway(route, gids_->Pairs()); !s.ok()) {
    return s;
  }
  if (absl::Status s = routes_.Add(route); !s.ok()) return s;
  OnRoutesChanged();
  return absl::OkStatus();
}

absl::Status Device::RemoveRoute(const net::Route& route) {
  if (absl::Status s = routes_.Remove(route); !s.ok()) return s;
  OnRoutesChanged();
  return absl::OkStatus();
}

void Device::OnRoutesChanged() {
  // The routes are read under the mutex, so the last caller sets the newest
  // ones.
  std::lock_guard lock(route_change_mutex_);
  const std::vector<net::Route> routes = routes_.For(gids_->Pairs());
  Engine::ControlScope scope(engine());
  network().SetRoutes(routes, engine().Now());
}

void Device::Listen(EventSink* sink) {
  std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(sink);
}

void Device::Unlisten(EventSink* sink) {
  std::lock_guard lock(listeners_mutex_);
  std::erase(listeners_, sink);
}

PortAttributes Device::QueryPort() const {
  const auto count = [this](RxVerdict verdict) {
    return static_cast<uint32_t>(
        nic_->engine().counters().verdicts[static_cast<size_t>(verdict)]);
  };
  return {.bad_pkeys = count(RxVerdict::kBadPkey),
          .bad_qkeys = count(RxVerdict::kBadQkey),
          .active = IsActive(nic_->port().info()),
          .active_mtu = MtuCode(mtu_max())};
}

uint32_t Device::mtu_max() const {
  constexpr uint32_t kLeast = 256;
  const uint32_t now = nic_->port().info().interface_mtu;
  return std::clamp(urnic_ib_mtu(now != 0 ? now : identity_.mtu), kLeast,
                    urnic_ib_mtu(nic_->port().mtu()));
}

namespace {

// Never destroyed: programs may close devices while they exit.
struct PdIds {
  std::mutex mutex;
  uint32_t next = 1;
  std::deque<uint32_t> returned;
};
PdIds& ThePdIds() {
  static PdIds* const ids = new PdIds;
  return *ids;
}

}  // namespace

uint32_t Device::TakePdId() {
  constexpr size_t kRest = 1 << 16;
  PdIds& ids = ThePdIds();
  std::lock_guard lock(ids.mutex);
  if (ids.returned.size() <= kRest) return ids.next++;
  const uint32_t id = ids.returned.front();
  ids.returned.pop_front();
  return id;
}

void Device::ReturnPdId(uint32_t id) {
  PdIds& ids = ThePdIds();
  std::lock_guard lock(ids.mutex);
  ids.returned.push_back(id);
}

uint32_t Device::window_packets() const {
  // Half of the ring stays free for other queue pairs and for responses.
  const uint32_t ring = nic_->port().info().rx_ring;
  return ring == 0 ? kWindowPackets
                   : std::clamp<uint32_t>(ring / 2, 2, kWindowPackets);
}

void Device::GuardMemory() {
  InstallMemoryGuard(hooks_.set_signal_hooks, hooks_.chain_signal,
                     hooks_.mask_changes);
}

absl::Status Device::Add(std::atomic<int>& count, uint32_t limit,
                         const char* what) {
  if (static_cast<uint32_t>(++count) <= limit) return absl::OkStatus();
  --count;
  return absl::ResourceExhaustedError(
      absl::StrCat(identity_.name, ": all ", limit, " ", what, " in use"));
}

}  // namespace urnic::control
