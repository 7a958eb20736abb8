#pragma once

// A run of iWARP devices: two to six hosts with real engines (engine_host.h) at
// a switch, behind faulty wires and rings with limits, with little or much
// memory for connections. Programs on them connect, work and part (session.h).
// Some networks also lose addresses, move hosts, carry only short packets for a
// while, and have a stranger who attacks (flood.h). Everything follows from the
// seed.
//
// At the end nothing may be left: no connection, no handshake, no record of
// TIME-WAIT, and none of the memory that connections share.

#include <cstdint>
#include <memory>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "tests/sim/buffers.h"
#include "tests/sim/engine_host.h"
#include "tests/sim/flood.h"
#include "tests/sim/link.h"
#include "tests/sim/session.h"
#include "tests/sim/switch.h"
#include "tests/sim/world.h"

namespace urnic::sim {

struct DeviceStats {
  SessionStats sessions;
  uint64_t forged = 0;  // segments of the stranger
  uint64_t lost = 0;    // frames, on wires and in rings
  uint64_t events = 0;
};

// After a Violation, a run must not be destroyed: the exception may have left
// the middle of an engine.
class DeviceRun {
 public:
  DeviceRun(Buffers& buffers, uint64_t seed);
  ~DeviceRun();

  // Throws Violation.
  DeviceStats Run();

 private:
  struct Place;

  void MakeWire();
  ConnectionLimits MakeLimits();
  void MakeHost(uint8_t number);
  void MakeSession(uint32_t number);
  void OpenDoor(Place& place);
  void OnRequest(Place& place, IwarpConnection& connection);
  Place& AnyPlace() { return *places_[random_.Below(places_.size())]; }

  // What the network does, again and again until the sessions are over.
  void Repeat(uint64_t most_us, std::function<void()> what);
  void Attack();
  void CloseDoor();
  void LoseAddress();
  void Move();
  void NarrowPath();
  void ReportTooBig(const Frame& frame, uint32_t mtu);

  bool over() const;
  void CheckEnd();

  const uint64_t seed_;
  Buffers& buffers_;
  World world_;
  Random random_;
  Switch switch_;
  LinkConfig link_;
  bool ipv6_ = false;
  bool mild_ = true;     // no established connection fails
  bool still_ = true;    // and none before that
  bool ordered_ = true;  // nothing is lost or reordered
  uint16_t mtu_ = 1500;
  uint32_t backlog_ = 128;
  uint32_t narrowings_ = 0;
  uint32_t address_losses_ = 0;
  uint32_t moves_ = 0;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<Flood> flood_;
  DeviceStats stats_;
};

}  // namespace urnic::sim
