#pragma once

// A run: two to sixteen hosts with real engines (engine_host.h) at a switch,
// behind faulty wires and rings with limits. Programs on them talk (talk.h) and
// send datagrams (mail.h); a stranger pings them (pings.h). In runs with IPv4,
// hosts may also move to another MAC, announced or not. Everything follows from
// the seed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/buffers.h"
#include "tests/sim/engine_host.h"
#include "tests/sim/link.h"
#include "tests/sim/mail.h"
#include "tests/sim/pings.h"
#include "tests/sim/switch.h"
#include "tests/sim/talk.h"
#include "tests/sim/world.h"

namespace urnic::sim {

struct EngineStats {
  uint64_t lives = 0;
  uint64_t messages = 0;
  uint64_t failures = 0;
  uint64_t datagrams = 0;
  uint64_t moves = 0;
  uint64_t lost = 0;     // frames, on wires and in rings
  uint64_t blocked = 0;  // times that a ring was full
  uint64_t events = 0;
  uint64_t pings = 0;  // in fragments, answered
};

// After a Violation, a run must not be destroyed: the exception may have left
// the middle of an engine.
class EngineRun {
 public:
  EngineRun(Buffers& buffers, uint64_t seed);
  ~EngineRun();

  // Throws Violation.
  EngineStats Run();

 private:
  struct Place;

  void MakeWire();
  void MakeHost(uint8_t number, const Buffers& buffers);
  void MakeTalk(uint32_t number);
  void OnCmEvent(EngineHost& host, const cm::Event& event);
  void PlanPing();
  void Move();
  void PlanMove();

  Buffers& buffers_;
  World world_;
  Random random_;
  Switch switch_;
  LinkConfig link_;
  bool ipv6_ = false;
  bool mild_ = true;
  bool ordered_ = true;
  bool moves_ = false;
  uint16_t mtu_ = 1500;
  std::vector<std::unique_ptr<Place>> places_;
  std::vector<std::unique_ptr<Talk>> talks_;
  std::unique_ptr<Mail> mail_;
  std::unique_ptr<Link> stranger_;
  std::unique_ptr<Pings> pings_;
  EngineStats stats_;
};

}  // namespace urnic::sim
