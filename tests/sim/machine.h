#pragma once

// A host with two RNICs of one identity, one of which has each queue pair, with
// clocks that show different times. Packets are led to the RNIC that has their
// queue pair; everything else goes to both. So a queue pair can go over to the
// other one at any moment, as on a failover, and its peer sees nothing of it.
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
  Duration ahead[2];    // the RNICs' clocks, of the world's
};

class Machine {
 public:
  static constexpr uint16_t kMtu = 4200;

  // `send`: a frame leaves.
  Machine(World& world, const Buffers& buffers, const MachineConfig& config,
          uint64_t seed, std::function<void(Frame)> send);
  ~Machine();

  EngineHost& rnic(int which) { return *rnics_[which]; }
  const wire::Gid& gid() const { return rnics_[0]->gid(); }

  // Finds the way to the peer, from both. `world.RunUntil()` must follow.
  void Resolve(const wire::Gid& peer);
  // REQUIRES: it was found
  const net::Path& path(int which) const;

  // A frame comes off the wire, with a mark now and then.
  void OnFrame(Frame frame);
  // The number of its destination; none: it is not for a queue pair.
  static std::optional<uint32_t> QpnOf(const Frame& frame);

  void Add(uint32_t qpn, RcEnd* end) { ends_[qpn] = end; }
  void Remove(uint32_t qpn) { ends_.erase(qpn); }
  // Null: no queue pair has the number.
  RcEnd* Find(uint32_t qpn) const {
    const auto found = ends_.find(qpn);
    return found != ends_.end() ? found->second : nullptr;
  }
  // What one RNIC has received of the queue pair and not looked at goes to the
  // other one.
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
