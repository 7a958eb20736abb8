#pragma once

// What happens to units whose commands were lost, and to paths that bring no
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

  // What is due now.
  void RunTimers(Peer& peer);
  // When there will be something; infinite: never.
  Time DueAt(const Peer& peer) const;

  // Something that went along this path has been answered.
  void OnAnswer(Path& path) {
    path.waits = !path.under_way.empty();
    path.silent_since = core_.now;
    if (__builtin_expect(path.is_timed_out, 0)) path.is_timed_out = false;
    if (__builtin_expect(path.state != PathState::kLiving, 0)) Revive(path);
  }
  // The lane, in no list, has a unit that must be sent again, not along the
  // path that it took if there is a better one.
  void Redrive(Lane& lane);
  // The lane's context at the peer was fenced: its unit may begin elsewhere.
  void OnFenced(Lane& lane);
  // The window executes no commands any more.
  void OnNicFailed(Nic& nic);
  // The paths in the order in which they are to be used.
  void Order(Peer& peer) const;
  // All operations with the peer end with this status.
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
  // Gives the lane another context of ours, of this pair's window.
  bool Move(Lane& lane, Pair& pair);
  void GiveUnitBack(Lane& lane);
  void FailQueue(OperationList& queue, Status status);

  Core& core_;
  Sender& sender_;
  Handshake& handshake_;
};

}  // namespace urnic::rud::upper
