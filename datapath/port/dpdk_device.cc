#include "datapath/port/dpdk_device.h"

#include <fcntl.h>
#include <pthread.h>
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_eth_vhost.h>
#include <rte_ethdev.h>
#include <rte_memzone.h>
#include <rte_vhost.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/guest/eal.h"
#include "datapath/port/interface_watch.h"
#include "datapath/port/memif_regions.h"
#include "datapath/port/packet_fanout.h"
#include "datapath/port/ring_pair.h"
#include "datapath/port/stale_socket.h"
#include "datapath/port/transmit_ring.h"
#include "datapath/port/unix_socket.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"

namespace urnic {
namespace {

constexpr int kStepUs = 1000;
// The socket of a virtio_user server listens within this time or never.
constexpr int kListenSteps = 2000;
constexpr int kAbandonSteps = 1000;
constexpr int kQuietRounds = 20;
constexpr int kQuietSteps = 2000;
constexpr int kSettleUs = 20'000;
// A peer on a busy machine may be without a CPU for a while.
constexpr int kTransmittedSteps = 300;
constexpr int kMemifGraceUs = 20'000;
// A delay that is longer than all alarms of drivers, which are due in 1 us.
constexpr uint64_t kBarrierUs = 1000;

// DPDK's lists of devices and arguments.
std::mutex g_hotplug;

// The sockets of this process's memif servers; those with different ids share
// a listener. Under g_hotplug; keepers may outlive static objects.
std::multiset<std::string>& MemifServers() {
  static auto* servers = new std::multiset<std::string>;
  return *servers;
}

absl::Status Failed(const PortSpec& spec, const char* what, int error) {
  const std::string message = TakeLastEalError();
  return Refusal(
      ErrorCode::kDeviceFailed,
      absl::StrCat(spec.identity, ": ", what,
                   " failed: ", rte_strerror(error < 0 ? -error : error),
                   message.empty() ? "" : absl::StrCat(" (", message, ")")));
}

std::string DeviceName(const std::string& devargs) {
  return devargs.substr(0, devargs.find(','));
}

int ProbeRing(const PortSpec& spec, unsigned number) {
  absl::StatusOr<RingEnd> end = RingEndOf(spec.name, spec.side);
  if (!end.ok()) return -ENOMEM;
  // The driver adds the prefix "net_ring_".
  const std::string name = absl::StrCat("u", number);
  const int id =
      rte_eth_from_rings(name.c_str(), &end->rx, 1, &end->tx, 1, SOCKET_ID_ANY);
  return id < 0 ? -rte_errno : 0;
}

int Changed(uint16_t, rte_eth_event_type event, void* self, void*) {
  auto* device = static_cast<DpdkDevice*>(self);
  if (event == RTE_ETH_EVENT_INTR_LSC) {
    device->OnLinkChange();
  } else {
    device->OnQueueChange();
  }
  return 0;
}

constexpr rte_eth_event_type kEvents[] = {RTE_ETH_EVENT_INTR_LSC,
                                          RTE_ETH_EVENT_QUEUE_STATE};

// Runs `work` in DPDK's interrupt thread, where drivers react to their sockets,
// after all that is due there now. False if it did not finish in time: `work`
// may then still run, so it must own what it uses.
bool RunInInterruptThread(std::function<void()> work) {
  struct Job {
    std::function<void()> work;
    std::atomic<bool> done = false;
  };
  const auto job = std::make_shared<Job>(std::move(work));
  auto* handover = new std::shared_ptr<Job>(job);
  const auto run = [](void* arg) {
    const std::unique_ptr<std::shared_ptr<Job>> owner(
        static_cast<std::shared_ptr<Job>*>(arg));
    (*owner)->work();
    (*owner)->done = true;
  };
  if (rte_eal_alarm_set(kBarrierUs, run, handover) != 0) {
    delete handover;
    return false;
  }
  for (int i = 0; i < kQuietSteps && !job->done; ++i) usleep(kStepUs);
  return job->done;
}

// The number of frames that a virtio_user port has transmitted and the peer has
// not fetched. The driver does not report it (DPDK 22.11), but the layout of
// its split ring is that of the standard (Virtio 1.1, 2.6): descriptors of 16
// bytes; flags, index and entries of the available ring; on the next page,
// flags and index of the used ring. 0 if there is no such ring.
uint16_t VirtioUnfetched(uint16_t port, uint16_t slots) {
  constexpr size_t kPage = 4096;
  const rte_memzone* zone =
      rte_memzone_lookup(absl::StrCat("port", port, "_vq1").c_str());
  const size_t available = size_t{slots} * 16;
  const size_t used =
      (available + 2 * (2 + size_t{slots} + 1) + kPage - 1) / kPage * kPage;
  if (zone == nullptr || slots == 0 || zone->len < used + 4) return 0;
  const auto* ring = static_cast<const char*>(zone->addr);
  uint16_t made;
  uint16_t fetched;
  std::memcpy(&made, ring + available + 2, sizeof(made));
  std::memcpy(&fetched, ring + used + 2, sizeof(fetched));
  return static_cast<uint16_t>(made - fetched);
}

}  // namespace

DpdkDevice::DpdkDevice(const PortSpec& spec, uint16_t id)
    : spec_(spec), id_(id) {
  rte_eth_dev_info info = {};
  if (rte_eth_dev_info_get(id_, &info) != 0) return;
  device_ = info.device;
  interface_index_ = static_cast<int>(info.if_index);
  reports_link_ = info.dev_flags != nullptr &&
                  (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
}

DpdkDevice::~DpdkDevice() {
  if (spec_.kind == PortKind::kVirtioUser && !QuietVirtioUser()) return;
  if (spec_.kind == PortKind::kVhost && !spec_.listens) QuietVhostClient();
  // Like AwaitTransmitted(), but memif does not report unfetched frames. A peer
  // that sleeps looks every few milliseconds.
  if (spec_.kind == PortKind::kMemif && link_up_) usleep(kMemifGraceUs);
  std::lock_guard lock(g_hotplug);
  if (serves_ring_) UnserveRing(spec_.name, spec_.side);
  for (rte_eth_event_type event : kEvents) {
    // -EAGAIN: the callback is running.
    while (rte_eth_dev_callback_unregister(id_, event, Changed, this) ==
           -EAGAIN) {
      usleep(kStepUs);
    }
  }
  if (spec_.kind == PortKind::kMemif) {
    if (CloseMemif() && device_ != nullptr) rte_dev_remove(device_);
    ForgetMemifGate(gate_);
    return;
  }
  ring_ = nullptr;
  if (started_) rte_eth_dev_stop(id_);
  if (configured_ && spec_.kind == PortKind::kVirtioUser) {
    // With interrupts on, the driver closes the queue's eventfd twice (DPDK
    // 22.11), milliseconds apart. The second time the descriptor may be a file
    // that the program has opened meanwhile.
    const auto conf = std::make_unique<rte_eth_conf>();
    rte_eth_dev_configure(id_, 1, 1, conf.get());
  }
  rte_eth_dev_close(id_);
  if (device_ != nullptr) rte_dev_remove(device_);
}

// The driver reacts to its socket in DPDK's interrupt thread, partly in an
// alarm a moment later, and does not expect to be closed in between. A callback
// that stays registered for a closed descriptor makes that thread abort the
// program. So nothing to react to may be left: no way to connect, no
// connection, no alarm.
bool DpdkDevice::QuietVirtioUser() {
  const std::string& path = spec_.socket_path;
  // Configuring registers the callback, and only stopping removes it.
  if (configured_ && !started_ && !Start().ok()) return false;
  if (!started_) return true;
  if (spec_.listens) unlink(path.c_str());
  AwaitTransmitted();
  for (int round = 0; round < kQuietRounds; ++round) {
    ShutDownConnections(path);
    // The driver closes a server's connection; a client's stays open, but its
    // link goes down.
    const auto reacted = [&] {
      return spec_.listens ? !HasConnection(path) : !link_up_;
    };
    for (int i = 0; i < kQuietSteps && !reacted(); ++i) usleep(kStepUs);
    if (!reacted() || !RunInInterruptThread([] {})) return false;
    // A peer may have connected just before unlink().
    if (reacted()) return true;
  }
  return false;
}

// Transmitted frames wait in our memory until the peer fetches them, and are
// lost with the connection. One may be a program's last acknowledgement,
// without which its peer reports an error. So the peer gets a moment.
void DpdkDevice::AwaitTransmitted() {
  if (spec_.args.find("packed_vq=1") != std::string::npos) return;
  for (int i = 0; i < kTransmittedSteps && link_up_; ++i) {
    if (VirtioUnfetched(id_, spec_.ring_slots) == 0) return;
    usleep(kStepUs);
  }
}

// If the vhost library is told to forget the port just when it notices the
// peer's end, it keeps an entry for reconnecting that outlives the port, and
// crashes a second later. Both ends of a pair are often closed together, so
// wait until that moment has passed.
void DpdkDevice::QuietVhostClient() {
  uint32_t seen = changes_ - 1;
  for (int i = 0; i < kQuietRounds && seen != changes_; ++i) {
    seen = changes_;
    usleep(kSettleUs);
  }
}

// When the peer says goodbye, the driver ends the connection in DPDK's
// interrupt thread, and does not expect another thread to close it meanwhile.
// It does not unregister its listener (DPDK 22.11): the next peer to connect
// would be served from memory that is no longer the driver's, and no one else
// could listen at that name.
bool DpdkDevice::CloseMemif() {
  auto& servers = MemifServers();
  if (spec_.listens) servers.erase(servers.find(spec_.socket));
  const bool last = spec_.listens && !servers.contains(spec_.socket);
  return RunInInterruptThread(
      [id = id_, started = started_, socket = last ? spec_.socket : ""] {
        if (started) rte_eth_dev_stop(id);
        if (!socket.empty()) ReplaceListeners(socket);
        rte_eth_dev_close(id);
      });
}

absl::Status DpdkDevice::Configure(rte_mempool* pool, uint16_t rx_ring,
                                   uint16_t tx_ring, DeviceGate* gate,
                                   int event_fd) {
  std::lock_guard lock(g_hotplug);
  LowFdsOccupied low;
  NewFdsCloseOnExec cloexec;
  gate_ = gate;
  event_fd_ = event_fd;
  if (spec_.kind == PortKind::kMemif) GuardMemifRegions(gate);
  const auto conf = std::make_unique<rte_eth_conf>();
  conf->intr_conf.lsc = reports_link_;
  conf->intr_conf.rxq =
      spec_.kind == PortKind::kVhost || spec_.kind == PortKind::kVirtioUser;
  ChooseOffloads(*conf);
  int rc = rte_eth_dev_configure(id_, 1, 1, conf.get());
  if (rc != 0) return Failed(spec_, "configure", rc);
  configured_ = true;
  for (rte_eth_event_type event : kEvents) {
    rc = rte_eth_dev_callback_register(id_, event, Changed, this);
    if (rc != 0) return Failed(spec_, "link callback", rc);
  }
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_ring, &tx_ring);
  rc = rte_eth_rx_queue_setup(id_, 0, rx_ring, SOCKET_ID_ANY, nullptr, pool);
  if (rc != 0) return Failed(spec_, "receive queue", rc);
  rc = rte_eth_tx_queue_setup(id_, 0, tx_ring, SOCKET_ID_ANY, nullptr);
  if (rc != 0) return Failed(spec_, "transmit queue", rc);
  return absl::OkStatus();
}

// Both directions or none. What the driver offers is what its peer can do, or,
// with vhost, what the driver does itself for a peer that cannot.
void DpdkDevice::ChooseOffloads(rte_eth_conf& conf) {
  if (!spec_.may_leave_tcp_checksums) return;
  rte_eth_dev_info info = {};
  if (rte_eth_dev_info_get(id_, &info) != 0) return;
  if ((info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TCP_CKSUM) == 0 ||
      (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) == 0) {
    return;
  }
  conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
  conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
  finishes_tcp_checksums_ = true;
}

absl::Status DpdkDevice::Start() {
  std::lock_guard lock(g_hotplug);
  LowFdsOccupied low;
  NewFdsCloseOnExec cloexec;
  const int rc = rte_eth_dev_start(id_);
  if (rc != 0) return Failed(spec_, "start", rc);
  started_ = true;
  // af_packet gets the same from its socket; other drivers that refuse it
  // receive everything anyway.
  if (spec_.kind == PortKind::kOther) rte_eth_promiscuous_enable(id_);
  if (absl::Status s = FindWakeup(); !s.ok()) return s;
  if (spec_.kind == PortKind::kRing) {
    ServeRing(spec_.name, spec_.side, gate_, event_fd_);
    serves_ring_ = true;
  }
  PollLink();
  return absl::OkStatus();
}

absl::Status DpdkDevice::FindWakeup() {
  switch (spec_.kind) {
    case PortKind::kVhost:
    case PortKind::kVirtioUser:
      wake_fd_ = rte_eth_dev_rx_intr_ctl_q_get_fd(id_, 0);
      if (wake_fd_ < 0) return Failed(spec_, "receive interrupt", ENOTSUP);
      wake_kind_ = WakeKind::kInterrupt;
      return absl::OkStatus();
    case PortKind::kAfPacket: {
      wake_fd_ = FindPacketSocket(interface_index_);
      if (wake_fd_ < 0) return Failed(spec_, "search for its socket", ENOENT);
      wake_kind_ = WakeKind::kSocket;
      const int rc = PreparePacketSocket(wake_fd_, interface_index_);
      if (rc != 0) return Failed(spec_, "promiscuous mode", rc);
      ring_ = TransmitRing::Follow(wake_fd_, ring_geometry_, event_fd_);
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

void DpdkDevice::OnLinkChange() {
  // DPDK answers this from memory once the device is started and reports
  // changes. Before that, the call itself could block in virtio_user's
  // accept().
  rte_eth_link link = {};
  rte_eth_link_get_nowait(id_, &link);
  link_up_ = link.link_status == RTE_ETH_LINK_UP;
  gate_->SetCarrier(link_up_);
  OnQueueChange();
}

void DpdkDevice::OnQueueChange() {
  ++changes_;
  const uint64_t one = 1;
  static_cast<void>(write(event_fd_, &one, sizeof(one)) == 0);
}

void DpdkDevice::PollLink() {
  // The carrier of a ring is the presence of its partner, and that of an
  // interface comes from the kernel: both drivers always claim to be up.
  if (spec_.kind == PortKind::kRing || spec_.kind == PortKind::kAfPacket) {
    return;
  }
  rte_eth_link link = {};
  if (rte_eth_link_get_nowait(id_, &link) != 0) return;
  link_up_ = link.link_status == RTE_ETH_LINK_UP;
  if (link_up_ != gate_->Peek().has_carrier_bit()) gate_->SetCarrier(link_up_);
}

void DpdkDevice::MarkPeerDescriptors() const {
  if (spec_.kind != PortKind::kVhost) return;
  const int vid = rte_eth_vhost_get_vid_from_port_id(id_);
  const auto mark = [](int fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  };
  for (uint16_t i = 0; vid >= 0 && i < 2; ++i) {
    rte_vhost_vring ring = {};
    if (rte_vhost_get_vhost_vring(vid, i, &ring) != 0) continue;
    mark(ring.kickfd);
    mark(ring.callfd);
  }
  rte_vhost_memory* memory = nullptr;
  if (vid >= 0 && rte_vhost_get_mem_table(vid, &memory) == 0) {
    for (uint32_t i = 0; i < memory->nregions; ++i) mark(memory->regions[i].fd);
    free(memory);
  }
  SetCloseOnExec(spec_.socket_path);
}

void DpdkDevice::ReadRings(uint16_t& rx, uint16_t& tx) const {
  rx = tx = spec_.ring_slots;
  if (spec_.kind != PortKind::kVhost) return;
  const int vid = rte_eth_vhost_get_vid_from_port_id(id_);
  rte_vhost_vring ring = {};
  // Our receive ring is the one that the peer transmits into, its ring 1.
  if (vid < 0) return;
  if (rte_vhost_get_vhost_vring(vid, 1, &ring) == 0) rx = ring.size;
  if (rte_vhost_get_vhost_vring(vid, 0, &ring) == 0) tx = ring.size;
}

void DpdkDevice::AddCounters(PortCounters& sum) {
  rte_eth_stats stats = {};
  if (rte_eth_stats_get(id_, &stats) != 0) return;
  if (wake_kind_ == WakeKind::kSocket) {
    socket_drops_ += TakePacketSocketDrops(wake_fd_);
    sum.rx_missed += socket_drops_;
  }
  sum.rx_packets += stats.ipackets;
  sum.rx_bytes += stats.ibytes;
  sum.rx_missed += stats.imissed;
  sum.rx_no_mbuf += stats.rx_nombuf;
  sum.tx_packets += stats.opackets;
  sum.tx_bytes += stats.obytes;
  sum.tx_errors += stats.oerrors;
  if (ring_ != nullptr) sum.tx_errors += ring_->refused();
}

// --- DeviceProbe ------------------------------------------------------------

// Shared with the probing thread, which may outlive all other users.
struct DeviceProbe::Job {
  std::string devargs;
  std::string socket_path;
  int event_fd = -1;
  int result = 0;
  std::string message;
  tpacket_req ring_geometry = {};
  std::atomic<bool> done = false;
};

DeviceProbe::DeviceProbe(const PortSpec& spec, unsigned number, int event_fd)
    : spec_(spec), event_fd_(event_fd), job_(std::make_shared<Job>()) {
  job_->devargs = spec.Devargs(number);
  job_->socket_path = spec.socket_path;
  if (spec.listens) RemoveStaleSocket(spec.socket_path);
  if (spec.kind == PortKind::kRing) {
    std::lock_guard lock(g_hotplug);
    job_->result = ProbeRing(spec, number);
    job_->devargs = absl::StrCat("net_ring_u", number);
    job_->done = true;
  } else if (spec.probe_waits) {
    RunWaiting();
  } else {
    Run();
  }
}

void DeviceProbe::Run() {
  std::lock_guard lock(g_hotplug);
  LowFdsOccupied low;
  NewFdsCloseOnExec cloexec;
  const WithoutFanout without_fanout;
  TakeLastEalError();
  job_->result = rte_dev_probe(job_->devargs.c_str());
  job_->message = TakeLastEalError();
  job_->ring_geometry = WithoutFanout::transmit_ring();
  if (spec_.socket_is_private && spec_.listens) {
    chmod(spec_.socket_path.c_str(), 0600);
  }
  job_->done = true;
}

void DeviceProbe::RunWaiting() {
  std::lock_guard lock(g_hotplug);
  job_->event_fd = event_fd_;
  auto* handover = new std::shared_ptr<Job>(job_);
  pthread_t thread;
  const auto body = [](void* arg) -> void* {
    auto* handover = static_cast<std::shared_ptr<Job>*>(arg);
    const std::shared_ptr<Job> job = *handover;
    delete handover;
    job->result = rte_dev_probe(job->devargs.c_str());
    job->message = TakeLastEalError();
    SetCloseOnExec(job->socket_path);
    job->done = true;
    const uint64_t one = 1;
    static_cast<void>(write(job->event_fd, &one, sizeof(one)) == 0);
    return nullptr;
  };
  LowFdsOccupied low;
  const int rc = pthread_create(&thread, nullptr, body, handover);
  if (rc != 0) {
    delete handover;
    job_->result = -rc;
    job_->done = true;
    return;
  }
  pthread_setname_np(thread, "urnic-probe");
  pthread_detach(thread);
  for (int i = 0; i < kListenSteps && !job_->done; ++i) {
    if (HasListener(job_->socket_path)) return;
    usleep(kStepUs);
  }
}

bool DeviceProbe::done() const { return job_->done; }

absl::StatusOr<std::unique_ptr<DpdkDevice>> DeviceProbe::Take() {
  URNIC_CHECK(done());
  std::lock_guard lock(g_hotplug);
  uint16_t id = 0;
  if (job_->result == 0 && rte_eth_dev_get_port_by_name(
                               DeviceName(job_->devargs).c_str(), &id) != 0) {
    job_->result = -ENODEV;
  }
  if (job_->result != 0) {
    // Otherwise the sockets of a failed virtio_user server would accept the
    // connections meant for the next one.
    if (spec_.probe_waits) CloseSockets(job_->socket_path);
    return Refusal(
        ErrorCode::kDeviceFailed,
        absl::StrCat(spec_.identity, ": DPDK found no device: ",
                     job_->message.empty() ? rte_strerror(-job_->result)
                                           : job_->message));
  }
  if (spec_.kind == PortKind::kMemif && spec_.listens) {
    MemifServers().insert(spec_.socket);
  }
  std::unique_ptr<DpdkDevice> device(new DpdkDevice(spec_, id));
  device->ring_geometry_ = job_->ring_geometry;
  return device;
}

bool DeviceProbe::Abandon() {
  if (!done()) ShutDownSockets(job_->socket_path);
  for (int i = 0; i < kAbandonSteps; ++i) {
    if (done()) return true;
    usleep(kStepUs);
  }
  return false;
}

}  // namespace urnic
