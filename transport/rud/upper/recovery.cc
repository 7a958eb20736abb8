#include "transport/rud/upper/recovery.h"

#include <algorithm>

#include "transport/base/mutation.h"

namespace urnic::rud::upper {
namespace {

constexpr Duration kFirstProbeGap = Duration::Milliseconds(5);
constexpr Duration kLongestProbeGap = Duration::Milliseconds(500);

}  // namespace

// --- Timers ------------------------------------------------------------------

void Recovery::RunTimers(Peer& peer) {
  if (peer.is_lost) return;
  handshake_.RunTimers(peer);
  for (Pair& pair : peer.pairs) {
    for (Path& path : pair.paths) CheckPath(path);
  }
  for (Pair& pair : peer.pairs) {
    if (core_.now >= pair.probe_due) Probe(pair);
  }
  if (core_.now >= peer.leaves_at ||
      (peer.living == 0 &&
       core_.now - peer.pathless_since >= core_.config.lost_after)) {
    Fail(peer, Status::kPeerLost);
  }
}

Time Recovery::DueAt(const Peer& peer) const {
  if (peer.is_lost) return Time::Infinite();
  Time due = std::min(handshake_.DueAt(peer), peer.leaves_at);
  for (const Pair& pair : peer.pairs) {
    due = std::min(due, pair.probe_due);
    for (const Path& path : pair.paths) {
      for (const Lane* lane = path.under_way.front(); lane != nullptr;
           lane = lane->next) {
        due = std::min(due, path.DueAt(core_.config, *lane));
      }
      if (path.waits && path.is_timed_out && path.state != PathState::kDead)
        due = std::min(due, path.silent_since + core_.config.dead_after);
    }
  }
  if (peer.living == 0)
    due = std::min(due, peer.pathless_since + core_.config.lost_after);
  if (peer.HasPending()) {
    for (const Path* path : peer.order) {
      if (path->PacedUntil() > core_.now)
        due = std::min(due, path->PacedUntil());
    }
  }
  return due;
}

void Recovery::CheckPath(Path& path) {
  for (Lane *lane = path.under_way.front(), *next = nullptr; lane != nullptr;
       lane = next) {
    next = lane->next;
    if (core_.now < path.DueAt(core_.config, *lane)) continue;
    OnLost(*lane, !path.WasPassed(*lane) || core_.now < path.LostAt(*lane));
    // A lane that was sent again is now behind `next`, and is not due.
  }
  if (path.waits && path.is_timed_out && path.state != PathState::kDead &&
      core_.now - path.silent_since >= core_.config.dead_after) {
    Die(path);
  }
}

void Recovery::OnLost(Lane& lane, bool timed_out) {
  Path& path = *lane.path;
  Sender::Detach(lane);
  if (timed_out) {
    ++core_.stats.time_outs;
    lane.tries = static_cast<uint8_t>(std::min(lane.tries + 1, 20));
    if (!path.is_timed_out) path.shared.cc.OnRto(core_.now);
    path.is_timed_out = true;
    if (path.state == PathState::kLiving) {
      path.state = PathState::kSuspect;
      Order(*path.pair->peer);
      ProbeSoon(*path.pair);
    }
  } else if (lane.packets == 1) {
    path.shared.cc.OnLoss(core_.now, 1);
  }
  if (lane.kind == UnitKind::kProbe) {
    lane.state = LaneState::kFree;
    return;
  }
  Redrive(lane);
}

// --- Paths -------------------------------------------------------------------

void Recovery::Order(Peer& peer) const {
  peer.order.clear();
  peer.completions = 0;
  for (Pair& pair : peer.pairs) {
    if (pair.nic->failed) continue;
    for (Path& path : pair.paths) {
      if (path.state != PathState::kDead) peer.order.push_back(&path);
    }
  }
  std::stable_sort(peer.order.begin(), peer.order.end(),
                   [](const Path* a, const Path* b) {
                     if (a->state != b->state) return a->state < b->state;
                     // 0 for a path that was not measured yet.
                     return a->shared.round_trip.smoothed_ns <
                            b->shared.round_trip.smoothed_ns;
                   });
}

void Recovery::Die(Path& path) {
  Peer& peer = *path.pair->peer;
  ++core_.stats.dead_paths;
  path.state = PathState::kDead;
  path.waits = false;
  if (--peer.living == 0) peer.pathless_since = core_.now;
  Order(peer);
  ProbeSoon(*path.pair);
  for (Lane* lane : path.under_way.All()) {
    Sender::Detach(*lane);
    if (lane->kind == UnitKind::kProbe) {
      lane->state = LaneState::kFree;
    } else {
      Redrive(*lane);
    }
  }
}

void Recovery::Revive(Path& path) {
  Peer& peer = *path.pair->peer;
  if (peer.is_lost || path.pair->nic->failed) return;
  if (path.state == PathState::kDead) {
    ++core_.stats.revived_paths;
    ++peer.living;
    path.shared.cc.Start(core_.config.quiet_packets, core_.config.most_packets,
                         peer.stride);
  }
  path.state = PathState::kLiving;
  Order(peer);
  for (Lane* lane : peer.parked.All()) {
    peer.parked.Remove(*lane);
    Redrive(*lane);
  }
  if (!peer.fencing.empty()) {
    peer.fence_due = core_.now;
    core_.Wake(core_.now);
  }
  core_.Touch(peer);
}

bool Recovery::NeedsProbes(const Pair& pair) {
  return pair.probe != nullptr && !pair.nic->failed &&
         std::any_of(
             pair.paths.begin(), pair.paths.end(),
             [](const Path& path) { return path.state != PathState::kLiving; });
}

void Recovery::ProbeSoon(Pair& pair) const {
  pair.probe_gap = kFirstProbeGap;
  pair.probe_due = core_.now;
  core_.Wake(core_.now);
}

// The paths that do not live take turns. An answer that arrives after the next
// probe was sent is ignored, so the gap grows.
void Recovery::Probe(Pair& pair) {
  if (!NeedsProbes(pair)) {
    pair.probe_due = Time::Infinite();
    return;
  }
  pair.probe_gap =
      std::clamp(pair.probe_gap * 2, kFirstProbeGap, kLongestProbeGap);
  pair.probe_due = core_.now + pair.probe_gap;
  if (pair.probe->state == LaneState::kBusy) {
    Sender::Detach(*pair.probe);
    pair.probe->state = LaneState::kFree;
  }
  for (size_t i = 0; i < pair.paths.size(); ++i) {
    Path& path = pair.paths[pair.next_probe++ % pair.paths.size()];
    if (path.state == PathState::kLiving) continue;
    return sender_.SendProbe(*pair.probe, path);
  }
}

Path* Recovery::BestOf(Pair& pair) {
  for (Path* path : pair.peer->order) {
    if (path->pair == &pair) return path;
  }
  return nullptr;
}

// --- Units -------------------------------------------------------------------

void Recovery::Redrive(Lane& lane) {
  Peer& peer = *lane.pair->peer;
  // It may refer to memory that none of our windows can read.
  if (lane.pair->nic->failed &&
      core_.operations[lane.unit.operation].status != Status::kOk) {
    lane.state = LaneState::kUseless;
    return core_.FailUnits(lane, Status::kWindowFailed);
  }
  Path* const best = BestOf(*lane.pair);
  if (best != nullptr && (best->state == PathState::kLiving ||
                          peer.order.front()->state != PathState::kLiving)) {
    return sender_.AskOrSendAgain(lane, *best);
  }
  // Another one of our windows that reaches the same window of the peer: the
  // next attempt from there makes the packets from here stale.
  for (Path* path : peer.order) {
    if (path->state != PathState::kLiving ||
        path->pair->peer_nic != lane.pair->peer_nic) {
      continue;
    }
    if (!Move(lane, *path->pair)) continue;
    ++core_.stats.moved;
    return sender_.SendAgain(lane, *path);
  }
  if (best != nullptr) return sender_.AskOrSendAgain(lane, *best);
  if (peer.order.empty()) {
    lane.state = LaneState::kParked;
    MUTATION_SKIPS(rud_upper_forgets_parked_units)
    peer.parked.Append(lane);
    return;
  }
  if (lane.kind != UnitKind::kRead) {
    return MUTATION(rud_upper_leaves_a_context_without_a_fence,
                    handshake_.Fence(lane), GiveUnitBack(lane));
  }
  // For a read, it is enough to give back our own context: after that, no
  // packet for it is placed.
  ++core_.stats.moved;
  if (MUTATION(rud_upper_leaves_a_read_with_its_context, Move(lane, *lane.pair),
               true))
    return GiveUnitBack(lane);
  lane.pair->nic->SetLane(lane.own, nullptr);
  lane.pair->nic->adapter->ReleaseContext(lane.own);
  lane.own = kNoContext;
  lane.theirs = kNoContext;
  OnFenced(lane);
}

bool Recovery::Move(Lane& lane, Pair& pair) {
  const auto own = pair.nic->adapter->AcquireContext();
  if (!own.has_value()) return false;
  lane.pair->nic->SetLane(lane.own, nullptr);
  lane.pair->nic->adapter->ReleaseContext(lane.own);
  lane.own = *own;
  lane.pair = &pair;
  lane.missing = wire::RudAllPackets(lane.packets);
  pair.nic->SetLane(*own, &lane);
  return true;
}

void Recovery::GiveUnitBack(Lane& lane) {
  core_.GiveUnitsBack(lane);
  lane.state = LaneState::kFree;
  lane.pair->free.Append(lane);
}

void Recovery::OnFenced(Lane& lane) {
  if (lane.theirs != kNoContext) return GiveUnitBack(lane);
  core_.GiveUnitsBack(lane);
  lane.state = LaneState::kUseless;
}

void Recovery::OnNicFailed(Nic& nic) {
  if (nic.failed) return;
  nic.failed = true;
  const bool all_failed =
      std::all_of(core_.nics.begin(), core_.nics.end(),
                  [](const auto& each) { return each->failed; });
  for (const std::unique_ptr<Peer>& peer : core_.peers) {
    if (peer == nullptr || peer->is_lost) continue;
    if (all_failed) {
      Fail(*peer, Status::kWindowFailed);
      continue;
    }
    for (Pair& pair : peer->pairs) {
      if (pair.nic != &nic) continue;
      for (Path& path : pair.paths) {
        if (path.state != PathState::kDead) Die(path);
      }
    }
  }
}

// --- The end of a peer -------------------------------------------------------

void Recovery::FailQueue(OperationList& queue, Status status) {
  while (!queue.empty()) {
    const uint32_t index = queue.PopFront(core_.operations.all());
    Operation& operation = core_.operations[index];
    if (operation.status == Status::kOk) operation.status = status;
    if (operation.begun != 0) operation.begun = operation.units;
    if (operation.open == 0) core_.End(index);
  }
}

void Recovery::Fail(Peer& peer, Status status) {
  if (peer.is_lost) return;
  peer.is_lost = true;
  // The queues come first, so that each operation ends with its last unit.
  FailQueue(peer.memory_queue, status);
  FailQueue(peer.message_queue, status);
  for (const Unit& unit : peer.again) core_.FailUnit(unit, status);
  peer.again.clear();
  for (PeerNic& nic : peer.nics) {
    for (const std::unique_ptr<Lane>& lane : nic.lanes) {
      if (lane == nullptr) continue;
      if (lane->state == LaneState::kBusy) Sender::Detach(*lane);
      const bool has_unit = lane->state == LaneState::kBusy ||
                            lane->state == LaneState::kParked ||
                            lane->state == LaneState::kFencing;
      if (has_unit && lane->kind != UnitKind::kProbe)
        core_.FailUnits(*lane, status);
    }
  }
  peer.parked = LaneList();
  peer.fencing = LaneList();
  for (Pair& pair : peer.pairs) {
    pair.free = LaneList();
    pair.probe = nullptr;
    for (Path& path : pair.paths) path.state = PathState::kDead;
  }
  peer.order.clear();
  peer.living = 0;
  handshake_.End(peer);
}

}  // namespace urnic::rud::upper
