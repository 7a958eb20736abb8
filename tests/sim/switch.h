#pragma once

// The switch of a run with real engines: places for hosts, each with an uplink
// and a downlink that may be faulty. A host may move: the switch then sees it
// under another MAC. Part of the way may carry short packets only.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/sim_port.h"
#include "tests/sim/world.h"
#include "transport/wire/address.h"

namespace urnic::sim {

class Switch {
 public:
  class Place;
  using OnFrame = std::function<void(Frame)>;

  explicit Switch(World& world);
  ~Switch();

  // A place for the host with this MAC. `arrived` gets its frames.
  Place& Add(const wire::MacAddress& mac, const LinkConfig& up,
             uint64_t up_seed, const LinkConfig& down, uint64_t down_seed,
             OnFrame arrived);
  // Frames to `mac`, of a stranger without a place, go to `arrived`.
  void AddStranger(const wire::MacAddress& mac, OnFrame arrived);

  // A host sends.
  void Send(Place& place, Frame frame);
  // A frame has come to the switch, with its FCS.
  void Arrive(Frame frame);

  // Moves a host to another MAC. Frames on their way to the old one are lost.
  void Move(Place& place);
  static const wire::MacAddress& seen(const Place& place);
  static const Link& downlink(const Place& place);

  // Packets of more than `mtu` bytes are dropped from now on. `report` is
  // called for each; null: nobody is told. 0: every packet passes.
  void Narrow(uint32_t mtu, std::function<void(const Frame&)> report);

  // Frames that the uplinks have lost.
  uint64_t lost() const;

 private:
  struct Stranger {
    wire::MacAddress mac;
    OnFrame arrived;
  };

  World& world_;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<Stranger> strangers_;
  uint32_t narrow_mtu_ = 0;
  std::function<void(const Frame&)> report_;
};

}  // namespace urnic::sim
