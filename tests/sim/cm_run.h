#pragma once

// Two connection managers, a link that loses, duplicates, reorders and delays,
// and programs that decide at random, early, late or never. The rules: no
// program is told anything twice, or anything after the end; both sides finally
// agree which connections are established; and when all handles are destroyed,
// nothing is left.
//
// In a run with moves, everything that a manager has moves to a new one now and
// then, at any moment, as images (transport/cm/image.h). The new one has its
// own ids and another clock. Single connections also leave their manager and
// come back. The run must be the same as without moves: the same messages and
// events, of the same connections, at the same times.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/world.h"
#include "tests/support/cm_sink.h"
#include "transport/cm/image.h"

namespace urnic::sim {

struct CmStats {
  uint64_t established = 0;  // at the end of the run, each end counted
  uint64_t resolved = 0;
  uint64_t moves = 0;   // of connections
  uint32_t states = 0;  // in which one has moved: one bit each
};

// A message or an event of a manager.
struct CmStep {
  Time at;
  int node;
  int name;  // of the connection; -1: a message
  int what;  // EventKind, attribute
  friend bool operator==(const CmStep&, const CmStep&) = default;
};

class CmRun {
 public:
  CmRun(uint64_t seed, bool moves);

  // Runs until nothing is under way, due or planned, and checks the final
  // rules. Returns what has happened.
  std::vector<CmStep> Run(CmStats& stats);

 private:
  using Handle = cm::Handle;
  using State = cm::State;
  struct Node {
    // The manager's clock.
    Time Now(Time now) const { return now + shift; }
    Time Due() const {
      const Time due = manager->NextDeadline();
      return due.IsInfinite() ? due : due + shift * -1;
    }
    Handle Of(int name) const {
      const auto at = handles.find(name);
      return at == handles.end() ? Handle() : at->second;
    }
    std::optional<int> NameOf(Handle handle) const {
      for (const auto& [name, value] : handles) {
        if (value == handle) return name;
      }
      return std::nullopt;
    }

    std::unique_ptr<cm::ConnectionManager> manager;
    testing::CmSink sink;
    Duration shift;
    std::vector<Handle> listeners;
    // All that are not destroyed, by a name that a move does not change.
    std::map<int, Handle> handles;
  };

  cm::Config ConfigOf(int i, testing::Random& random) const;
  void Start(int i);
  void Listen(Node& node);
  void Settle();
  void After(uint64_t ns, std::function<void()> action) {
    plan_.emplace(now_ + Duration::Nanoseconds(static_cast<int64_t>(ns)),
                  std::move(action));
  }
  uint64_t Soon() { return random_.Below(60'000'000); }
  uint64_t OnTheWay() { return random_.Below(5'000'000); }
  net::PathQuery PathTo(int from, int to) const;

  // --- Programs ------------------------------------------------------------
  void Attempt();
  Qpn FreeQpn(const Node& node);
  int Name(Node& node, Handle handle);
  void Drain();
  void Send(int from, const testing::SentMad& mad);
  void React(int i, const cm::Event& event);
  void AnswerLate(int i, int name);
  void OnRequest(int i, int name);
  void Accept(int i, int name);
  void OnReply(int i, int name);
  void SendRtu(int i, int name);
  void OnEstablished(int i, int name);
  void EstablishByTraffic(uint32_t comm_id);
  void Destroy(int i, int name);

  // --- Moves ---------------------------------------------------------------
  void Move(int i);
  void MoveOut(int i);
  std::vector<uint8_t> TakeOut(Node& node, uint32_t comm_id);
  void PutIn(Node& node, std::span<const uint8_t> image,
             std::optional<int> name);

  // --- Rules ---------------------------------------------------------------
  void Note(int i, int name, cm::EventKind kind);
  bool HasEstablished(uint32_t local, uint32_t remote) const;
  void CheckRest(CmStats& stats) const;
  void CheckNothingLeft() const;

  testing::Random random_;
  testing::Random move_random_;
  const uint64_t loss_percent_;
  // Limits of half-open connections: low in every third run.
  uint32_t per_source_ = 8;
  uint32_t per_listener_ = 12;
  Time now_ = Time::FromNs(1);
  std::multimap<Time, std::function<void()>> plan_;
  Node nodes_[2];
  int next_name_ = 0;
  bool restarts_ = false;
  // Communication ids of ends that withdrew or gave up what they had accepted,
  // or had to make room: their peer gets one REJ, which may be lost.
  std::set<uint32_t> late_;
  // By name: what its owner was told, and that it was established.
  std::map<int, uint32_t> told_;
  std::set<int> established_;
  std::vector<CmStep> steps_;
  CmStats stats_;
};

}  // namespace urnic::sim
