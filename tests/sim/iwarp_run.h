#pragma once

// A run of iWARP: two ends, which connect, work and part several times, over
// faulty links. Everything is chosen from one seed: options, programs, faults,
// trouble, and who ends a connection, how and when.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "tests/sim/iwarp_end.h"
#include "tests/sim/iwarp_flow.h"
#include "tests/sim/iwarp_plan.h"
#include "tests/sim/iwarp_program.h"
#include "tests/sim/iwarp_wire.h"
#include "tests/sim/link.h"
#include "tests/sim/world.h"
#include "transport/iwarp/tcp/half_open.h"

namespace urnic::sim {

struct IwarpStats {
  uint64_t connections = 0;  // that were established
  uint64_t requests = 0;     // that succeeded
  uint64_t quiet = 0;        // connections in which everything succeeded
  uint64_t resent = 0;       // segments
  uint64_t events = 0;
  uint64_t replayed = 0;  // calls of endpoints and cores
};

class IwarpRun {
 public:
  // `logs`: in every fourth run the inputs of both ends are logged, and
  // replayed.
  explicit IwarpRun(uint64_t seed, bool logs = true);
  // Throws Violation.
  IwarpStats Run();

 private:
  IwarpEnd& end(int i) { return *ends_[static_cast<size_t>(i)]; }
  IwarpFlow& flow(int from) { return *flows_[static_cast<size_t>(from)]; }
  IwarpProgram& program(int i) { return *programs_[static_cast<size_t>(i)]; }
  StreamRule& rule(int from) { return rules_[static_cast<size_t>(from)]; }
  Link& link(int from) { return *links_[links_.size() - 2 + (from != 0)]; }
  // An event of this connection only.
  template <typename F>
  void After(uint64_t max_ns, F&& f);

  void MakeEnd(int i);
  // A connection, from the plan to its end.
  void ConnectOnce();
  void MakeLinks();

  // Segments.
  void Send(int from, const wire::TcpFields& fields,
            std::span<const uint8_t> payload, bool ect);
  void OnArrival(int from, Link::Packet packet);
  bool Admit(int to, const wire::TcpSegment& segment);
  bool Listen(const wire::TcpSegment& segment);
  void Refuse(int from, const wire::TcpSegment& segment);
  void ServeListener();

  // Programs.
  void OnEvent(int i, iwarp::Event event);
  void OnConnected(int i);
  void Step(int i, uint64_t left);
  void EndIt();
  void AllowFailure();

  // Rules at rest.
  void WaitForRest(Duration limit, const char* what);
  void CheckWork();
  void CheckEnds();

  Random random_;
  World world_;
  std::array<std::unique_ptr<IwarpEnd>, 2> ends_;
  std::array<std::optional<IwarpFlow>, 2> flows_;
  std::array<std::optional<IwarpProgram>, 2> programs_;
  std::array<StreamRule, 2> rules_;
  std::deque<std::unique_ptr<Link>> links_;  // two for each connection
  tcp::ChallengeBudget challenges_;
  std::optional<tcp::HalfOpenTable> half_open_;
  std::optional<IwarpPlan> plan_;
  uint64_t connection_ = 0;
  uint16_t port_ = 0;   // of the initiator
  bool retry_ = false;  // with revision 1
  bool damaged_ = false;
  bool troubled_ = false;
  bool ending_ = false;
  std::array<bool, 2> connected_ = {};
  std::array<uint32_t, 2> end_events_ = {};
  std::array<bool, 2> requested_ = {};
  IwarpStats stats_;
};

}  // namespace urnic::sim
