#pragma once

// The frames that an engine sends. The queue has a stock of empty frames,
// frames that the port has not accepted yet, and loopback frames, which the
// next iteration receives. Token holder only. Nothing here waits, or allocates
// anything except mbufs.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "datapath/engine/burst_limit.h"
#include "datapath/port/port.h"
#include "ras/capture/capture.h"
#include "ras/metrics/counters.h"
#include "transport/net/frame_sink.h"

namespace urnic {

class TransmitQueue final : public net::FrameSink {
 public:
  // All outlive the queue, which counts tx_packets and tx_no_mbuf. The queue
  // gives the single messages to `capture`; callers give it all other frames.
  TransmitQueue(Port* port, EngineCounters* counters, Capture* capture)
      : port_(port), counters_(counters), capture_(capture) {}
  TransmitQueue(const TransmitQueue&) = delete;
  TransmitQueue& operator=(const TransmitQueue&) = delete;

  // Frees all frames. Call nothing else afterwards.
  void FreeAll();

  // --- Empty frames --------------------------------------------------------

  uint32_t empty_frames() const { return empty_count_; }
  // False: there is no empty frame, and the pool has none either.
  bool HasEmptyFrame() { return empty_count_ != 0 || Refill(); }
  // Refills the stock when it is low. Call it when no packet waits for it.
  void TopUp() {
    if (empty_count_ < kBurstMax / 2) Refill();
  }
  // Frees received frames. Frames of our own pool first fill the stock of empty
  // ones, which saves the pool's work for them and for the frames sent next. A
  // frame in custody only loses one reference. Overwrites `frames`. REQUIRES:
  // each frame is one segment.
  void Recycle(rte_mbuf** frames, uint32_t count);
  // The frame that the i-th TakeEmpty() from now will return. REQUIRES: i <
  // empty_frames().
  rte_mbuf* PeekEmpty(uint32_t i) const { return empty_[empty_count_ - 1 - i]; }
  // The caller must pass the frame to Push() or PushToOurselves(), or free it.
  rte_mbuf* TakeEmpty() { return empty_[--empty_count_]; }

  // --- To the port ---------------------------------------------------------

  // How many more frames Push() accepts; at least kBurstMax while !blocked().
  uint32_t room() const {
    return static_cast<uint32_t>(std::size(waiting_)) - waiting_first_ -
           waiting_count_;
  }
  // How many frames to push at a time.
  uint32_t burst() const { return limit_.frames(); }
  void Push(rte_mbuf* frame) {
    waiting_[waiting_first_ + waiting_count_++] = frame;
  }
  // Passes frames to the port. False: the port's ring is full and frames are
  // left.
  bool Flush() { return waiting_count_ == 0 || FlushWaiting(); }
  // The largest IP packet that the port sends now, in bytes.
  uint32_t link_mtu() const { return port_->link_mtu(); }
  bool finishes_tcp_checksums() const {
    return port_->finishes_tcp_checksums();
  }
  // The port has not accepted all frames yet. A full ring means back-pressure,
  // not loss: no further frames are built.
  bool blocked() const { return waiting_count_ != 0; }

  // --- Loopback ------------------------------------------------------------

  uint32_t loop_room() const {
    return static_cast<uint32_t>(std::size(looped_)) - looped_count_;
  }
  uint32_t looped() const { return looped_count_; }
  void PushToOurselves(rte_mbuf* frame) { looped_[looped_count_++] = frame; }
  // Loops back a copy of a frame that is also sent. False: there is no room.
  bool PushCopyToOurselves(const rte_mbuf* frame);
  // Moves up to `max` loopback frames to `out`, the oldest first.
  uint32_t TakeLooped(rte_mbuf** out, uint32_t max);

  // --- Single messages of the host: ARP, MADs, reports ---------------------

  // The memory for one message, or empty: then the host drops the message, and
  // the asker repeats its question.
  std::span<uint8_t> Frame() override;
  // Sends Frame(). With 0 bytes: nothing.
  void Send(size_t bytes, bool loopback) override;

 private:
  bool Refill();
  bool FlushWaiting();

  Port* const port_;
  EngineCounters* const counters_;
  Capture* const capture_;
  uint32_t empty_count_ = 0;
  uint32_t waiting_first_ = 0;
  uint32_t waiting_count_ = 0;
  uint32_t looped_count_ = 0;
  BurstLimit limit_;
  rte_mbuf* empty_[kBurstMax];
  rte_mbuf* waiting_[2 * kBurstMax];
  rte_mbuf* looped_[4 * kBurstMax];
};

}  // namespace urnic
