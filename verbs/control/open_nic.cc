#include "verbs/control/open_nic.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/helper_thread.h"
#include "datapath/engine/network.h"
#include "datapath/guest/give_way.h"
#include "datapath/nic/nic.h"
#include "datapath/port/fault_port.h"
#include "datapath/port/port.h"
#include "datapath/port/port_factory.h"
#include "ras/errors/refusal.h"
#include "ras/metrics/counters.h"
#include "transport/base/check.h"
#include "transport/iwarp/options/options_spec.h"
#include "transport/wire/address_text.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/control_socket.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/error_log.h"
#include "verbs/control/fork_guard.h"
#include "verbs/control/limits.h"
#include "verbs/control/no_listener.h"
#include "verbs/control/port_reporter.h"
#include "verbs/control/recorder.h"
#include "verbs/control/recovery.h"
#include "verbs/control/ring_facts.h"
#include "verbs/control/shared_places.h"
#include "verbs/control/stats_file.h"
#include "verbs/control/trace_facts.h"

namespace urnic::control {

namespace {

// By position in URNIC_PORTS.
using OpenNics = SharedPlaces<OpenNic, URNIC_MAX_PORTS>;

OpenNics& TheOpenNics() {
  static OpenNics* const nics = new OpenNics;
  return *nics;
}

uint8_t MtuCode(uint32_t bytes) {
  return static_cast<uint8_t>(std::bit_width(bytes / 256));
}

// A port that waits for its peer counts as active, because programs query once,
// right after they open the device. A port that has not come up yet (its text
// is empty), or that needs a fix by the user first, is not active.
bool IsActive(const PortInfo& info) {
  switch (info.state) {
    case PortState::kFailed:
    case PortState::kLinkDown:
    case PortState::kRemoved:
      return false;
    case PortState::kStarting:
    case PortState::kUp:
    case PortState::kNoPeer:
      break;
  }
  return !info.text.empty() && info.remedy.empty();
}

}  // namespace

absl::StatusOr<std::shared_ptr<OpenNic>> OpenNic::Open(
    const urnic_device_identity& identity, const ProgramHooks& hooks) {
  return TheOpenNics().Share(
      static_cast<size_t>(identity.ordinal),
      [&]() -> absl::StatusOr<std::unique_ptr<OpenNic>> {
        std::unique_ptr<OpenNic> nic(new OpenNic(identity, hooks));
        if (absl::Status s = nic->Start(); !s.ok()) return s;
        return nic;
      });
}

void OpenNic::FlushAll() {
  if (InForkedChild()) return;
  TheOpenNics().VisitAtExit([](OpenNic& nic) {
    // The first call may receive packets; the second sends their
    // acknowledgements.
    nic.engine().Progress();
    nic.engine().Progress();
  });
}

void OpenNic::AwaitHeldFrames() {
  if (InForkedChild()) return;
  // False: no open port holds frames.
  const auto take_turns = [] {
    bool any = false;
    TheOpenNics().VisitAtExit([&any](OpenNic& nic) {
      if (nic.port().frames_held() == 0) return;
      any = true;
      nic.engine().Progress();
    });
    return any;
  };
  // The clock can be read only after a port has been opened.
  if (!take_turns()) return;
  const Time end = Environment::Now() + FaultPort::kLastFrames;
  while (Environment::Now() < end && take_turns()) GiveWay();
}

void OpenNic::ReportAll() {
  if (InForkedChild()) return;
  static constexpr Duration kPatience = Duration::Milliseconds(200);
  TheOpenNics().VisitAtExit([](OpenNic& nic) {
    nic.Report();
    if (nic.error_log_ != nullptr) nic.error_log_->AwaitWritten(kPatience);
    if (nic.recorder_ != nullptr) nic.recorder_->End(kPatience);
  });
}

OpenNic::OpenNic(const urnic_device_identity& identity,
                 const ProgramHooks& hooks)
    : identity_(identity),
      hooks_(hooks),
      gids_(GidTable::Of(identity)),
      routes_(identity) {}

absl::StatusOr<std::unique_ptr<Port>> OpenNic::MakePort(
    std::vector<std::string>& removed) {
  PortConfig config;
  config.dev = identity_.dev;
  if (identity_.ifname[0] == '\0' || identity_.mtu_is_given != 0) {
    config.mtu = static_cast<uint16_t>(identity_.mtu);
  }
  std::copy_n(identity_.mac, config.mac.bytes.size(), config.mac.bytes.begin());
  config.mac_of_interface = identity_.mac_is_port != 0;
  config.fault = identity_.fault;
  config.report = [this,
                   tell = PortReporter(name())](const PortInfo& info) mutable {
    tell(info);
    OnPortReport(info);
    AnnounceIfUp(info);
  };
  config.warn = [name = std::string(name())](const std::string& line) {
    ComplainLoudly(absl::StrCat(name, ": ", line));
  };
  config.removed = [&removed](const std::string& what) {
    removed.push_back(what);
  };
  return CreatePort(config);
}

namespace {

// The devices of a port share the tables of its network. The tables have the
// room that each kind of device promises.
NetworkLimits LimitsOf(const urnic_device_identity& identity) {
  const urnic_device_limits* limits = &identity.device_kind->limits;
  NetworkLimits most = {.max_qps = limits->max_qps,
                        .max_mrs = limits->max_mrs,
                        .max_srqs = limits->max_srqs};
  if (std::has_single_bit(identity.kinds)) return most;
  for (const urnic_device_kind& kind : urnic_device_kinds) {
    most.max_qps = std::max(most.max_qps, kind.limits.max_qps);
    most.max_mrs = std::max(most.max_mrs, kind.limits.max_mrs);
    most.max_srqs = std::max(most.max_srqs, kind.limits.max_srqs);
  }
  return most;
}

}  // namespace

NicConfig OpenNic::MakeNicConfig(const iwarp::Options& options) const {
  NicConfig config;
  config.limits = LimitsOf(identity_);
  config.iwarp = Has(URNIC_DEVICE_IWARP);
  config.iwarp_options = options;
  config.vlan = static_cast<uint16_t>(identity_.vlan);
  for (const GidPair& pair : gids_->Pairs()) {
    config.addresses.push_back({pair.gid, pair.prefix_bits});
  }
  config.pkeys.assign(identity_.pkeys, identity_.pkeys + identity_.num_pkeys);
  config.on_path_mtu = [name = std::string(name())](const auto& m) {
    DebugLog(absl::StrCat(name, ": a router on the way to ",
                          wire::IpText(m.remote), " takes ", m.mtu,
                          " bytes at most; queue pairs with a path_mtu above ",
                          urnic_ib_mtu(m.mtu), " do not reach it"));
  };
  config.on_unfinished_checksum = [name = std::string(name()), told = false](
                                      const wire::Gid& peer) mutable {
    if (std::exchange(told, true)) return;
    ComplainLoudly(absl::StrCat(
        name, ": TCP segments from ", wire::IpText(peer),
        " arrive without their checksum and are dropped; on that host, or in "
        "its network namespace: ethtool -K INTERFACE tx off"));
  };
  return config;
}

void OpenNic::OpenControlSocket() {
  if (hooks_.run_dir == nullptr || hooks_.run_dir() == nullptr) return;
  control_socket_ = std::make_unique<ControlSocket>(
      hooks_.run_dir(), DeviceNames(),
      [this](std::string_view request, const ControlSocket::Reply& reply) {
        AnswerControl(*this, request, reply);
      });
}

void OpenNic::NameRemoved(std::vector<std::string> all) {
  static std::atomic<bool> is_told = false;
  if (hooks_.removed != nullptr && !is_told.exchange(true)) {
    for (int i = 0; const char* const text = hooks_.removed(i); ++i)
      all.emplace_back(text);
  }
  // Reported once, even if the port has two devices.
  const uint32_t first_kind = identity_.kinds & -identity_.kinds;
  for (const std::string& what : all) {
    DebugLog(absl::StrCat(name(), ": ", ErrorName(ErrorCode::kLeftOverRemoved),
                          ": a program that died had left this, and it was "
                          "removed: ",
                          what));
    NoteOfKinds(first_kind, ErrorCode::kLeftOverRemoved, what);
  }
}

absl::Status OpenNic::Start() {
  const auto options = iwarp::ParseOptions(identity_.iwarp);
  if (!options.ok()) return options.status();
  std::vector<std::string> removed;
  auto port = MakePort(removed);
  if (!port.ok()) return port.status();
  nic_ = std::make_unique<Nic>(*std::move(port), MakeNicConfig(*options));
  recovery_ = std::make_unique<Recovery>(*this);
  // The connection management of iWARP does not use QP1.
  if (Has(URNIC_DEVICE_ROCE)) {
    no_listener_ = std::make_unique<NoListener>(identity_.sys_image_guid);
    no_listener_->Serve(network());
  }
  if (absl::Status s = HelperThread::Start(engine()); !s.ok()) {
    reported_ = true;  // nothing has been counted
    return s;
  }
  OnRoutesChanged();
  routes_.Follow([this] { OnRoutesChanged(); });
  SetChosenTraceLevels(*this);
  OpenControlSocket();
  error_log_ = ErrorLog::Start(*this);
  recorder_ = Recorder::Start(*this);
  NameRemoved(std::move(removed));
  nic_->AwaitPort();
  {
    std::lock_guard lock(announce_mutex_);
    is_whole_ = true;
    was_up_ = false;
  }
  AnnounceIfUp(nic_->port().info());
  std::lock_guard lock(watchers_mutex_);
  recovery_->OnPort(nic_->port().info());
  if (!told_active_) {
    // A port that is down from the start, or has no wire, is not reported.
    told_active_ = IsActive(nic_->port().info());
    ShowPortState();
  }
  return absl::OkStatus();
}

OpenNic::~OpenNic() {
  // A port that failed to start has counted nothing.
  if (nic_ == nullptr) return;
  {
    std::lock_guard lock(announce_mutex_);
    is_whole_ = false;
  }
  recovery_ = nullptr;
  nic_->AwaitHeldFrames();
  Report();
  NameLeaks();
}

void OpenNic::NameLeaks() {
  NoteUntold(*this);
  for (const MemoryTracker::Use& use : memory_.Uses()) {
    Engine::ControlScope scope(engine());
    engine().failures().Add(
        {.code = ErrorCode::kMemoryLeak,
         .text =
             absl::StrCat(use.count, " of type ", use.type, " with ", use.bytes,
                          " bytes, made in ", use.place.file, ":",
                          use.place.line, " (", use.place.function, ")")});
  }
}

Engine& OpenNic::engine() { return nic_->engine(); }
Network& OpenNic::network() { return nic_->network(); }
Port& OpenNic::port() { return nic_->port(); }

EngineCounters OpenNic::CountersOfAll() {
  // exit() may have been called inside the engine, or while a thread that will
  // not run again holds the token. Then existing objects are not counted.
  constexpr Duration kPatience = Duration::Milliseconds(100);
  Engine::ControlScope scope(engine(), kPatience);
  if (scope.entered()) return engine().CountersOfAll();
  EngineCounters counters = engine().counters();
  counters.roce.AddVerdicts(counters.verdicts);
  return counters;
}

// Writes once: a port that is closed after exit() has already been reported.
void OpenNic::Report() {
  if (reported_) return;
  reported_ = true;
  if (!StatsAreWanted()) return;
  const EngineCounters counters = CountersOfAll();
  // If there are two devices: the one that was used, or the first.
  const bool only_iwarp = counters.roce_qps == 0 && counters.iwarp_qps != 0;
  const std::string device =
      only_iwarp ? DeviceName(URNIC_DEVICE_IWARP) : name();
  AppendStats(device.c_str(), counters, port().counters(),
              port().fault_counts());
}

void OpenNic::OnPortReport(const PortInfo& info) {
  std::lock_guard lock(watchers_mutex_);
  // The lock keeps the recovery alive.
  std::lock_guard whole(announce_mutex_);
  TellPortState(info, is_whole_);
  if (is_whole_) recovery_->OnPort(info);
}

void OpenNic::TellPortState(const PortInfo& info, bool is_whole) {
  const bool active = IsActive(info) && (!is_whole || recovery_->works());
  if (active == told_active_) return;
  told_active_ = active;
  ShowPortState();
  if (is_whole) {
    NoteOfPort(active ? ErrorCode::kPortUp : ErrorCode::kPortDown, info.text);
  }
  for (Watcher* watcher : watchers_) watcher->OnPortState(active);
}

void OpenNic::NoteOfPort(ErrorCode code, const std::string& text) {
  NoteOfKinds(identity_.kinds, code, text);
}

void OpenNic::NoteOfKinds(uint32_t kinds, ErrorCode code,
                          const std::string& text) {
  Engine::ControlScope scope(engine());
  for (int kind = 0; kind < URNIC_DEVICE_KINDS; ++kind) {
    if ((kinds & 1u << kind) == 0) continue;
    engine().failures().Add(
        {.code = code, .iwarp = kind == URNIC_DEVICE_IWARP, .text = text});
  }
}

void OpenNic::KeepDump(
    const std::function<void(const std::string& path)>& before) {
  if (recorder_ != nullptr) return recorder_->KeepDump(before);
  before("");
}

void OpenNic::FailBusyQps() {
  std::lock_guard lock(watchers_mutex_);
  for (Watcher* watcher : watchers_) watcher->FailBusyQps();
}

void OpenNic::NoteBlocked(
    const std::vector<std::pair<std::string, uint32_t>>& qps,
    const std::string& text) {
  uint32_t kinds = 0;
  for (int kind = 0; kind < URNIC_DEVICE_KINDS; ++kind) {
    const std::string device = DeviceName(kind);
    if (std::ranges::any_of(
            qps, [&](const auto& qp) { return qp.first == device; })) {
      kinds |= 1u << kind;
    }
  }
  NoteOfKinds(kinds, ErrorCode::kRecoveryBlocked, text);
}

void OpenNic::OnDeviceFailed() {
  {
    std::lock_guard lock(watchers_mutex_);
    for (Watcher* watcher : watchers_) watcher->OnDeviceFailed();
  }
  const ConnectionHooks* const hooks = TheConnectionHooks();
  if (hooks == nullptr) return;
  for (const std::string& device : DeviceNames()) hooks->device_failed(device);
}

void OpenNic::OnDeviceRecovered() {
  {
    Engine::ControlScope scope(engine());
    network().OnRecovery();
  }
  NoteOfPort(ErrorCode::kDeviceRecovered, port().info().text);
  std::lock_guard lock(watchers_mutex_);
  TellPortState(port().info(), /*is_whole=*/true);
}

std::vector<std::pair<std::string, uint32_t>> OpenNic::BusyQps() {
  std::vector<std::pair<std::string, uint32_t>> failed;
  std::lock_guard lock(watchers_mutex_);
  for (Watcher* watcher : watchers_) {
    for (const uint32_t number : watcher->BusyQps())
      failed.emplace_back(watcher->name(), number);
  }
  return failed;
}

void OpenNic::EndConnectionsFrom(const wire::Gid& local) {
  // Gives the peers time to answer the end of their connections.
  constexpr Duration kFarewell = Duration::Milliseconds(20);
  uint32_t ended = 0;
  if (const ConnectionHooks* const hooks = TheConnectionHooks()) {
    for (const std::string& device : DeviceNames())
      ended += hooks->end_connections(device, local);
  }
  const Time end = engine().Now() + kFarewell;
  while (ended != 0 && engine().Now() < end) {
    engine().Progress();
    GiveWay();
  }
  uint32_t failed = 0;
  {
    std::lock_guard lock(watchers_mutex_);
    for (Watcher* watcher : watchers_) failed += watcher->FailQpsFrom(local);
  }
  if (ended + failed == 0) return;
  NoteOfPort(ErrorCode::kAddressRemoved,
             absl::StrCat(wire::IpText(local), ": ", ended,
                          " connections of rdma_cm were disconnected, ", failed,
                          " queue pairs failed"));
}

void OpenNic::AnnounceIfUp(const PortInfo& info) {
  std::lock_guard lock(announce_mutex_);
  const bool comes_up = info.state == PortState::kUp && !was_up_;
  was_up_ = info.state == PortState::kUp;
  if (!comes_up || !is_whole_) return;
  Engine::ControlScope scope(engine());
  network().Announce();
}

std::string OpenNic::DeviceName(int kind) const {
  char device[URNIC_DEVICE_NAME_SIZE];
  urnic_device_name(kind, identity_.ordinal, device);
  return device;
}

std::vector<std::string> OpenNic::DeviceNames() const {
  std::vector<std::string> names;
  for (int kind = 0; kind < URNIC_DEVICE_KINDS; ++kind) {
    if (Has(kind)) names.push_back(DeviceName(kind));
  }
  return names;
}

void OpenNic::ShowPortState() {
  if (hooks_.set_port_active == nullptr) return;
  for (const std::string& device : DeviceNames()) {
    const int error = hooks_.set_port_active(device.c_str(), told_active_);
    if (error == 0) continue;
    DebugLog(absl::StrCat(
        device, ": sysfs still shows the old state: ", std::strerror(-error)));
  }
}

absl::Status OpenNic::AddAddress(const urnic_ip_address& address) {
  std::lock_guard lock(address_change_mutex_);
  if (absl::Status s = gids_->Add(address); !s.ok()) return s;
  return OnAddressesChanged();
}

absl::Status OpenNic::RemoveAddress(const urnic_ip_address& address) {
  std::lock_guard lock(address_change_mutex_);
  if (absl::Status s = gids_->Remove(address); !s.ok()) return s;
  // While the engine still has the address.
  wire::Gid gid;
  urnic_ip_address_gid(&address, gid.bytes.data());
  EndConnectionsFrom(gid);
  return OnAddressesChanged();
}

absl::Status OpenNic::OnAddressesChanged() {
  std::vector<net::LocalAddress> addresses;
  for (const GidPair& pair : gids_->Pairs()) {
    addresses.push_back({pair.gid, pair.prefix_bits});
  }
  {
    Engine::ControlScope scope(engine());
    network().SetAddresses(std::move(addresses), engine().Now());
  }
  OnRoutesChanged();
  // Only RoCE devices show addresses as GIDs.
  const bool shows = hooks_.set_gids != nullptr && Has(URNIC_DEVICE_ROCE);
  const int error = shows ? hooks_.set_gids(gids_->Snapshot().get()) : 0;
  {
    std::lock_guard lock(watchers_mutex_);
    for (Watcher* watcher : watchers_) watcher->OnAddressesChanged();
  }
  if (error == 0) return absl::OkStatus();
  return Refusal(
      ErrorCode::kStaleSysfs,
      absl::StrCat(identity_.port_name,
                   ": the files in sysfs still show the old addresses: ",
                   std::strerror(-error)));
}

absl::Status OpenNic::AddRoute(const net::Route& route) {
  if (absl::Status s = routes_.CheckGateway(route, gids_->Pairs()); !s.ok()) {
    return s;
  }
  if (absl::Status s = routes_.Add(route); !s.ok()) return s;
  OnRoutesChanged();
  return absl::OkStatus();
}

absl::Status OpenNic::RemoveRoute(const net::Route& route) {
  if (absl::Status s = routes_.Remove(route); !s.ok()) return s;
  OnRoutesChanged();
  return absl::OkStatus();
}

void OpenNic::OnRoutesChanged() {
  // The routes are read under the mutex, so the last caller sets the newest
  // ones.
  std::lock_guard lock(route_change_mutex_);
  const std::vector<net::Route> routes = routes_.For(gids_->Pairs());
  Engine::ControlScope scope(engine());
  network().SetRoutes(routes, engine().Now());
}

void OpenNic::Watch(Watcher* watcher) {
  std::lock_guard lock(watchers_mutex_);
  watchers_.push_back(watcher);
}

void OpenNic::Unwatch(Watcher* watcher) {
  std::lock_guard lock(watchers_mutex_);
  std::erase(watchers_, watcher);
}

std::optional<uint64_t> OpenNic::Describe(const std::string& device,
                                          ObjectKind what, uint64_t serial,
                                          std::string& out) {
  std::lock_guard lock(watchers_mutex_);
  for (Watcher* watcher : watchers_) {
    if (device == watcher->name()) return watcher->Describe(what, serial, out);
  }
  return std::nullopt;
}

PortAttributes OpenNic::QueryPort() const {
  const auto count = [this](RxVerdict verdict) {
    return static_cast<uint32_t>(
        nic_->engine().counters().verdicts[static_cast<size_t>(verdict)]);
  };
  return {.bad_pkeys = count(RxVerdict::kBadPkey),
          .bad_qkeys = count(RxVerdict::kBadQkey),
          .active = IsActive(nic_->port().info()) && recovery_->works(),
          .active_mtu = MtuCode(mtu_max())};
}

uint32_t OpenNic::ip_mtu() const {
  const uint32_t now = nic_->port().info().interface_mtu;
  return std::min<uint32_t>(now != 0 ? now : identity_.mtu, nic_->port().mtu());
}

uint32_t OpenNic::mtu_max() const {
  constexpr uint32_t kLeast = 256;
  return std::max(urnic_ib_mtu(ip_mtu()), kLeast);
}

uint32_t OpenNic::window_packets() const {
  // Half of the ring stays free for other queue pairs and for responses.
  const uint32_t ring = nic_->port().info().rx_ring;
  return ring == 0 ? kWindowPackets
                   : std::clamp<uint32_t>(ring / 2, 2, kWindowPackets);
}

void OpenNic::GuardMemory() {
  InstallMemoryGuard(hooks_.set_signal_hooks, hooks_.chain_signal,
                     hooks_.mask_changes);
}

}  // namespace urnic::control
