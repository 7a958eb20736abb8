#pragma once

// Recovery of units whose commands were lost, and handling of paths without
// answers. docs/design/0014-rud.md, "The upper layer", has the rules.

#include <cstdint>

#include "transport/rud/upper/core.h"
#include "transport/rud/upper/handshake.h"
#include "transport/rud/upper/sender.h"

namespace urnic::rud::upper {

class Recovery {
 public:
  Recovery(Core* core, Sender* sender, Handshake* handshake)
      : core_(*core), sender_(*sender), handshake_(*handshake) {}

  // Handles what is due now.
  void RunTimers(Peer& peer);
  // When something will be due; infinite: never.
  Time DueAt(const Peer& peer) const;

  // A command that was sent on this path has been answered.
  void OnAnswer(Path& path) {
    path.waits = !path.under_way.empty();
    path.silent_since = core_.now;
    if (__builtin_expect(path.is_timed_out, 0)) path.is_timed_out = false;
    if (__builtin_expect(path.state != PathState::kLiving, 0)) Revive(path);
  }
  // Retransmits the unit of a lane, on a better path if there is one. REQUIRES:
  // the lane is in no list.
  void Redrive(Lane& lane);
  // The peer has fenced the lane's context, so the unit may begin on another
  // lane.
  void OnFenced(Lane& lane);
  // The window no longer executes commands.
  void OnNicFailed(Nic& nic);
  // Sorts the living and suspect paths: the best first.
  void Order(Peer& peer) const;
  // Ends all operations with the peer, with this status.
  void Fail(Peer& peer, Status status);

 private:
  void CheckPath(Path& path);
  void OnLost(Lane& lane, bool timed_out);
  void Die(Path& path);
  void Revive(Path& path);
  void Probe(Pair& pair);
  void ProbeSoon(Pair& pair) const;
  static bool NeedsProbes(const Pair& pair);
  static Path* BestOf(Pair& pair);
  // Gives the lane another one of our contexts, from this pair's window. False:
  // none is free.
  bool Move(Lane& lane, Pair& pair);
  void GiveUnitBack(Lane& lane);
  void FailQueue(OperationList& queue, Status status);

  Core& core_;
  Sender& sender_;
  Handshake& handshake_;
};

}  // namespace urnic::rud::upper
