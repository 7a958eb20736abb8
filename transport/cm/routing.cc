#include "transport/cm/routing.h"

#include <cstring>

#include "transport/base/check.h"
#include "transport/cm/state_machine.h"

namespace urnic::cm {

Routing::Routing(const Config& config)
    : table_(config), half_open_(config, table_.salt()) {}

// --- Places ------------------------------------------------------------------

Place* Routing::Allocate() {
  Place* p = table_.Allocate();
  if (p != nullptr) half_open_.Grow(table_.slots());
  return p;
}

Place* Routing::Adopt(uint32_t comm_id) {
  Place* p = table_.Adopt(comm_id);
  if (p != nullptr) half_open_.Grow(table_.slots());
  return p;
}

void Routing::Free(Place& p) {
  displaced_ -= p.displaced ? 1 : 0;
  half_open_.Detach(p);
  table_.Free(p);
}

void Routing::Settle(Place& p, bool answered) {
  if (answered) half_open_.SetAnswered(p);
  if (p.half_open && !IsHalfOpen(p.state)) half_open_.Remove(p);
  table_.Index(p);
  const bool asks = p.state == State::kDreqSent;
  if (asks == p.awaits_drep) return;
  p.awaits_drep = asks;
  unanswered_dreqs_ += asks ? 1 : -1;
}

// --- Whom a message is for ---------------------------------------------------

Place* Routing::FindPair(uint32_t ours, uint32_t theirs) {
  Place* p = table_.FindByCommId(ours);
  const bool known = p != nullptr && p->state != State::kIdle &&
                     p->remote_comm_id != 0 && p->remote_comm_id == theirs;
  return known ? p : nullptr;
}

Place* Routing::FindTheirs(const net::PathQuery& from, uint64_t guid,
                           uint32_t theirs) {
  return table_.FindByPeer(from.remote, guid, theirs);
}

Place* Routing::FindRejected(const wire::CmRej& rej,
                             const net::PathQuery& from) {
  const uint32_t ours = rej.remote_comm_id.value();
  const uint32_t theirs = rej.local_comm_id.value();
  if (rej.reason.value() == wire::kRejTimeout) {
    // The sender gives up its REQ, and may not know our id.
    if (rej.ari_bytes() < sizeof(wire::Be<uint64_t>)) return nullptr;
    wire::Be<uint64_t> guid;
    std::memcpy(&guid, rej.ari, sizeof(guid));
    return FindTheirs(from, guid.value(), theirs);
  }
  if (rej.message_rejected() != wire::kCmMessageReq) {
    return FindPair(ours, theirs);
  }
  Place* p = table_.FindByCommId(ours);
  return p != nullptr && StateMachine::AwaitsRep(*p) ? p : nullptr;
}

// --- Listeners, room ---------------------------------------------------------

void Routing::RemoveListener(Place& p) {
  table_.RemoveListener(p);
  half_open_.ForgetListener(p.slot);
}

void Routing::SetDisplaced(Place& p) {
  p.displaced = true;
  ++displaced_;
}

void Routing::CheckInvariants() const {
  uint32_t used = 0;
  uint32_t half_open = 0;
  uint32_t unanswered_dreqs = 0;
  for (uint32_t i = 0; i < table_.slots(); ++i) {
    const Place& p = table_.slot(i);
    if (!p.used) continue;
    ++used;
    URNIC_CHECK(p.half_open == IsHalfOpen(p.state));
    URNIC_CHECK((p.source == HalfOpen::kNone) == (p.state == State::kListen));
    URNIC_CHECK(p.in_peer_index == KnowsPeersId(p));
    URNIC_CHECK(p.in_remote_qp_index == HoldsRemoteQp(p));
    URNIC_CHECK(p.in_local_qp_index == HoldsLocalQp(p));
    half_open += p.half_open ? 1 : 0;
    unanswered_dreqs += p.state == State::kDreqSent ? 1 : 0;
  }
  URNIC_CHECK(used == table_.in_use());
  URNIC_CHECK(half_open == half_open_.count());
  URNIC_CHECK(unanswered_dreqs == unanswered_dreqs_);
}

}  // namespace urnic::cm
