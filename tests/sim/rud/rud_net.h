#pragma once

// A network of RUD windows. Each NIC is a window with the core of its RNIC, and
// an adapter for the upper layer. Each pair of NICs has several paths with
// their own faults. Paths and NICs die and come back.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/world.h"
#include "tests/support/rud_end.h"
#include "tests/support/rud_ring_memory.h"
#include "transport/rud/upper/adapter.h"

namespace urnic::sim {

class RudNet;

// A NIC, from the start of its process until the process ends.
class RudNic : public rud::upper::Adapter {
 public:
  RudNic(RudNet* net, uint32_t number, const testing::RudEndConfig& config,
         uint32_t packet_bytes);
  ~RudNic() override;

  rud::upper::WindowAddress Address() const override;
  rud::upper::RingMemory Rings() override;
  uint32_t PacketBytes() const override { return packet_bytes_; }
  uint32_t AddPeer(const rud::upper::WindowAddress& address) override;
  void RemovePeer(uint32_t peer) override;
  std::optional<rud::ContextId> AcquireContext() override;
  void ReleaseContext(rud::ContextId context) override;
  void Doorbell() override;

  testing::RudEnd& end() { return end_; }
  uint32_t number() const { return number_; }
  // A packet arrives. `from`: the number of its sender.
  void OnArrival(uint32_t from, std::vector<uint8_t> packet);
  // A packet from before arrives again.
  void Replay();
  // How many contexts the upper layer has.
  uint32_t contexts() const { return contexts_; }

  std::function<void()> on_entries;  // called when there may be entries
  // Whether there is a route to the NIC with this address. Null: always.
  std::function<bool(const wire::Gid&)> reaches;

 private:
  struct Arrived {
    uint32_t from;
    std::vector<uint8_t> packet;
  };

  void Soon(uint32_t ns, std::function<void()> what);
  void Pump();
  void ReceiveBurst();
  uint32_t HandleOf(uint32_t from) const;

  RudNet& net_;
  const uint32_t number_;
  const uint32_t packet_bytes_;
  testing::RudEnd end_;
  std::vector<std::optional<rud::upper::WindowAddress>> peers_;
  std::vector<Arrived> inbox_;
  std::vector<Arrived> history_;
  uint32_t contexts_ = 0;
  bool pumps_ = false;
  const std::shared_ptr<int> life_ = std::make_shared<int>();
};

class RudNet {
 public:
  // Returns the faults of a path from one NIC to another.
  using MakeLink =
      std::function<LinkConfig(uint32_t from, uint32_t to, uint8_t path)>;

  RudNet(World* world, uint64_t seed, MakeLink make_link)
      : world_(*world), random_(seed), make_link_(std::move(make_link)) {}

  World& world() { return world_; }
  Random& random() { return random_; }
  // How long an RNIC or a program waits at most before it looks again.
  uint32_t lazy_us = 3;
  bool replays = false;
  // Packets to and from a dead NIC wait until it lives again.
  bool keeps_packets = false;
  std::array<uint64_t, kRxVerdictCount> verdicts = {};

  // The current NIC with this number; null: it is down.
  void SetNic(uint32_t number, RudNic* nic);
  RudNic* NicOf(uint32_t number) const;
  void Send(uint32_t from, uint32_t to, std::vector<uint8_t> packet);
  void SetNicDead(uint32_t number, bool dead);
  bool IsNicDead(uint32_t number) const;
  // In both directions.
  void SetPathDead(uint32_t a, uint32_t b, uint8_t path, bool dead);
  void StopFaults();

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint8_t>;

  World& world_;
  Random random_;
  const MakeLink make_link_;
  bool faulty_ = true;
  std::map<uint32_t, RudNic*> nics_;
  std::map<Key, std::unique_ptr<Link>> links_;
  std::map<Key, bool> dead_paths_;
  std::map<uint32_t, bool> dead_nics_;
  struct Kept {
    uint32_t from;
    uint32_t to;
    std::vector<uint8_t> packet;
  };
  std::vector<Kept> kept_;
};

wire::Gid RudAddressOf(uint32_t number);

}  // namespace urnic::sim
