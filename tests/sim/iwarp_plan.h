#pragma once

// What is chosen at random for one connection of iWARP.

#include <array>
#include <cstdint>

#include "tests/sim/iwarp_end.h"
#include "tests/sim/iwarp_program.h"
#include "tests/sim/link.h"
#include "tests/sim/world.h"

namespace urnic::sim {

// How a program ends a connection.
enum class IwarpEnding : uint8_t { kDisconnect, kBoth, kAbort, kError };

struct IwarpPlan {
  // `port`: of the initiator. `retry`: with revision 1 of MPA, because the peer
  // may not know another.
  IwarpPlan(Random& random, uint16_t port, bool retry);
  static constexpr uint16_t kListenPort = 2000;

  int listener() const { return 1 - initiator; }

  int initiator;
  std::array<IwarpChoice, 2> ends;
  std::array<LinkConfig, 2> links;  // by the end that sends
  Duration faults;                  // how long there are any
  bool cookies;                     // the listener answers by SYN cookies
  bool rejects;
  bool may_fail_to_connect;
  bool damages;  // bytes change behind TCP's back
  bool marks;    // congestion experienced
  IwarpTrouble trouble;
  int troubled;
  uint64_t steps;  // of each program
  Duration pace;   // between steps, at most
  bool ends_early;
  IwarpEnding ending;
  int ender;

 private:
  IwarpChoice ChooseEnd(Random& random, bool listens, uint16_t port) const;
  void ChooseSetUp(Random& random, bool retry);
};

}  // namespace urnic::sim
