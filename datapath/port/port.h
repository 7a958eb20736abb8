#pragma once

// The I/O interface of the datapath: a port carries Ethernet frames in bursts.
//
// A Port exists, with its buffers, before its device does, and it survives
// every failure of that device. A keeper thread probes, starts, watches and
// re-creates the device (datapath/port/port_keeper.h) and publishes it to the
// hot path. So an engine never waits for a port, and a failure is never an
// error for it. A port that is down receives nothing and drops all frames, and
// the transport's timers do the rest.
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

// The maximum size of the headers before an IP packet: Ethernet and one VLAN
// tag.
inline constexpr uint16_t kL2HeaderBytesMax = 18;

enum class PortState : uint8_t {
  kStarting,  // the device does not exist yet; the keeper is trying
  kUp,        // frames can flow
  kNoPeer,    // the local side runs; the peer is absent
  kLinkDown,  // the interface is administratively down or has no carrier
  kFailed,    // the device died; the keeper is trying to bring it back
  kRemoved,   // the interface of a port that was up does not exist any more
};

// What injected faults have done to outgoing and incoming frames.
struct FaultCounts {
  impair::CountValues out;
  impair::CountValues in;
};

struct PortInfo {
  PortState state = PortState::kStarting;
  // One line for the user: what the state means here and what to do about it,
  // as in "waiting for a peer at /run/x.sock".
  std::string text;
  // One line that says what to do, if the port will not come up until the user
  // does something. Empty while the port only waits for its peer.
  std::string remedy = {};
  // Slots of the rings, 0 while unknown. The frames that engines keep in
  // flight must stay below rx_ring of the *other* side; ours is the best guess.
  uint16_t rx_ring = 0;
  uint16_t tx_ring = 0;
  // The current MTU of the interface, which drops longer frames; 0: there is no
  // interface, or it is unknown. It may exceed Port::mtu(), but the buffers
  // only hold packets of Port::mtu().
  uint32_t interface_mtu = 0;
};

// Receives each new text or interface MTU of a port, in the port's own thread,
// one call at a time. It may be called until the port is destroyed, or until
// the end of the process if DPDK does not release the device. Its captures must
// live that long.
using PortReport = std::function<void(const PortInfo& info)>;

// Receives warnings about a port that works, one line each: another user holds
// its name, other users may join it, or frames are too long here or for the
// other side. Called by CreatePort(), in Receive() or, like a PortReport, in
// the port's own thread.
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
  // Stops the device and waits until no thread of ours uses it. REQUIRES: no
  // thread is inside a hot function or will enter one. Not called at process
  // exit, which does not need it.
  virtual ~Port() = default;

  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Hot. Stores up to `max` (<= kBurstMax) frames, each in one segment and at
  // most mtu() + kL2HeaderBytesMax long; the caller owns them. 0 when the
  // port is down.
  virtual uint16_t Receive(rte_mbuf** out, uint16_t max) = 0;

  // Hot. Hands over the first n of `count` frames and returns n. The caller
  // keeps the rest: the ring is full, try again. A port that is not kUp takes
  // all, frees them and counts tx_dropped_down. Each frame is one mbuf of one
  // segment, with the usual headroom free before it.
  virtual uint16_t Transmit(rte_mbuf** packets, uint16_t count) = 0;

  // Hot. True: Transmit() finishes the TCP checksums of frames that ask for it,
  // and Receive() marks the frames whose checksum is right (tcp_checksum.h).
  // May change with the state of the port.
  virtual bool finishes_tcp_checksums() const { return false; }

  // Hot. Makes wait_fd() readable when a frame waits or the state changes.
  // Returns false if this device cannot (ring, memif): then poll it with a
  // timer of at most 1 ms. After arming, the caller must call Receive() once
  // more before it sleeps: frames that arrived earlier do not wake it.
  virtual bool ArmWakeup() = 0;

  // Hot. Ends ArmWakeup(): wait_fd() is no longer readable, and the peer no
  // longer kicks. Spurious wake-ups may precede it, so the caller loops.
  virtual void DisarmWakeup() = 0;

  // For poll() or epoll, level-triggered; never read it. The same descriptor
  // for the life of the port, whatever happens to the device. -1 if no frame
  // can ever arrive (loop).
  virtual int wait_fd() const = 0;

  // Hot. The device does not accept frames any more: starts to replace it, and
  // does not wait. The argument is the reason, one line. False: a new device
  // would not help, because another program does not empty its ring.
  virtual bool ReplaceDevice(const char*) { return false; }

  // The number of transmitted frames that are still in the port and leave in
  // later hot calls. A process should make such calls before it ends.
  virtual uint32_t frames_held() const { return 0; }
  // All 0 except in a port with faults (datapath/port/fault_port.h).
  virtual FaultCounts fault_counts() const { return {}; }

  // Totals since the port was created, over all incarnations of its device.
  // Frames and bytes are the device's own counts, independent of the engine's.
  virtual PortCounters counters() const = 0;
  virtual PortInfo info() const = 0;

  // The largest IP packet, in bytes; fixed at creation.
  uint16_t mtu() const { return mtu_; }
  // The largest IP packet that can be sent now, in bytes. A kernel interface
  // below the port may have a smaller MTU than mtu(), and drops larger packets.
  // It may change. Any thread.
  virtual uint32_t link_mtu() const { return mtu_; }
  // The RNIC's own MAC, which differs from the kernel interface's unless that
  // one was requested. The port is promiscuous and filters nothing.
  const wire::MacAddress& mac() const { return mac_; }
  // The pool for transmitted frames. Every buffer holds the largest frame after
  // the usual headroom of 128 bytes.
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
