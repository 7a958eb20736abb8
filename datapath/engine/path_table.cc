#include "datapath/engine/path_table.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic {

namespace {

Destination::Key KeyOf(const net::Path& path) {
  Destination::Key key;
  std::ranges::copy(path.local.bytes, key.begin());
  std::ranges::copy(path.remote.bytes, key.begin() + 16);
  return key;
}

ReadyList<PathWaiter>& ListOf(RoceQp& qp) {
  Destination& destination = *qp.destination;
  return qp.path_waiter.first ? destination.first : destination.in_turn;
}

}  // namespace

PathTable::~PathTable() { URNIC_CHECK(destinations_.empty()); }

void PathTable::Join(RoceQp& qp) {
  URNIC_CHECK(qp.destination == nullptr);
  const Destination::Key key = KeyOf(qp.path);
  Destination& destination = destinations_.try_emplace(key, key).first->second;
  destination.path.Use(&room_);
  qp.destination = &destination;
  qp.JoinPath(&destination.path);
}

Destination* PathTable::Leave(RoceQp& qp) {
  Destination* const left = qp.destination;
  if (left == nullptr) return nullptr;
  if (qp.path_waiter.ready) {
    ListOf(qp).Remove(qp.path_waiter);
    --left->path.waiting;
  }
  qp.JoinPath(nullptr);
  qp.destination = nullptr;
  if (left->path.users != 0) return left;
  left_.Add(left->path.round_trips);
  left->path.Use(nullptr);
  destinations_.erase(Destination::Key(left->key));
  return nullptr;
}

void PathTable::AddRoundTrips(cc::RoundTripCounts& to) const {
  to.Add(left_);
  for (const auto& [key, destination] : destinations_)
    to.Add(destination.path.round_trips);
}

bool PathTable::Follows(const RoceQp& qp) {
  return qp.destination != nullptr && qp.destination->key == KeyOf(qp.path);
}

void PathTable::Wait(RoceQp& qp, PathWait how) {
  if (qp.path_waiter.ready) return;
  Destination& destination = *qp.destination;
  qp.path_waiter.first = how == PathWait::kFirst;
  ListOf(qp).Push(qp.path_waiter);
  ++destination.path.waiting;
}

void PathTable::LetGo(Destination& destination, ReadyList<Flow>& ready) {
  cc::SharedPath& path = destination.path;
  while (path.LetsGo()) {
    ReadyList<PathWaiter>& first = destination.first;
    ReadyList<PathWaiter>& in_turn = destination.in_turn;
    const bool from_first =
        in_turn.empty() ||
        MUTATION(lets_nobody_go_first, destination.first_next && !first.empty(),
                 false);
    destination.first_next = !from_first;
    RoceQp& qp = *(from_first ? first : in_turn).Pop().qp;
    --path.waiting;
    qp.Grant(path.NextGrant());
    qp.OnDoorbell();  // it has more than an acknowledgement to send
    ready.Push(qp);
  }
}

}  // namespace urnic
