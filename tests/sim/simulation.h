#pragma once

// One run: two hosts with real engines (machine.h), some reliable connections
// between them, faulty links, random programs, and the oracle. Everything
// follows from the seed.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/buffers.h"
#include "tests/sim/flow.h"
#include "tests/sim/forger.h"
#include "tests/sim/image.h"
#include "tests/sim/link.h"
#include "tests/sim/machine.h"
#include "tests/sim/rc_end.h"
#include "tests/sim/world.h"

namespace urnic::sim {

// What goes wrong in a connection besides the network.
enum class Trouble : uint8_t {
  kNone,
  kDrain,  // not an error: SQD and back, again and again
  kBadRequest,
  kSmallReceive,
  kDeregister,
  kBrokenMemory,
  kModifyToError,
};

struct RunStats {
  uint64_t requests = 0;  // that succeeded
  uint64_t packets = 0;
  uint64_t resent = 0;
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t forged = 0;
  uint64_t moves = 0;     // of queue pairs, from engine to engine
  uint64_t blocked = 0;   // times that a port was full
  uint64_t replayed = 0;  // calls of cores
  uint32_t connections = 0;
  uint32_t in_error = 0;
  Duration virtual_time;
};

// After a Violation, a run must not be destroyed: the exception may have left
// the middle of an engine.
class Simulation {
 public:
  Simulation(const Buffers& buffers, uint64_t seed);
  ~Simulation();

  // Throws Violation. REQUIRES: it is the first call.
  RunStats Run();

  // One line that describes this seed.
  std::string Describe() const;

 private:
  struct Connection;

  void BuildHosts(const Buffers& buffers);
  void BuildMemories();
  void MakeForger();
  void BuildConnection(uint32_t number);
  void BuildSide(Connection& c, uint32_t which, uint32_t number);
  void ConfigureEnds(Connection& c);
  void MakeXrc(Connection& c);
  void MakeMoving(Connection& c, uint32_t number);
  void ChooseTrouble(Connection& c);
  void Wire(Connection& c);
  // A frame has left one of the machines.
  void OnFrame(int from, Frame frame);
  LinkConfig MakeLinkConfig();

  void RegisterKeys(Connection& c, uint32_t which);
  void StartFlows(Connection& c);
  // A connection that has come to rest, well or in error, is reset and used
  // again now and then.
  void EndLife(Connection& c);
  bool over() const;
  void BeginNextLife(Connection& c);
  void CheckConnection(Connection& c);

  void ProgramStep(Connection& c);
  void MakeTrouble(Connection& c);
  void Drain(Connection& c, uint32_t which);
  void PlanForgery();
  void StopFaults();
  void CheckErrors(const Connection& c) const;
  void CheckAtEnd();
  void CheckNothingHeld(const Connection& c) const;

  uint64_t seed_;
  Random random_;
  World world_;
  LinkConfig link_config_;
  bool mild_ = false;      // so few faults that no retry counter runs out
  bool no_timer_ = false;  // local_ack_timeout 0
  bool faults_on_ = true;
  uint32_t connection_count_;
  uint32_t message_max_;
  uint32_t slots_;
  size_t slot_bytes_;
  size_t part_bytes_ = 0;  // of one pool of slots, in whole pages
  RunStats stats_;

  std::unique_ptr<Machine> machines_[2];
  std::unique_ptr<ProgramMemory> memories_[2];
  std::unique_ptr<Image> images_[2];
  std::vector<std::unique_ptr<Connection>> connections_;

  std::optional<Forger> forger_;
  Duration forged_every_;
  uint64_t forged_turn_ = 0;
};

}  // namespace urnic::sim
