#pragma once

// One direction of a wire, with its faults (transport/impair), in virtual time.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/sim/world.h"
#include "transport/impair/ecn.h"
#include "transport/impair/impairer.h"

namespace urnic::sim {

using LinkConfig = impair::Config;
using LinkCount = impair::Count;

class Link {
 public:
  // Any bytes: packets from the BTH on, or whole frames.
  using Packet = std::vector<uint8_t>;
  // The headers before a packet: Ethernet, IPv4, UDP. Their time on the wire is
  // counted for whole frames, too.
  static constexpr size_t kHeadBytes = 14 + 20 + 8;

  Link(World& world, uint64_t seed, const LinkConfig& config,
       std::function<void(Packet)> deliver)
      : world_(world),
        config_(WithHolds(config)),
        impairer_(config_, seed, world.now()),
        deliver_(std::move(deliver)) {}

  void Send(Packet packet) {
    // Marks are of whole frames only.
    const bool ect = config_.red.max_bytes != 0 && impair::IsEct(packet);
    const impair::Fate fate =
        impairer_.Offer(world_.now(), packet.size() + kHeadBytes, ect);
    if (fate.mark) impair::MarkCe(packet);
    if (!fate.copy_leaves.IsInfinite()) Deliver(packet, fate.copy_leaves);
    if (fate.leaves.IsInfinite()) return;
    if (fate.corrupt) impairer_.Corrupt(packet);
    under_way_ = under_way_ + (fate.leaves - world_.now());
    Deliver(std::move(packet), fate.leaves);
  }

  // From now on the link is perfect (packets under way keep their fate).
  void StopFaults() {
    LinkConfig perfect;
    perfect.delay = config_.delay;
    perfect.bits_per_second = config_.bits_per_second;
    perfect.buffer_bytes = config_.buffer_bytes;
    impairer_.Reconfigure(perfect);
  }

  uint64_t count(LinkCount which) const {
    return impairer_.counts().Read().of(which);
  }
  // The sum of the times that packets were, or will be, under way.
  Duration under_way() const { return under_way_; }

 private:
  // Derives how late packets may be from the delay.
  static LinkConfig WithHolds(LinkConfig config) {
    config.jitter_reorders = true;
    if (config.reorder_by == Duration()) config.reorder_by = config.delay * 20;
    config.duplicate_by = config.delay * 10;
    return config;
  }

  void Deliver(Packet packet, Time when) {
    world_.At(when, [this, p = std::move(packet)]() mutable {
      deliver_(std::move(p));
    });
  }

  World& world_;
  LinkConfig config_;
  impair::Impairer impairer_;
  Duration under_way_;
  std::function<void(Packet)> deliver_;
};

}  // namespace urnic::sim
