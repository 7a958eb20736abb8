// State changes, repetitions and timers of the connection manager.

#include <algorithm>

#include "transport/cm/connection_manager.h"
#include "transport/cm/messages.h"

namespace urnic::cm {

Connection* ConnectionManager::Allocate(State state) {
  Connection* c = table_.Allocate();
  if (c == nullptr) return nullptr;
  heap_.Grow(table_.slots());
  half_open_.Grow(table_.slots());
  SetState(*c, state);
  return c;
}

// Whatever was being repeated has had its answer.
void ConnectionManager::SetState(Connection& c, State state) {
  heap_.Clear(c.slot);
  if (c.half_open && !IsHalfOpen(state)) half_open_.Remove(c);
  unanswered_dreqs_ -= c.state == State::kDreqSent ? 1 : 0;
  unanswered_dreqs_ += state == State::kDreqSent ? 1 : 0;
  c.state = state;
}

void ConnectionManager::EnterIdle(Connection& c) {
  table_.Unindex(c);
  SetState(c, State::kIdle);
}

//= IBTA 12.9.8.4: TIMEWAIT lasts as long as packets of the connection may
//= live, which the local ACK timeout is longer than
void ConnectionManager::EnterTimewait(Connection& c, Time now) {
  SetState(c, State::kTimewait);
  const uint8_t longest =
      half_open_.HasAnswered(c) ? kLongestGrantCode : kUnansweredTimewaitCode;
  heap_.Set(c.slot, now + CodeTime(std::min(c.ack_timeout_code, longest)));
}

void ConnectionManager::Release(Connection& c) {
  displaced_ -= c.displaced ? 1 : 0;
  EnterIdle(c);
  half_open_.Detach(c);
  table_.Free(c);
}

void ConnectionManager::SendStored(const Connection& c, Sink& sink) {
  sink.SendMad(std::span<const uint8_t, wire::kMadBytes>(c.sent), c.mad_path);
}

void ConnectionManager::SendRepeatedly(Connection& c, Duration timeout,
                                       Time now, Sink& sink) {
  c.repeat_after = timeout;
  c.retries_left = c.max_cm_retries;
  c.retries_withheld = 0;
  heap_.Set(c.slot, now + timeout);
  SendStored(c, sink);
}

//= IBTA 12.6.7.2: reason 4 names the sender's CA, since the peer may know the
//= sender's message by nothing else
void ConnectionManager::SendRejectTimeout(Connection& c, Sink& sink) {
  const wire::Be<uint64_t> guid(config_.ca_guid);
  RejectParams params;
  params.reason = wire::kRejTimeout;
  params.ari = {reinterpret_cast<const uint8_t*>(&guid), sizeof(guid)};
  SendReject(c, params, sink);
}

void ConnectionManager::SendReject(Connection& c, const RejectParams& params,
                                   Sink& sink) {
  Store(c, MakeRej(c, params));
  SendStored(c, sink);
}

// Linux on x86 writes the communication id in its own byte order into the
// lower half; so do we, which makes messages comparable.
uint64_t ConnectionManager::NewTransactionId(const Connection& c) const {
  return uint64_t{config_.transaction_prefix} << 32 |
         __builtin_bswap32(c.local_comm_id);
}

Event ConnectionManager::EventOf(const Connection& c, EventKind kind) const {
  Event event;
  event.kind = kind;
  event.handle = table_.handle(c);
  event.user = c.user;
  return event;
}

void ConnectionManager::Emit(const Connection& c, EventKind kind, Sink& sink) {
  if (!c.orphan) sink.OnEvent(EventOf(c, kind));
}

void ConnectionManager::OnTimer(Time now, Sink& sink) {
  while (heap_.next() <= now && !heap_.next().IsInfinite()) {
    OnDeadline(table_.slot(heap_.next_item()), now, sink);
  }
}

void ConnectionManager::OnDeadline(Connection& c, Time now, Sink& sink) {
  if (c.state == State::kTimewait) {
    EnterIdle(c);
    Emit(c, EventKind::kTimewaitExit, sink);
    if (c.orphan) Release(c);
    return;
  }
  if (c.retries_left > 0) {
    --c.retries_left;
    heap_.Set(c.slot, now + c.repeat_after);
    SendStored(c, sink);
    return;
  }
  switch (c.state) {
    //= IBTA 12.9.6: who gives up says so. Linux does not; but a peer that has
    //= an answer under way would else be left with half a connection.
    case State::kReqSent:
    case State::kMraReqReceived:
      SendRejectTimeout(c, sink);
      EnterIdle(c);
      return Emit(c, EventKind::kReqError, sink);
    case State::kRepSent:
    case State::kMraRepReceived:
      SendRejectTimeout(c, sink);
      EnterTimewait(c, now);
      return Emit(c, EventKind::kRepError, sink);
    case State::kDreqSent:
      EnterTimewait(c, now);
      return Emit(c, EventKind::kDreqError, sink);
    case State::kSidrReqSent:
      EnterIdle(c);
      return Emit(c, EventKind::kSidrReqError, sink);
    default:
      URNIC_CHECK(!"no deadline in this state");
  }
}

void ConnectionManager::CheckInvariants() const {
  uint32_t used = 0;
  uint32_t half_open = 0;
  uint32_t unanswered_dreqs = 0;
  for (uint32_t i = 0; i < table_.slots(); ++i) {
    const Connection& c = table_.slot(i);
    if (!c.used) {
      URNIC_CHECK(!heap_.Has(i));
      continue;
    }
    ++used;
    const State s = c.state;
    URNIC_CHECK(c.half_open == IsHalfOpen(s));
    URNIC_CHECK((c.source == HalfOpen::kNone) == (s == State::kListen));
    half_open += c.half_open ? 1 : 0;
    unanswered_dreqs += s == State::kDreqSent ? 1 : 0;
    const bool repeats = s == State::kReqSent || s == State::kRepSent ||
                         s == State::kMraReqReceived ||
                         s == State::kMraRepReceived || s == State::kDreqSent ||
                         s == State::kSidrReqSent;
    URNIC_CHECK(heap_.Has(i) == (repeats || s == State::kTimewait));
    URNIC_CHECK(!c.orphan || s == State::kDreqSent || s == State::kTimewait);
    const bool idle = s == State::kIdle || s == State::kListen;
    URNIC_CHECK(!idle || (!c.in_peer_index && !c.in_remote_qp_index &&
                          !c.in_local_qp_index));
    const bool paired = s == State::kRepSent || s == State::kRepReceived ||
                        s == State::kEstablished || s == State::kTimewait ||
                        s == State::kDreqSent || s == State::kDreqReceived;
    // TIMEWAIT can follow a REJ of the REQ, when the peer has no id yet.
    URNIC_CHECK(!paired || s == State::kTimewait || c.in_remote_qp_index);
  }
  URNIC_CHECK(used == table_.in_use());
  URNIC_CHECK(half_open == half_open_.count());
  URNIC_CHECK(unanswered_dreqs == unanswered_dreqs_);
}

}  // namespace urnic::cm
