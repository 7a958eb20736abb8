// Dispatches received messages, and handles those that must name a connection.

#include "transport/cm/connection_manager.h"
#include "transport/cm/messages.h"

namespace urnic::cm {

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
      return OnRtu(As<wire::CmRtu>(mad), from, now, sink);
    case wire::kCmDreqAttribute:
      return OnDreq(As<wire::CmDreq>(mad), from, now, sink);
    case wire::kCmDrepAttribute:
      return OnDrep(As<wire::CmDrep>(mad), from, now, sink);
    case wire::kCmSidrReqAttribute:
      return OnSidrReq(As<wire::CmSidrReq>(mad), from, now, sink);
    case wire::kCmSidrRepAttribute:
      return OnSidrRep(As<wire::CmSidrRep>(mad), from, now, sink);
    case wire::kCmLapAttribute:
      return OnLap(As<wire::CmLap>(mad), from, sink);
    case wire::kCmAprAttribute:  // we never send a LAP
      return RxVerdict::kCmUnexpected;
    default:
      return RxVerdict::kUnknownMadAttribute;
  }
}

RxVerdict ConnectionManager::OnMra(const wire::CmMra& mra,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint32_t ours = mra.remote_comm_id.value();
  const bool of_req = mra.message_mraed() == wire::kCmMessageReq;
  Place* p = of_req ? routing_.FindOurs(ours)
                    : routing_.FindPair(ours, mra.local_comm_id.value());
  if (p == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*p, from)) return RxVerdict::kCmWrongPeer;
  return Take(*p, now, sink,
              [&](Step& step) { return machine_.OnMra(*p, mra, step); });
}

RxVerdict ConnectionManager::OnRej(const wire::CmRej& rej,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  Place* p = routing_.FindRejected(rej, from);
  if (p == nullptr) {
    held_.Drop(from, rej.local_comm_id.value());
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*p, from)) return RxVerdict::kCmWrongPeer;
  return Take(*p, now, sink,
              [&](Step& step) { return machine_.OnRej(*p, rej, step); });
}

RxVerdict ConnectionManager::OnDreq(const wire::CmDreq& dreq,
                                    const net::PathQuery& from, Time now,
                                    Sink& sink) {
  const uint32_t ours = dreq.remote_comm_id.value();
  const uint32_t theirs = dreq.local_comm_id.value();
  Place* p = routing_.FindPair(ours, theirs);
  if (p == nullptr) {
    //= IBTA 12.9.8.3.3: a DREQ for a connection that no longer exists is
    //= answered; otherwise the peer would go on repeating it
    sink.SendMad(BytesOf(Begin<wire::CmDrep>(dreq.mad.transaction_id.value(),
                                             ours, theirs)),
                 from);
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*p, from) || !(dreq.remote_qpn() == p->local_qpn)) {
    return RxVerdict::kCmWrongPeer;
  }
  return Take(*p, now, sink,
              [&](Step& step) { return machine_.OnDreq(*p, dreq, step); });
}

RxVerdict ConnectionManager::OnDrep(const wire::CmDrep& drep,
                                    const net::PathQuery& from, Time now,
                                    Sink& sink) {
  Place* p = routing_.FindPair(drep.remote_comm_id.value(),
                               drep.local_comm_id.value());
  if (p == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*p, from)) return RxVerdict::kCmWrongPeer;
  return Take(*p, now, sink,
              [&](Step& step) { return machine_.OnDrep(*p, drep, step); });
}

RxVerdict ConnectionManager::OnLap(const wire::CmLap& lap,
                                   const net::PathQuery& from, Sink& sink) {
  const uint32_t ours = lap.remote_comm_id.value();
  const uint32_t theirs = lap.local_comm_id.value();
  const Place* c = routing_.FindPair(ours, theirs);
  const bool known = c != nullptr && c->state == State::kEstablished;
  if (c != nullptr && !IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  auto apr = Begin<wire::CmApr>(lap.mad.transaction_id.value(), ours, theirs);
  apr.status = known ? wire::kAprUnsupported : wire::kAprInvalidCommId;
  sink.SendMad(BytesOf(apr), from);
  return known ? RxVerdict::kCmRefused : RxVerdict::kCmNoConnection;
}

}  // namespace urnic::cm
