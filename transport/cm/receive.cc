// Received messages: which it is, and those of a connection that exists.

#include <algorithm>

#include "transport/cm/connection_manager.h"
#include "transport/cm/messages.h"

namespace urnic::cm {

using wire::Be;

namespace {

template <typename Message>
const Message& As(std::span<const uint8_t> mad) {
  static_assert(sizeof(Message) == wire::kMadBytes && alignof(Message) == 1);
  return *reinterpret_cast<const Message*>(mad.data());
}

}  // namespace

RxVerdict ConnectionManager::OnMad(std::span<const uint8_t> mad,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  if (mad.size() != wire::kMadBytes) return RxVerdict::kBadMad;
  const auto& header = As<wire::CmLap>(mad).mad;
  if (header.base_version != wire::kMadBaseVersion ||
      header.management_class != wire::kMadClassCm ||
      header.class_version != wire::kCmClassVersion ||
      header.method != wire::kMadMethodSend) {
    return RxVerdict::kBadMad;
  }
  switch (header.attribute_id.value()) {
    case wire::kCmReqAttribute:
      return OnReq(As<wire::CmReq>(mad), from, now, sink);
    case wire::kCmMraAttribute:
      return OnMra(As<wire::CmMra>(mad), from, now, sink);
    case wire::kCmRejAttribute:
      return OnRej(As<wire::CmRej>(mad), from, now, sink);
    case wire::kCmRepAttribute:
      return OnRep(As<wire::CmRep>(mad), from, now, sink);
    case wire::kCmRtuAttribute:
      return OnRtu(As<wire::CmRtu>(mad), from, sink);
    case wire::kCmDreqAttribute:
      return OnDreq(As<wire::CmDreq>(mad), from, now, sink);
    case wire::kCmDrepAttribute:
      return OnDrep(As<wire::CmDrep>(mad), from, now, sink);
    case wire::kCmSidrReqAttribute:
      return OnSidrReq(As<wire::CmSidrReq>(mad), from, sink);
    case wire::kCmSidrRepAttribute:
      return OnSidrRep(As<wire::CmSidrRep>(mad), from, sink);
    case wire::kCmLapAttribute:
      return OnLap(As<wire::CmLap>(mad), from, sink);
    case wire::kCmAprAttribute:  // nobody here sends a LAP
      return RxVerdict::kCmUnexpected;
    default:
      return RxVerdict::kUnknownMadAttribute;
  }
}

// The connection that both sides call so, in whatever state.
Connection* ConnectionManager::FindPair(uint32_t ours, uint32_t theirs) {
  Connection* c = table_.FindByCommId(ours);
  const bool known = c != nullptr && c->state != State::kIdle &&
                     c->remote_comm_id != 0 && c->remote_comm_id == theirs;
  return known ? c : nullptr;
}

RxVerdict ConnectionManager::OnMra(const wire::CmMra& mra,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint32_t ours = mra.remote_comm_id.value();
  const bool of_req = mra.message_mraed() == wire::kCmMessageReq;
  const bool of_rep = mra.message_mraed() == wire::kCmMessageRep;
  Connection* c = of_req ? table_.FindByCommId(ours)
                         : FindPair(ours, mra.local_comm_id.value());
  if (c == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  if ((of_req && c->state == State::kMraReqReceived) ||
      (of_rep && c->state == State::kMraRepReceived)) {
    return RxVerdict::kCmDuplicate;
  }
  if (of_req && c->state == State::kReqSent) {
    SetState(*c, State::kMraReqReceived);
  } else if (of_rep && c->state == State::kRepSent) {
    SetState(*c, State::kMraRepReceived);
  } else {
    return RxVerdict::kCmUnexpected;
  }
  //= IBTA 12.9.8.2: the answer may take the service timeout and the way
  const uint8_t code = std::min(mra.service_timeout_code(), kLongestGrantCode);
  const uint8_t way = std::min(c->ack_timeout_code, kLongestGrantCode);
  c->repeat_after = CodeTime(code) + CodeTime(way);
  heap_.Set(c->slot, now + c->repeat_after);
  half_open_.SetAnswered(*c);
  c->retries_left = static_cast<uint8_t>(c->retries_left + c->retries_withheld);
  c->retries_withheld = 0;
  Event event = EventOf(*c, EventKind::kMraReceived);
  event.service_timeout_code = mra.service_timeout_code();
  event.private_data = mra.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

Connection* ConnectionManager::FindRejected(const wire::CmRej& rej,
                                            const net::PathQuery& from) {
  const uint32_t ours = rej.remote_comm_id.value();
  const uint32_t theirs = rej.local_comm_id.value();
  if (rej.reason.value() == wire::kRejTimeout) {
    // The sender gives up his REQ, and may not know our id for it.
    if (rej.ari_bytes() < sizeof(Be<uint64_t>)) return nullptr;
    Be<uint64_t> guid;
    std::memcpy(&guid, rej.ari, sizeof(guid));
    return table_.FindByPeer(from.remote, guid.value(), theirs);
  }
  if (rej.message_rejected() != wire::kCmMessageReq) {
    return FindPair(ours, theirs);
  }
  Connection* c = table_.FindByCommId(ours);
  const bool asked = c != nullptr && (c->state == State::kReqSent ||
                                      c->state == State::kMraReqReceived);
  return asked ? c : nullptr;
}

RxVerdict ConnectionManager::OnRej(const wire::CmRej& rej,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  Connection* c = FindRejected(rej, from);
  if (c == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  const uint16_t reason = rej.reason.value();
  if (rej.remote_comm_id.value() == c->local_comm_id) {
    half_open_.SetAnswered(*c);
  }
  switch (c->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
      //= IBTA 12.9.8.3.1: of a stale connection packets may be under way
      if (reason == wire::kRejStaleConnection) {
        EnterTimewait(*c, now);
      } else {
        EnterIdle(*c);
      }
      break;
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kEstablished:
    case State::kDreqSent:
      EnterTimewait(*c, now);
      break;
    default:
      return RxVerdict::kCmUnexpected;
  }
  if (c->orphan) return RxVerdict::kAccept;
  Event event = EventOf(*c, EventKind::kRejReceived);
  event.reject_reason = reason;
  event.message_rejected = rej.message_rejected();
  event.ari = std::span<const uint8_t>(
      rej.ari, std::min<size_t>(rej.ari_bytes(), sizeof(rej.ari)));
  event.private_data = rej.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict ConnectionManager::OnDreq(const wire::CmDreq& dreq,
                                    const net::PathQuery& from, Time now,
                                    Sink& sink) {
  const uint32_t ours = dreq.remote_comm_id.value();
  const uint32_t theirs = dreq.local_comm_id.value();
  const uint64_t transaction_id = dreq.mad.transaction_id.value();
  Connection* c = FindPair(ours, theirs);
  if (c == nullptr) {
    //= IBTA 12.9.8.3.3: a DREQ of what is over is answered, else the peer
    //= repeats it for long
    sink.SendMad(BytesOf(Begin<wire::CmDrep>(transaction_id, ours, theirs)),
                 from);
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*c, from) || !(dreq.remote_qpn() == c->local_qpn)) {
    return RxVerdict::kCmWrongPeer;
  }
  half_open_.SetAnswered(*c);
  switch (c->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
    case State::kDreqSent:
      break;
    case State::kTimewait:
      if (c->sent_attribute != wire::kCmDrepAttribute) {
        Store(*c, Begin<wire::CmDrep>(transaction_id, ours, theirs));
      }
      SendStored(*c, sink);
      return RxVerdict::kCmDuplicate;
    case State::kDreqReceived:
      return RxVerdict::kCmDuplicate;
    default:
      return RxVerdict::kCmUnexpected;
  }
  c->transaction_id = transaction_id;
  if (c->orphan) {
    SendDrep(*c, {}, now, sink);
    return RxVerdict::kAccept;
  }
  SetState(*c, State::kDreqReceived);
  Event event = EventOf(*c, EventKind::kDreqReceived);
  event.private_data = dreq.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict ConnectionManager::OnDrep(const wire::CmDrep& drep,
                                    const net::PathQuery& from, Time now,
                                    Sink& sink) {
  Connection* c =
      FindPair(drep.remote_comm_id.value(), drep.local_comm_id.value());
  if (c == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  if (c->state == State::kTimewait) return RxVerdict::kCmDuplicate;
  if (c->state != State::kDreqSent && c->state != State::kDreqReceived) {
    return RxVerdict::kCmUnexpected;
  }
  EnterTimewait(*c, now);
  if (c->orphan) return RxVerdict::kAccept;
  Event event = EventOf(*c, EventKind::kDrepReceived);
  event.private_data = drep.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict ConnectionManager::OnLap(const wire::CmLap& lap,
                                   const net::PathQuery& from, Sink& sink) {
  const uint32_t ours = lap.remote_comm_id.value();
  const uint32_t theirs = lap.local_comm_id.value();
  const Connection* c = FindPair(ours, theirs);
  const bool known = c != nullptr && c->state == State::kEstablished;
  if (c != nullptr && !IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  auto apr = Begin<wire::CmApr>(lap.mad.transaction_id.value(), ours, theirs);
  apr.status = known ? wire::kAprUnsupported : wire::kAprInvalidCommId;
  sink.SendMad(BytesOf(apr), from);
  return known ? RxVerdict::kCmRefused : RxVerdict::kCmNoConnection;
}

}  // namespace urnic::cm
