#pragma once

// The destinations of an engine's queue pairs. All queue pairs of RC to one
// address share a window (cc::SharedPath), and wait here when it is full. They
// are let go in turn, so that each gets as much as the others. Of two that are
// let go, one had a single request and nothing under way when it began to wait,
// if there is such a one: so a small message waits for a burst of another queue
// pair, and not for one of each.
//
// Thread: the holder of the engine's token. Joining and leaving are control
// calls, and allocate; waiting and letting go do not.

#include <array>
#include <cstdint>
#include <map>

#include "datapath/engine/flow.h"
#include "datapath/engine/ready_list.h"
#include "datapath/engine/roce_qp.h"
#include "transport/cc/shared_path.h"

namespace urnic {

// A destination, as long as a queue pair uses it.
struct Destination {
  using Key = std::array<uint8_t, 32>;  // our address, and the other
  explicit Destination(const Key& key) : key(key) {}

  const Key key;
  cc::SharedPath path;
  // path.waiting counts the queue pairs in both lists.
  ReadyList<PathWaiter> first;  // PathWait::kFirst
  ReadyList<PathWaiter> in_turn;
  bool first_next = true;  // one of `first` goes next
  Time compare_at;  // when our clock is compared with the wall clock again
};

class PathTable {
 public:
  PathTable() = default;
  // REQUIRES: no queue pair has joined.
  ~PathTable();
  PathTable(const PathTable&) = delete;
  PathTable& operator=(const PathTable&) = delete;

  // What the port holds.
  void SetPortRoom(uint32_t packets) { room_.packets = packets; }

  // The queue pair shares the window to where its path leads now. REQUIRES: it
  // has left other destinations.
  void Join(RoceQp& qp);
  // Returns the destination, where others may be let go; null: nobody uses it
  // any more, or the queue pair had not joined.
  Destination* Leave(RoceQp& qp);
  // Whether the queue pair has joined the destination of its path.
  static bool Follows(const RoceQp& qp);

  // FlowResult::waits. A queue pair that waits already keeps its place.
  static void Wait(RoceQp& qp, PathWait how);
  // Adds the round trips of all destinations, also of those that were left.
  void AddRoundTrips(cc::RoundTripCounts& to) const;

  // FlowResult::lets_go: moves those that may send now to `ready`.
  static void LetGo(Destination& destination, ReadyList<Flow>& ready);

 private:
  cc::PortRoom room_;
  cc::RoundTripCounts left_;  // of destinations that nobody uses any more
  std::map<Destination::Key, Destination> destinations_;
};

}  // namespace urnic
