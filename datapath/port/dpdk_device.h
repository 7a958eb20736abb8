#pragma once

// One incarnation of the DPDK device behind a port: it is found, configured and
// started, and finally stopped and removed. The port's keeper thread uses it;
// other threads may only call the functions that are marked for them.
//
// DPDK's device lists are not safe for two threads, so everything here that
// touches them is serialised over all ports of the process. The exception is
// the probe of a virtio_user server, which lasts until its peer connects: it
// runs on its own thread, and the lock is released as soon as the socket
// listens, because from then on the probe touches nothing shared (measured with
// DPDK 22.11: another port comes up meanwhile).

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/guest/device_gate.h"
#include "datapath/port/port.h"
#include "datapath/port/port_spec.h"
#include "datapath/port/transmit_ring.h"

struct rte_device;
struct rte_eth_conf;

namespace urnic {

// How the port notices that a frame waits.
enum class WakeKind : uint8_t {
  kNone,       // not at all: poll by a timer
  kInterrupt,  // the peer writes an eventfd when asked to
  kSocket,     // the descriptor is readable while frames wait
};

class DeviceProbe;

class DpdkDevice {
 public:
  // Stops and removes the device. REQUIRES: the gate is withdrawn. If DPDK's
  // interrupt thread hangs, the device is left as it is.
  ~DpdkDevice();
  DpdkDevice(const DpdkDevice&) = delete;
  DpdkDevice& operator=(const DpdkDevice&) = delete;

  // Creates one queue in each direction, with `rx_ring` and `tx_ring` slots if
  // the driver allows a choice. From now on link changes set the carrier of
  // `gate`, in a thread of DPDK, and then write to `event_fd`.
  absl::Status Configure(rte_mempool* pool, uint16_t rx_ring, uint16_t tx_ring,
                         DeviceGate* gate, int event_fd);
  // May be repeated after a failure: a memif client fails until its server
  // runs.
  absl::Status Start();

  uint16_t id() const { return id_; }
  // False: the driver reports no link changes; call PollLink() periodically.
  bool reports_link() const { return reports_link_; }
  void PollLink();

  // Valid after Configure().
  bool finishes_tcp_checksums() const { return finishes_tcp_checksums_; }
  // Valid after Start(), as long as the device exists.
  WakeKind wake_kind() const { return wake_kind_; }
  int wake_fd() const { return wake_fd_; }
  // kAfPacket: the interface's index; otherwise 0.
  int interface_index() const { return interface_index_; }
  // The length of the first frame that the interface has refused, while it sent
  // others; 0: none. Known after a write to `event_fd`.
  uint32_t refused_bytes() const {
    return ring_ == nullptr ? 0 : ring_->refused_bytes();
  }

  // Sets close-on-exec on the descriptors that a vhost has received from its
  // peer.
  void MarkPeerDescriptors() const;

  // The slots in use; for a vhost, known only while there is a peer.
  void ReadRings(uint16_t& rx, uint16_t& tx) const;

  // For DPDK's callbacks.
  void OnLinkChange();
  void OnQueueChange();
  // The number of these calls. Without it, a link could go down and up again
  // unnoticed.
  uint32_t changes() const { return changes_; }

  // Adds the device's counts since Start(). Any thread, one at a time, and not
  // while the device is being destroyed.
  void AddCounters(PortCounters& sum);

 private:
  friend class DeviceProbe;
  DpdkDevice(const PortSpec& spec, uint16_t id);
  void ChooseOffloads(rte_eth_conf& conf);
  absl::Status FindWakeup();
  bool QuietVirtioUser();
  void AwaitTransmitted();
  void QuietVhostClient();
  bool CloseMemif();

  const PortSpec& spec_;
  const uint16_t id_;
  rte_device* device_ = nullptr;
  DeviceGate* gate_ = nullptr;
  int event_fd_ = -1;
  bool reports_link_ = false;
  std::atomic<bool> link_up_ = false;
  std::atomic<uint32_t> changes_ = 0;
  bool configured_ = false;
  bool started_ = false;
  bool serves_ring_ = false;
  bool finishes_tcp_checksums_ = false;
  WakeKind wake_kind_ = WakeKind::kNone;
  int wake_fd_ = -1;
  int interface_index_ = 0;
  tpacket_req ring_geometry_ = {};      // kAfPacket
  std::unique_ptr<TransmitRing> ring_;  // kAfPacket; null: not followed
  uint64_t socket_drops_ = 0;  // the kernel resets them when they are read
};

// The search for a device. One thread. The caller may abandon it at any time.
class DeviceProbe {
 public:
  // Starts to look for instance `number`. A quick probe is finished on return;
  // one that waits writes to `event_fd` when it has finished. `spec` must
  // outlive this object, and `event_fd` must outlive the search.
  DeviceProbe(const PortSpec& spec, unsigned number, int event_fd);
  DeviceProbe(const DeviceProbe&) = delete;
  DeviceProbe& operator=(const DeviceProbe&) = delete;

  bool done() const;
  // REQUIRES: done(). Once.
  absl::StatusOr<std::unique_ptr<DpdkDevice>> Take();
  // Ends the wait. False: the thread did not return within a second. Then it
  // keeps running, and `event_fd` must stay open until the process ends.
  bool Abandon();

 private:
  struct Job;
  void Run();
  void RunWaiting();

  const PortSpec& spec_;
  const int event_fd_;
  std::shared_ptr<Job> job_;
};

}  // namespace urnic
