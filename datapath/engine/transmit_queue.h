#pragma once

// Frames on their way out of an engine: empty ones at hand, built ones that
// the port has not taken yet, and those to ourselves, which the next iteration
// receives. Token holder only; nothing here waits or allocates but mbufs.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "datapath/port/port.h"
#include "ras/metrics/counters.h"
#include "transport/net/frame_sink.h"

namespace urnic {

class TransmitQueue final : public net::FrameSink {
 public:
  // Both outlive the queue. Counts tx_packets and tx_no_mbuf.
  TransmitQueue(Port* port, EngineCounters* counters)
      : port_(port), counters_(counters) {}
  TransmitQueue(const TransmitQueue&) = delete;
  TransmitQueue& operator=(const TransmitQueue&) = delete;

  // REQUIRES: nothing is asked for afterwards.
  void FreeAll();

  // --- Empty frames --------------------------------------------------------

  uint32_t empty_frames() const { return empty_count_; }
  // False: there is none, and the pool has none either.
  bool HasEmptyFrame() { return empty_count_ != 0 || Refill(); }
  // Fills up when few are left: for a moment when nobody waits.
  void TopUp() {
    if (empty_count_ < kBurstMax / 2) Refill();
  }
  // The one that the i-th TakeEmpty() from now will give. REQUIRES:
  // i < empty_frames().
  rte_mbuf* PeekEmpty(uint32_t i) const { return empty_[empty_count_ - 1 - i]; }
  // It must be handed to one of the two below, or freed.
  rte_mbuf* TakeEmpty() { return empty_[--empty_count_]; }

  // --- To the port ---------------------------------------------------------

  // How many more frames Push() takes; at least kBurstMax while !blocked().
  uint32_t room() const {
    return static_cast<uint32_t>(std::size(waiting_)) - waiting_first_ -
           waiting_count_;
  }
  void Push(rte_mbuf* frame) {
    waiting_[waiting_first_ + waiting_count_++] = frame;
  }
  // Hands over what the port takes. False: some is left, its ring is full.
  bool Flush();
  // The port has not taken all yet. A full ring is back-pressure, not loss:
  // nothing is built behind it.
  bool blocked() const { return waiting_count_ != 0; }

  // --- To ourselves --------------------------------------------------------

  uint32_t loop_room() const {
    return static_cast<uint32_t>(std::size(looped_)) - looped_count_;
  }
  uint32_t looped() const { return looped_count_; }
  void PushToOurselves(rte_mbuf* frame) { looped_[looped_count_++] = frame; }
  // Moves up to `max` of them to `out`, the oldest first.
  uint32_t TakeLooped(rte_mbuf** out, uint32_t max);

  // --- Single messages of the host: ARP, MADs, reports ---------------------

  // Room for one; empty when there is none: a host may always drop such a
  // message, whoever asked will ask again.
  std::span<uint8_t> Frame() override;
  // Of Frame(); 0 bytes: nothing.
  void Send(size_t bytes, bool loopback) override;

 private:
  bool Refill();

  Port* const port_;
  EngineCounters* const counters_;
  uint32_t empty_count_ = 0;
  uint32_t waiting_first_ = 0;
  uint32_t waiting_count_ = 0;
  uint32_t looped_count_ = 0;
  rte_mbuf* empty_[kBurstMax];
  rte_mbuf* waiting_[2 * kBurstMax];
  rte_mbuf* looped_[4 * kBurstMax];
};

}  // namespace urnic
