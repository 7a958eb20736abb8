#pragma once

// The destinations of an engine's queue pairs. All queue pairs of RC to one
// address share a window (cc::SharedPath), and wait here when it is full. They
// continue in turn, so that each gets the same share. Queue pairs that began to
// wait with a single request and nothing in flight have a list of their own,
// and every second turn. So a small message waits for a burst of one other
// queue pair, not of all.
//
// Thread: the holder of the engine's token. Joining and leaving are control
// calls, and allocate; Wait() and LetGo() do not.

#include <array>
#include <cstdint>
#include <map>

#include "datapath/engine/flow.h"
#include "datapath/engine/ready_list.h"
#include "datapath/engine/roce_qp.h"
#include "transport/cc/shared_path.h"

namespace urnic {

// A destination. It exists while a queue pair uses it.
struct Destination {
  using Key = std::array<uint8_t, 32>;  // our address and the remote one
  explicit Destination(const Key& key) : key(key) {}

  const Key key;
  cc::SharedPath path;
  // path.waiting counts the queue pairs in both lists.
  ReadyList<PathWaiter> first;  // PathWait::kFirst
  ReadyList<PathWaiter> in_turn;
  bool first_next = true;  // the next turn belongs to `first`
  Time compare_at;  // when our clock is compared with the wall clock again
};

class PathTable {
 public:
  PathTable() = default;
  // REQUIRES: no queue pair has joined.
  ~PathTable();
  PathTable(const PathTable&) = delete;
  PathTable& operator=(const PathTable&) = delete;

  // How many packets the port can hold.
  void SetPortRoom(uint32_t packets) { room_.packets = packets; }

  // From now on the queue pair shares the window of the destination of its
  // path. REQUIRES: it has left its previous destination.
  void Join(RoceQp& qp);
  // Returns the destination, for LetGo(): others may continue now. Null: it was
  // destroyed, because no other queue pair uses it, or the queue pair had not
  // joined one.
  Destination* Leave(RoceQp& qp);
  // Whether the queue pair has joined the destination of its path.
  static bool Follows(const RoceQp& qp);

  // Carries out FlowResult::waits. A queue pair that already waits keeps its
  // place.
  static void Wait(RoceQp& qp, PathWait how);
  // Adds the round trips of all destinations, including those that are gone.
  void AddRoundTrips(cc::RoundTripCounts& to) const;

  // Carries out FlowResult::lets_go: moves the queue pairs that may send now to
  // `ready`.
  static void LetGo(Destination& destination, ReadyList<Flow>& ready);

 private:
  cc::PortRoom room_;
  cc::RoundTripCounts left_;  // of destinations that are gone
  std::map<Destination::Key, Destination> destinations_;
};

}  // namespace urnic
