#pragma once

// Packets in flight to a RUD window of a simulated RNIC: the faults of the
// link, arrival in bursts, and old packets that arrive again.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/world.h"
#include "transport/rud/types.h"

namespace urnic::sim {

// A link for simulations of three or more windows, mostly with all faults.
inline LinkConfig MakeRudLink(Random& random) {
  LinkConfig link;
  link.delay = Duration::Microseconds(5 + random.Below(100));
  if (random.OneIn(8)) return link;  // perfect
  link.loss_ppm = static_cast<uint32_t>(random.Below(150000));
  link.duplicate_ppm = static_cast<uint32_t>(random.Below(100000));
  link.reorder_ppm = static_cast<uint32_t>(random.Below(300000));
  link.corrupt_ppm = static_cast<uint32_t>(random.Below(50000));
  return link;
}

class RudInbox {
 public:
  using Packet = std::vector<uint8_t>;
  // All outlive the inbox, which must not move.
  RudInbox(World* world, Random* random,
           std::function<void(const std::vector<Packet>&)> on_burst)
      : world_(*world), random_(*random), on_burst_(std::move(on_burst)) {}
  RudInbox(const RudInbox&) = delete;
  RudInbox& operator=(const RudInbox&) = delete;

  void OnArrival(Packet packet) {
    if (history_.size() < kHistory) history_.push_back(packet);
    waiting_.push_back(std::move(packet));
    if (waiting_.size() == rud::kBurstMax) return Deliver();
    if (waiting_.size() == 1) {
      world_.After(Duration::Microseconds(random_.Below(20)),
                   [this] { Deliver(); });
    }
  }
  // A packet from before, perhaps a very old one, arrives again. False: there
  // is none.
  bool Replay() {
    if (history_.empty()) return false;
    OnArrival(history_[random_.Below(history_.size())]);
    return true;
  }

 private:
  static constexpr size_t kHistory = 2000;

  void Deliver() {
    if (!waiting_.empty()) on_burst_(std::exchange(waiting_, {}));
  }

  World& world_;
  Random& random_;
  const std::function<void(const std::vector<Packet>&)> on_burst_;
  std::vector<Packet> history_;
  std::vector<Packet> waiting_;
};

}  // namespace urnic::sim
