#pragma once

// DPDK's af_packet (22.11) passes frames to the kernel in a ring of shared
// memory (packet(7), PACKET_TX_RING), and calls sendto(2). When the interface
// drops a frame (a veth, whose other end has a smaller MTU, drops all that are
// longer), the kernel returns ENOBUFS and leaves the frame in its slot. The
// next call begins with the same frame, so nothing behind it ever leaves. The
// driver ignores ENOBUFS, because it also means that a queue is full for a
// moment.
//
// The linker redirects sendto(2) to our code (--wrap, BUILD.bazel). After
// ENOBUFS our code examines the ring. If a frame has been refused for a while,
// it is replaced, in its slot, by a short frame that no host accepts. If the
// interface sends the short frame, it had refused the original one, which is
// lost, and counted. Otherwise the interface has no room, and the original
// frame is put back.

#include <linux/if_packet.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/base/time.h"

namespace urnic {

// The transmit ring of one packet socket, in the format of TPACKET_V2.
class TransmitRing {
 public:
  // How long a frame is retried before the short frame replaces it.
  static constexpr Duration kPatience = Duration::Milliseconds(5);
  // For this time after a refusal, frames of that length or more are not
  // retried.
  static constexpr Duration kMemory = Duration::Seconds(1);

  // From now on handles refusals in the ring of `fd`. `geometry`: that of each
  // of its two rings. At the first refusal, writes to `event_fd`. Null: the
  // ring cannot be mapped, or too many rings are followed; then refusals are
  // not handled.
  static std::unique_ptr<TransmitRing> Follow(int fd,
                                              const tpacket_req& geometry,
                                              int event_fd);
  // REQUIRES: no thread sends on the socket. It cannot be closed before.
  ~TransmitRing();
  TransmitRing(const TransmitRing&) = delete;
  TransmitRing& operator=(const TransmitRing&) = delete;

  // The thread that sends calls this after sendto() has failed with ENOBUFS.
  // Returns the result of a new sendto(), and sets errno.
  long OnRefusal();

  // The number of refused frames, and the length of the first one. Any thread.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  uint32_t refused_bytes() const {
    return first_bytes_.load(std::memory_order_relaxed);
  }

 private:
  TransmitRing(int fd, const tpacket_req& geometry, int event_fd, void* map,
               size_t map_bytes);
  tpacket2_hdr* Slot(uint32_t i) const;
  bool Waits(uint32_t i) const;
  uint32_t Before(uint32_t i) const { return (i == 0 ? slots_ : i) - 1; }
  bool FindHead();
  bool IsDoubtful(const tpacket2_hdr& head, Time now);
  bool Replace(long& result);
  void Count(uint32_t bytes, Time now);

  const int fd_;
  const int event_fd_;
  void* const map_;
  const size_t map_bytes_;
  uint8_t* const first_slot_;
  const uint32_t slot_bytes_;
  const uint32_t slots_;

  // Only for the thread that sends.
  uint32_t head_ = 0;  // the next slot of the kernel, when it was last known
  uint32_t tried_ = UINT32_MAX;  // the slot of the frame that was refused
  Time tried_since_;
  uint32_t limit_bytes_ = UINT32_MAX;  // longer ones are not retried, until:
  Time limit_until_;

  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint32_t> first_bytes_ = 0;
};

}  // namespace urnic
