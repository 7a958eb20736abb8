#pragma once

// A port of a real engine in virtual time: rings with limits on both sides,
// before a wire. Frames leave one after the other. When the transmit ring is
// full, the engine keeps the rest. Frames that arrive while the receive ring is
// full are lost.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "datapath/port/frame_port.h"
#include "tests/sim/world.h"
#include "transport/impair/impairer.h"

namespace urnic::sim {

using Frame = std::vector<uint8_t>;

struct SimPortConfig {
  FramePortConfig frames;
  uint32_t tx_ring = 256;
  // How long the wire takes for a frame: this, and what its length costs at
  // that rate (0: nothing).
  Duration frame_time;
  uint64_t bits_per_second = 0;
};

class SimPort final : public FramePort {
 public:
  // `send` is called for each frame that leaves, `arrived` when there is
  // something to receive.
  SimPort(World& world, const SimPortConfig& config, uint64_t seed,
          std::function<void(Frame)> send, std::function<void()> arrived)
      : FramePort(config.frames),
        world_(world),
        config_(config),
        random_(seed),
        send_(std::move(send)),
        arrived_(std::move(arrived)) {}

  // Bursts are of any size.
  uint16_t Receive(rte_mbuf** out, uint16_t max) override {
    for (uint64_t n = 1 + random_.Below(max); n != 0 && has_frames(); --n) {
      if (!Deliver(rx_.front())) ++lost_;
      rx_.pop_front();
    }
    return FramePort::Receive(out, max);
  }

  void OnFrame(Frame frame) {
    if (rx_.size() >= config_.frames.rx_ring) {
      ++lost_;
      return;
    }
    rx_.push_back(std::move(frame));
    arrived_();
  }
  bool has_frames() const { return !rx_.empty(); }
  // Takes back, in order, the waiting received frames that another port is to
  // get, as `wanted(frame)` says.
  template <typename F>
  std::vector<Frame> TakeBack(F&& wanted) {
    std::vector<Frame> taken;
    std::erase_if(rx_, [&](Frame& frame) {
      if (!wanted(frame)) return false;
      taken.push_back(std::move(frame));
      return true;
    });
    return taken;
  }

  // True if all that it was given has left.
  bool has_sent_all() const { return in_tx_ring_ == 0; }
  // Frames that found the receive ring full.
  uint64_t lost() const { return lost_; }
  // How often the transmit ring was full.
  uint64_t blocked() const { return blocked_; }

 private:
  bool Send(std::span<const uint8_t> frame) override {
    if (in_tx_ring_ >= config_.tx_ring) {
      ++blocked_;
      return false;
    }
    ++in_tx_ring_;
    wire_free_ = std::max(wire_free_, world_.now()) + WireTime(frame.size());
    world_.At(wire_free_,
              [this, bytes = Frame(frame.begin(), frame.end())]() mutable {
                --in_tx_ring_;
                send_(std::move(bytes));
              });
    return true;
  }

  Duration WireTime(size_t bytes) const {
    if (config_.bits_per_second == 0) return config_.frame_time;
    const uint64_t bits = 8 * (bytes + impair::kWireOverheadBytes);
    return config_.frame_time +
           Duration::Nanoseconds(static_cast<int64_t>(bits * 1'000'000'000 /
                                                      config_.bits_per_second));
  }

  World& world_;
  const SimPortConfig config_;
  Random random_;
  const std::function<void(Frame)> send_;
  const std::function<void()> arrived_;
  std::deque<Frame> rx_;
  uint32_t in_tx_ring_ = 0;
  Time wire_free_;
  uint64_t lost_ = 0;
  uint64_t blocked_ = 0;
};

}  // namespace urnic::sim
