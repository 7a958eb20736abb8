#pragma once

// One direction of a wire, with its faults.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/sim/world.h"

namespace urnic::sim {

struct LinkConfig {
  Duration delay = Duration::Microseconds(5);
  Duration jitter;  // up to so much more, which alone already reorders
  // Out of a million packets.
  uint32_t loss_ppm = 0;
  uint32_t burst_loss_ppm = 0;  // this one and some of the next
  uint32_t duplicate_ppm = 0;
  uint32_t reorder_ppm = 0;  // held back by up to 20 delays
  uint32_t corrupt_ppm = 0;
  // 0: infinitely fast, without a queue.
  uint64_t bits_per_second = 0;
  uint32_t queue_packets = 1024;
};

struct LinkStats {
  uint64_t sent = 0;
  uint64_t lost = 0;
  uint64_t overflowed = 0;
  uint64_t duplicated = 0;
  uint64_t corrupted = 0;
};

class Link {
 public:
  // Any bytes: packets from the BTH on, or whole frames.
  using Packet = std::vector<uint8_t>;

  Link(World& world, uint64_t seed, const LinkConfig& config,
       std::function<void(Packet)> deliver)
      : world_(world),
        random_(seed),
        config_(config),
        deliver_(std::move(deliver)) {}

  void Send(Packet packet) {
    ++stats_.sent;
    const Time left = LeavesAt(packet.size());
    if (left.IsInfinite()) {
      ++stats_.overflowed;
      return;
    }
    if (Hit(config_.burst_loss_ppm)) burst_left_ = 1 + random_.Below(12);
    if (burst_left_ != 0 ? --burst_left_, true : Hit(config_.loss_ppm)) {
      ++stats_.lost;
      return;
    }
    if (Hit(config_.duplicate_ppm)) {
      ++stats_.duplicated;
      const auto late = random_.Below(10 * config_.delay.ns());
      Arrive(packet, left + Duration::Nanoseconds(static_cast<int64_t>(late)));
    }
    if (Hit(config_.corrupt_ppm)) {
      ++stats_.corrupted;
      const uint64_t flips = 1 + random_.Below(3);
      for (uint64_t i = 0; i < flips; ++i) {
        packet[random_.Below(packet.size())] ^= 1 << random_.Below(8);
      }
    }
    Arrive(std::move(packet), left);
  }

  // From now on the link is perfect (what is under way keeps its fate).
  void StopFaults() {
    config_.loss_ppm = config_.burst_loss_ppm = config_.duplicate_ppm = 0;
    config_.reorder_ppm = config_.corrupt_ppm = 0;
    burst_left_ = 0;
    config_.jitter = Duration();
  }

  const LinkStats& stats() const { return stats_; }

 private:
  bool Hit(uint32_t ppm) { return ppm != 0 && random_.Below(1000000) < ppm; }

  // When the last bit of the packet is on the wire; never, when the queue is
  // full.
  Time LeavesAt(size_t bytes) {
    if (config_.bits_per_second == 0) return world_.now();
    constexpr size_t kEnvelopeBytes = 14 + 20 + 8 + 24;  // with gap and CRC
    const auto wire = Duration::Nanoseconds(static_cast<int64_t>(
        (bytes + kEnvelopeBytes) * 8 * 1000000000 / config_.bits_per_second));
    if (free_at_ < world_.now()) free_at_ = world_.now();
    if ((free_at_ - world_.now()).ns() > wire.ns() * config_.queue_packets) {
      return Time::Infinite();
    }
    free_at_ = free_at_ + wire;
    return free_at_;
  }

  void Arrive(Packet packet, Time left) {
    Duration delay = config_.delay;
    if (config_.jitter.ns() != 0) {
      delay = delay + Duration::Nanoseconds(static_cast<int64_t>(
                          random_.Below(config_.jitter.ns())));
    }
    if (Hit(config_.reorder_ppm)) {
      delay = delay + Duration::Nanoseconds(static_cast<int64_t>(
                          random_.Below(20 * config_.delay.ns())));
    }
    world_.At(left + delay, [this, p = std::move(packet)]() mutable {
      deliver_(std::move(p));
    });
  }

  World& world_;
  Random random_;
  LinkConfig config_;
  std::function<void(Packet)> deliver_;
  Time free_at_;
  uint64_t burst_left_ = 0;
  LinkStats stats_;
};

}  // namespace urnic::sim
