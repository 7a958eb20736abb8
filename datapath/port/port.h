#pragma once

// The I/O seam of the datapath: one port carries Ethernet frames in bursts.
//
// A Port exists, with its buffers, before the device behind it does, and it
// outlives every death of that device: a keeper thread of ours probes, starts,
// watches and re-creates the device (datapath/port/port_keeper.h) and publishes
// it to the hot path. An engine therefore never waits for a port and never
// learns of a failure as an error: a port that is down receives nothing and
// drops what it is given, and the transport's own timers do the rest.
//
// Threads. "Hot" functions are called by one thread at a time: the holder of
// the engine's token, between TakeLcore(port.lcore()) and ReleaseLcore()
// (datapath/guest/eal.h; without an lcore id each mbuf costs 30 ns more). They
// do not allocate, lock or wait; on vhost, virtio_user and memif they make no
// system call except to kick a peer that sleeps. All others may be called by
// any thread at any time.
//
// After fork() a child may not call anything here (EalUsable() is false there).

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "ras/metrics/counters.h"
#include "transport/impair/counts.h"
#include "transport/wire/address.h"

struct rte_mbuf;
struct rte_mempool;

namespace urnic {

inline constexpr uint16_t kBurstMax = 32;

// The most bytes in front of an IP packet that a port carries: Ethernet and
// one VLAN tag.
inline constexpr uint16_t kL2HeaderBytesMax = 18;

enum class PortState : uint8_t {
  kStarting,  // the device is not there yet; the keeper is trying
  kUp,        // frames can flow
  kNoPeer,    // the local side runs; the other side is absent
  kLinkDown,  // the interface is administratively down or has no carrier
  kFailed,    // the device died; the keeper is trying to bring it back
};

// What faults on purpose did to frames on their way out and in.
struct FaultCounts {
  impair::CountValues out;
  impair::CountValues in;
};

struct PortInfo {
  PortState state = PortState::kStarting;
  // What the state means here and what to do about it, one line for people:
  // "waiting for a peer at /run/x.sock".
  std::string text;
  // Not empty if the port will not come up until a person does something: says
  // in one line what to do. Empty while the port only waits for its peer.
  std::string remedy = {};
  // Slots of the rings, 0 while unknown. The frames that engines keep in
  // flight must stay below rx_ring of the *other* side; ours is the best guess.
  uint16_t rx_ring = 0;
  uint16_t tx_ring = 0;
  // What the kernel's interface carries now, as an IP packet; 0: no interface,
  // or not known. Longer frames are lost there. More than Port::mtu() is of no
  // use: the buffers were made for that.
  uint32_t interface_mtu = 0;
};

// Told of each new text or interface MTU of a port, in the port's own thread,
// one call at a time. It may be called until the port is gone, and until the
// end of the process if DPDK does not let go of the device: what it holds must
// last.
using PortReport = std::function<void(const PortInfo& info)>;

// Receives one line for each thing that a port's user should know although the
// port works: a stranger who holds its name, or other users who may join it. By
// CreatePort() or, as a PortReport, in the port's own thread.
using PortWarning = std::function<void(const std::string& line)>;

// A count that one thread at a time adds to and any thread may read.
class HotCounter {
 public:
  void Add(uint64_t n) {
    count_.store(count_.load(std::memory_order_relaxed) + n,
                 std::memory_order_relaxed);
  }
  uint64_t value() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> count_ = 0;
};

class Port {
 public:
  // Takes the device down and waits until no thread of ours uses it. REQUIRES:
  // no thread is inside a hot function or will enter one.
  // Never called at process exit: nothing there needs it.
  virtual ~Port() = default;

  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Hot. Stores up to `max` (<= kBurstMax) frames, each in one segment and at
  // most mtu() + kL2HeaderBytesMax long; the caller owns them. 0 when the
  // port is down.
  virtual uint16_t Receive(rte_mbuf** out, uint16_t max) = 0;

  // Hot. Hands over the first n of `count` frames and returns n; the caller
  // keeps the rest, which is not a loss: the ring is full, try again. A port
  // that is not kUp takes all, frees them and counts tx_dropped_down. Each
  // frame is one mbuf of one segment with the usual headroom free in front.
  virtual uint16_t Transmit(rte_mbuf** packets, uint16_t count) = 0;

  // Hot. Asks that wait_fd() become readable when a frame waits or when state
  // changes. Returns false when this device cannot (ring, memif): poll it by a
  // timer of at most 1 ms instead. The caller must call Receive() once more
  // after arming, before it sleeps: what came earlier raises nothing.
  virtual bool ArmWakeup() = 0;

  // Hot. The end of ArmWakeup(): wait_fd() is no longer readable, the peer no
  // longer kicks. Spurious wake-ups may precede it, so the caller loops.
  virtual void DisarmWakeup() = 0;

  // For poll() or epoll, level-triggered; never read it. The same descriptor
  // for the life of the port, whatever becomes of the device; -1 when no frame
  // can ever arrive (loop).
  virtual int wait_fd() const = 0;

  // Transmitted frames that are still with the port and go on in later hot
  // calls: a process that ends should make some.
  virtual uint32_t frames_held() const { return 0; }
  // All 0 but in a port with faults (datapath/port/fault_port.h).
  virtual FaultCounts fault_counts() const { return {}; }

  // Sums since the port was created, over all incarnations of its device. Of
  // frames and bytes the device's own count, independent of the engine's.
  virtual PortCounters counters() const = 0;
  virtual PortInfo info() const = 0;

  // The largest IP packet, in bytes; fixed at creation.
  uint16_t mtu() const { return mtu_; }
  // The RNIC's own address, which is not the kernel interface's unless that
  // was asked for. The port is promiscuous and filters nothing.
  const wire::MacAddress& mac() const { return mac_; }
  // What transmitted frames must be allocated from. Every buffer holds the
  // largest frame behind the usual headroom of 128 bytes.
  rte_mempool* pool() const { return pool_; }
  // The id for TakeLcore(), distinct for each port of this process.
  unsigned lcore() const { return lcore_; }
  // 0..7, unique among the RNICs of this network namespace: the top bits of
  // lkeys and rkeys.
  unsigned ordinal() const { return ordinal_; }

 protected:
  Port() = default;

  uint16_t mtu_ = 0;
  wire::MacAddress mac_ = {};
  rte_mempool* pool_ = nullptr;
  unsigned lcore_ = 0;
  unsigned ordinal_ = 0;
};

}  // namespace urnic
