#pragma once

// A port of a real engine in virtual time: rings with limits on both sides, in
// front of a wire. Frames leave one after the other; when the ring is full the
// engine keeps the rest, and what arrives while the other ring is full is lost.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "datapath/port/frame_port.h"
#include "tests/sim/world.h"

namespace urnic::sim {

using Frame = std::vector<uint8_t>;

struct SimPortConfig {
  FramePortConfig frames;
  uint32_t tx_ring = 256;
  Duration frame_time;  // how long the wire takes for one
};

class SimPort final : public FramePort {
 public:
  // `send`: a frame leaves. `arrived`: there is something to receive.
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
    return FramePort::Receive(out,
                              static_cast<uint16_t>(1 + random_.Below(max)));
  }

  void OnFrame(const Frame& frame) {
    if (Deliver(frame)) {
      arrived_();
    } else {
      ++lost_;
    }
  }

  // Frames that found the receive ring full.
  uint64_t lost() const { return lost_; }
  // How often the other one was full.
  uint64_t blocked() const { return blocked_; }

 private:
  bool Send(std::span<const uint8_t> frame) override {
    if (in_tx_ring_ >= config_.tx_ring) {
      ++blocked_;
      return false;
    }
    ++in_tx_ring_;
    wire_free_ = std::max(wire_free_, world_.now()) + config_.frame_time;
    world_.At(wire_free_,
              [this, bytes = Frame(frame.begin(), frame.end())]() mutable {
                --in_tx_ring_;
                send_(std::move(bytes));
              });
    return true;
  }

  World& world_;
  const SimPortConfig config_;
  Random random_;
  const std::function<void(Frame)> send_;
  const std::function<void()> arrived_;
  uint32_t in_tx_ring_ = 0;
  Time wire_free_;
  uint64_t lost_ = 0;
  uint64_t blocked_ = 0;
};

}  // namespace urnic::sim
