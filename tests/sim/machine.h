#pragma once

// A host with two RNICs of one identity, whose clocks show different times.
// Each queue pair is on one of them. Packets go to the RNIC that has their
// queue pair; everything else goes to both. A queue pair can therefore move to
// the other RNIC at any moment, as in a failover, and its peer does not notice.
//
// Numbers that peers know are the same on both: they are drawn in the same
// order from the same key.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "tests/sim/buffers.h"
#include "tests/sim/engine_host.h"

namespace urnic::sim {

class RcEnd;

struct MachineConfig {
  uint8_t number = 1;
  bool ipv6 = false;
  bool program_polls = false;
  uint32_t tx_ring = 32;
  Duration frame_time;  // how long the wire takes for one
  Duration ahead[2];    // how far each RNIC's clock is ahead
};

class Machine {
 public:
  static constexpr uint16_t kMtu = 4200;

  // `send` is called for each frame that leaves.
  Machine(World& world, const Buffers& buffers, const MachineConfig& config,
          uint64_t seed, std::function<void(Frame)> send);
  ~Machine();

  EngineHost& rnic(int which) { return *rnics_[which]; }
  const wire::Gid& gid() const { return rnics_[0]->gid(); }

  // Finds the path to the peer, from both. `world.RunUntil()` must follow.
  void Resolve(const wire::Gid& peer);
  // REQUIRES: it was found
  const net::Path& path(int which) const;

  // A frame arrives from the wire. Now and then it is marked.
  void OnFrame(Frame frame);
  // The QPN of its destination; none: it is not for a queue pair.
  static std::optional<uint32_t> QpnOf(const Frame& frame);

  void Add(uint32_t qpn, RcEnd* end) { ends_[qpn] = end; }
  void Remove(uint32_t qpn) { ends_.erase(qpn); }
  // Null: no queue pair has the number.
  RcEnd* Find(uint32_t qpn) const {
    const auto found = ends_.find(qpn);
    return found != ends_.end() ? found->second : nullptr;
  }
  // Passes the queue pair's frames that one RNIC has received, and not looked
  // at, to the other one.
  void PassOn(uint32_t qpn, int from);

  uint64_t count(RxVerdict verdict) const {
    return rnics_[0]->count(verdict) + rnics_[1]->count(verdict);
  }

 private:
  class Judge;

  void AfterTurn(int which);

  Random random_;
  std::map<uint32_t, RcEnd*> ends_;
  std::unique_ptr<Judge> judge_;
  std::optional<net::Path> paths_[2];
  std::unique_ptr<EngineHost> rnics_[2];
};

}  // namespace urnic::sim
