#include "datapath/port/port_keeper.h"

#include <poll.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datapath/guest/engine_thread.h"
#include "datapath/guest/monotonic_clock.h"
#include "datapath/port/socket_trust.h"
#include "datapath/port/stale_socket.h"
#include "datapath/port/unix_socket.h"
#include "ras/errors/refusal.h"
#include "verbs/libc/high_fd.h"

namespace urnic {
namespace {

constexpr int kBackOffMinMs = 20;
constexpr int kBackOffMaxMs = 500;
// How often the link of a driver without reports is checked.
constexpr int kPollLinkMs = 50;
// How often an interface is checked without netlink.
constexpr int kPollInterfaceMs = 200;
constexpr int kStopSteps = 5000;
constexpr int kStepUs = 1000;

void Signal(int fd) {
  const uint64_t one = 1;
  static_cast<void>(write(fd, &one, sizeof(one)) == 0);
}

// True if the kernel refuses packet sockets to this process, or refuses what
// the driver does with the interface (it sets an address and promiscuous mode).
bool LacksRights(const absl::Status& status) {
  if (absl::StrContains(status.message(), strerror(EPERM))) return true;
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno == EPERM || errno == EACCES;
  close(fd);
  return false;
}

// Why there is no device, and what to do about it; an empty remedy if only the
// peer is missing.
struct Trouble {
  std::string text;
  std::string remedy;
};

Trouble Diagnose(const PortSpec& spec, const absl::Status& status) {
  Trouble trouble{std::string(status.message()), ""};
  const bool file = !spec.socket_path.empty();
  if (spec.kind == PortKind::kAfPacket && LacksRights(status)) {
    trouble.text =
        absl::StrCat(spec.identity, ": needs CAP_NET_RAW and CAP_NET_ADMIN");
    trouble.remedy =
        "run as root, or with both as ambient capabilities (setpriv; setcap "
        "does not work, because such a program ignores LD_PRELOAD), or, with "
        "interfaces of its own, under unshare -Urn";
  } else if (spec.kind == PortKind::kVirtioUser && !spec.listens) {
    // Otherwise the peer left its socket behind, or has just ended.
    if (access(spec.socket_path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) {
      trouble.remedy = absl::StrCat("make ", spec.socket_path,
                                    " readable and writable for this user");
    }
  } else if (spec.kind == PortKind::kMemif && !spec.listens) {
    // Its start fails until the server runs.
  } else if (file && spec.listens) {
    trouble.remedy =
        absl::StrCat("the socket ", spec.socket_path,
                     " is created by this side: its directory must exist and "
                     "be writable, and no other program may listen there");
  } else {
    trouble.remedy =
        "`urnic doctor` says what this machine lacks; URNIC_DEBUG=- shows "
        "DPDK's own messages";
  }
  return trouble;
}

bool EpollControl(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

}  // namespace

PortKeeper::PortKeeper(PortSpec spec, rte_mempool* pool, uint16_t rx_ring,
                       uint16_t tx_ring, PortReport report, PortWarning warn)
    : spec_(std::move(spec)),
      pool_(pool),
      rx_ring_(rx_ring),
      tx_ring_(tx_ring),
      number_([] {
        static std::atomic<unsigned> next;
        return next.fetch_add(1);
      }()),
      report_(std::move(report)),
      warn_(std::move(warn)),
      faults_(spec_.faults, MonotonicNow()) {}

PortKeeper::~PortKeeper() {
  if (leave_fds_open_) return;
  for (int fd : {epoll_fd_, engine_event_fd_, event_fd_}) {
    if (fd >= 0) close(fd);
  }
}

absl::Status PortKeeper::OpenDescriptors() {
  epoll_fd_ = urnic_move_fd_high(epoll_create1(EPOLL_CLOEXEC));
  engine_event_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  event_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (epoll_fd_ < 0 || engine_event_fd_ < 0 || event_fd_ < 0 ||
      !EpollControl(epoll_fd_, EPOLL_CTL_ADD, engine_event_fd_,
                    EPOLLIN | EPOLLET)) {
    return Refusal(
        ErrorCode::kNoDescriptors,
        absl::StrCat(spec_.identity, ": descriptors: ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PortKeeper>> PortKeeper::Start(
    PortSpec spec, rte_mempool* pool, uint16_t rx_ring, uint16_t tx_ring,
    PortReport report, PortWarning warn) {
  std::shared_ptr<PortKeeper> keeper(
      new PortKeeper(std::move(spec), pool, rx_ring, tx_ring, std::move(report),
                     std::move(warn)));
  if (absl::Status s = keeper->OpenDescriptors(); !s.ok()) return s;
  auto* handover = new std::shared_ptr<PortKeeper>(keeper);
  const SignalsHeldBack held_back;
  pthread_t thread;
  const int rc = pthread_create(&thread, nullptr, ThreadMain, handover);
  if (rc != 0) {
    delete handover;
    return Refusal(
        ErrorCode::kNoDescriptors,
        absl::StrCat(keeper->spec_.identity, ": thread: ", strerror(rc)));
  }
  pthread_setname_np(thread, "urnic-keeper");
  pthread_detach(thread);
  return keeper;
}

void* PortKeeper::ThreadMain(void* self) {
  auto* handover = static_cast<std::shared_ptr<PortKeeper>*>(self);
  const std::shared_ptr<PortKeeper> keeper = std::move(*handover);
  delete handover;
  keeper->Run();
  keeper->stopped_ = true;
  return nullptr;
}

bool PortKeeper::Stop() {
  stop_ = true;
  Signal(event_fd_);
  for (int i = 0; i < kStopSteps; ++i) {
    if (stopped_) return true;
    usleep(kStepUs);
  }
  return false;
}

void PortKeeper::Run() {
  if (spec_.kind == PortKind::kAfPacket) {
    interface_ = std::make_unique<InterfaceWatch>(spec_.name);
  }
  while (!stop_) {
    if (PrerequisitesMet() && Probe() && BringUp()) {
      backoff_ms_ = 0;
      Watch();
      TakeDown();
      if (!stop_) {
        Say(PortState::kFailed, absl::StrCat(spec_.identity, " went away"));
      }
    }
    if (!stop_) WaitBackOff();
  }
  AbandonProbe();
  TakeDown();
}

bool PortKeeper::PrerequisitesMet() {
  if (faults_.IsRemoved(MonotonicNow())) {
    Say(was_up_ ? PortState::kRemoved : PortState::kStarting,
        absl::StrCat(spec_.identity, " is removed on purpose"));
    return false;
  }
  if (interface_ != nullptr && interface_->Read().index == 0) {
    Say(was_up_ ? PortState::kRemoved : PortState::kStarting,
        absl::StrCat("interface ", spec_.name, " does not exist"),
        "create it, or move it into this network namespace; then the port "
        "comes up by itself");
    return false;
  }
  if (spec_.kind == PortKind::kVirtioUser && !spec_.listens &&
      access(spec_.socket_path.c_str(), F_OK) != 0) {
    Say(WithoutDevice(), absl::StrCat("no listener at ", spec_.socket_path));
    return false;
  }
  return true;
}

bool PortKeeper::Probe() {
  if (device_ != nullptr) return true;
  if (probe_ == nullptr) {
    probe_ = std::make_unique<DeviceProbe>(spec_, number_, event_fd_);
  }
  if (!probe_->done()) {
    Say(PortState::kStarting,
        absl::StrCat("waiting for a peer at ", spec_.socket_path));
    while (!stop_ && !probe_->done()) Wait(-1);
    if (stop_) return false;
  }
  absl::StatusOr<std::unique_ptr<DpdkDevice>> device = probe_->Take();
  probe_ = nullptr;
  if (!device.ok()) {
    SayFailure(device.status());
    return false;
  }
  std::lock_guard lock(mutex_);
  device_ = std::move(*device);
  return true;
}

bool PortKeeper::BringUp() {
  absl::Status status;
  if (!configured_) {
    status = device_->Configure(pool_, rx_ring_, tx_ring_, &gate_, event_fd_);
    std::lock_guard lock(mutex_);
    configured_ = status.ok();
    finishes_tcp_checksums_ = device_->finishes_tcp_checksums();
  }
  if (status.ok()) status = device_->Start();
  if (!status.ok()) {
    // A memif client lacks only its server: the device can stay.
    if (!configured_ || spec_.kind != PortKind::kMemif) TakeDown();
    SayFailure(status);
    return false;
  }
  replace_ = nullptr;  // meant the device before
  WarnOfOthers();
  AddWakeup();
  {
    std::lock_guard lock(mutex_);
    ++past_.incarnations;
  }
  gate_.Publish(device_->id());
  was_up_ = true;
  return true;
}

// Returns when the device must be replaced or the port is closed.
void PortKeeper::Watch() {
  had_carrier_ = false;
  bool said_up = false;
  uint32_t seen = device_->changes() - 1;
  while (!stop_ && LookForFaults() == Verdict::kKeep &&
         LookAfterDevice() == Verdict::kKeep) {
    const bool up = gate_.Peek().carrier();
    const uint32_t changes = device_->changes();
    if (up != said_up || changes != seen) {
      said_up = up;
      seen = changes;
      SayLink(up);
      WakeEngine();
    }
    Wait(WatchIntervalMs());
  }
}

int PortKeeper::WatchIntervalMs() const {
  if (interface_ != nullptr) {
    return interface_->fd() >= 0 ? -1 : kPollInterfaceMs;
  }
  return spec_.kind == PortKind::kMemif ? kPollLinkMs : -1;
}

bool PortKeeper::ReplaceDevice(const char* why) {
  if (spec_.kind != PortKind::kAfPacket) return false;
  replace_ = why;
  Signal(event_fd_);
  return true;
}

PortKeeper::Verdict PortKeeper::LookForFaults() {
  const Time now = MonotonicNow();
  gate_.SetBarred(faults_.IsDown(now));
  const char* why = replace_.exchange(nullptr);
  if (faults_.TakeReset(now)) why = "reset on purpose";
  if (why != nullptr) {
    Say(PortState::kFailed, absl::StrCat(spec_.identity, ": ", why));
  }
  return why != nullptr || faults_.IsRemoved(now) ? Verdict::kReplace
                                                  : Verdict::kKeep;
}

PortKeeper::Verdict PortKeeper::LookAfterDevice() {
  if (interface_ != nullptr) {
    const InterfaceState state = interface_->Read();
    if (state.index != device_->interface_index()) return Verdict::kReplace;
    SayMtu(state.mtu);
    WarnOfRefused();
    if (state.running) ForgetPacketSocketError(device_->wake_fd());
    if (state.running != gate_.Peek().has_carrier_bit()) {
      gate_.SetCarrier(state.running);
    }
    return Verdict::kKeep;
  }
  if (!device_->reports_link()) device_->PollLink();
  if (gate_.Peek().has_carrier_bit()) {
    had_carrier_ = true;
    return Verdict::kKeep;
  }
  // A client that has lost its server does not look for a new one. A
  // virtio_user client was connected from the start. A memif client may still
  // be in its handshake, or may have been turned away: a server listens before
  // it accepts connections.
  const bool lost = spec_.kind == PortKind::kVirtioUser ||
                    (spec_.kind == PortKind::kMemif &&
                     (had_carrier_ || !HasConnection(spec_.socket)));
  return lost && !spec_.listens ? Verdict::kReplace : Verdict::kKeep;
}

void PortKeeper::TakeDown() {
  if (device_ == nullptr) return;
  gate_.Withdraw();
  RemoveWakeup();
  std::unique_ptr<DpdkDevice> device;
  {
    std::lock_guard lock(mutex_);
    if (configured_) device_->AddCounters(past_);
    configured_ = false;
    device = std::move(device_);
    info_.rx_ring = info_.tx_ring = 0;
  }
  // Without the mutex: this waits for DPDK's threads.
  device = nullptr;
  // The driver may have set the carrier once more while it closed.
  gate_.Withdraw();
  WakeEngine();
}

void PortKeeper::AbandonProbe() {
  if (probe_ == nullptr) return;
  if (!probe_->Abandon()) {
    leave_fds_open_ = true;
    return;
  }
  absl::StatusOr<std::unique_ptr<DpdkDevice>> device = probe_->Take();
  probe_ = nullptr;
  if (device.ok()) {
    std::lock_guard lock(mutex_);
    device_ = std::move(*device);
  } else if (spec_.listens) {
    RemoveStaleSocket(spec_.socket_path);
  }
}

// --- Sleeping and waking ----------------------------------------------------

void PortKeeper::Wait(int timeout_ms) {
  pollfd fds[2] = {{.fd = event_fd_, .events = POLLIN, .revents = 0},
                   {.fd = -1, .events = POLLIN, .revents = 0}};
  if (interface_ != nullptr) fds[1].fd = interface_->fd();
  const int edge_ms = faults_.MsToNextEdge(MonotonicNow());
  if (edge_ms >= 0 && (timeout_ms < 0 || edge_ms < timeout_ms)) {
    timeout_ms = edge_ms;
  }
  poll(fds, 2, timeout_ms);
  uint64_t count;
  static_cast<void>(read(event_fd_, &count, sizeof(count)) == 0);
}

void PortKeeper::WaitBackOff() {
  backoff_ms_ = std::clamp(2 * backoff_ms_, kBackOffMinMs, kBackOffMaxMs);
  Wait(backoff_ms_);
}

void PortKeeper::WakeEngine() { Signal(engine_event_fd_); }

void PortKeeper::AddWakeup() {
  wake_kind_ = device_->wake_kind();
  wake_fd_ = device_->wake_fd();
  // An eventfd is never read, so only its edges are meaningful. A socket is
  // readable as long as frames wait, and is watched only while armed.
  if (wake_kind_ == WakeKind::kInterrupt) {
    EpollControl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, EPOLLIN | EPOLLET);
  } else if (wake_kind_ == WakeKind::kSocket) {
    EpollControl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, 0);
  }
}

void PortKeeper::RemoveWakeup() {
  if (wake_kind_ != WakeKind::kNone) {
    EpollControl(epoll_fd_, EPOLL_CTL_DEL, wake_fd_, 0);
  }
  wake_kind_ = WakeKind::kNone;
  wake_fd_ = -1;
}

void PortKeeper::DiscardEdges() {
  epoll_event events[4];
  epoll_wait(epoll_fd_, events, 4, 0);
}

bool PortKeeper::Arm() {
  const DeviceGate::View device = gate_.Enter();
  bool can = true;
  // Discards earlier notifications, also of an earlier device: poll() on an
  // epoll descriptor reports an edge again and again until it is fetched.
  DiscardEdges();
  if (device.present()) {
    switch (wake_kind_) {
      case WakeKind::kNone:
        can = false;
        break;
      case WakeKind::kInterrupt:
        rte_eth_dev_rx_intr_enable(device.id(), 0);
        break;
      case WakeKind::kSocket:
        EpollControl(epoll_fd_, EPOLL_CTL_MOD, wake_fd_, EPOLLIN);
        break;
    }
  }
  gate_.Leave();
  return can;
}

void PortKeeper::Disarm() {
  const DeviceGate::View device = gate_.Enter();
  if (device.present() && wake_kind_ == WakeKind::kInterrupt) {
    rte_eth_dev_rx_intr_disable(device.id(), 0);
  } else if (device.present() && wake_kind_ == WakeKind::kSocket) {
    EpollControl(epoll_fd_, EPOLL_CTL_MOD, wake_fd_, 0);
  }
  gate_.Leave();
  DiscardEdges();
}

// --- Reports ----------------------------------------------------------------

void PortKeeper::Say(PortState state, std::string text, std::string remedy) {
  std::unique_lock lock(mutex_);
  const bool news = info_.text != text;
  info_.state = state;
  info_.text = std::move(text);
  info_.remedy = std::move(remedy);
  if (!news || report_ == nullptr) return;
  const PortInfo info = info_;
  lock.unlock();
  report_(info);
}

void PortKeeper::SayFailure(const absl::Status& status) {
  // The interface may just have been removed, which the next attempt reports
  // better.
  if (interface_ != nullptr && interface_->Read().index == 0) return;
  Trouble trouble = Diagnose(spec_, status);
  Say(WithoutDevice(), std::move(trouble.text), std::move(trouble.remedy));
}

void PortKeeper::SayLink(bool up) {
  if (up) {
    Say(PortState::kUp, absl::StrCat(spec_.identity, " is up"));
  } else if (!gate_.Peek().open()) {
    Say(PortState::kLinkDown,
        absl::StrCat("the link of ", spec_.identity, " is down on purpose"));
  } else if (interface_ != nullptr) {
    Say(PortState::kLinkDown,
        absl::StrCat("interface ", spec_.name, " is down"));
  } else {
    Say(PortState::kNoPeer,
        absl::StrCat(spec_.identity, ": waiting for a peer"));
  }
  if (up) device_->MarkPeerDescriptors();
  std::lock_guard lock(mutex_);
  device_->ReadRings(info_.rx_ring, info_.tx_ring);
}

void PortKeeper::SayMtu(int mtu) {
  std::unique_lock lock(mutex_);
  const auto now = static_cast<uint32_t>(std::max(mtu, 0));
  if (info_.interface_mtu == now) return;
  info_.interface_mtu = now;
  interface_mtu_.store(now, std::memory_order_relaxed);
  WakeEngine();
  // At first there is no text to report.
  if (report_ == nullptr || info_.text.empty()) return;
  const PortInfo info = info_;
  lock.unlock();
  report_(info);
}

// Once, unless the next warning is a different one.
void PortKeeper::WarnOfOthers() {
  const std::string line = WhoElseMayJoin(spec_);
  if (line.empty() || line == warned_ || warn_ == nullptr) return;
  warned_ = line;
  warn_(line);
}

// Once.
void PortKeeper::WarnOfRefused() {
  const uint32_t bytes = device_->refused_bytes();
  if (bytes == 0 || warned_of_refused_ || warn_ == nullptr) return;
  warned_of_refused_ = true;
  warn_(absl::StrCat(
      "interface ", spec_.name, " refuses frames of ", bytes,
      " bytes: they are lost (tx_errors counts them). Probably the MTU is "
      "smaller at the other end of its link. Set the same MTU at both ends, or "
      "start with a smaller --mtu"));
}

void PortKeeper::AddCounters(PortCounters& sum) const {
  std::lock_guard lock(mutex_);
  sum.rx_packets += past_.rx_packets;
  sum.rx_bytes += past_.rx_bytes;
  sum.rx_missed += past_.rx_missed;
  sum.rx_no_mbuf += past_.rx_no_mbuf;
  sum.tx_packets += past_.tx_packets;
  sum.tx_bytes += past_.tx_bytes;
  sum.tx_errors += past_.tx_errors;
  sum.incarnations += past_.incarnations;
  if (configured_) device_->AddCounters(sum);
}

PortInfo PortKeeper::info() const {
  std::lock_guard lock(mutex_);
  return info_;
}

}  // namespace urnic
