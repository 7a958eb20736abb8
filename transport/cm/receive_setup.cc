// Received messages that set up a connection (REQ, REP, RTU), and SIDR: whom
// they are for, whether there is room, and whether they conflict with an older
// connection.

#include "transport/cm/connection_manager.h"
#include "transport/cm/messages.h"

namespace urnic::cm {
namespace {

bool ServiceOf(const wire::CmReq& req, Service& out) {
  switch (req.transport_service()) {
    case wire::kTransportRc:
      out = Service::kRc;
      return true;
    case wire::kTransportUc:
      out = Service::kUc;
      return true;
    case wire::kTransportExtended:
      out = Service::kXrc;
      return req.extended_transport() == wire::kExtendedTransportXrc;
    default:
      return false;
  }
}

void RejectReq(const wire::CmReq& req, const net::PathQuery& from,
               uint16_t reason, Sink& sink) {
  sink.SendMad(BytesOf(MakeRej(req.mad, req.local_comm_id.value(), 0,
                               wire::kCmMessageReq, reason)),
               from);
}

void RejectRep(const wire::CmRep& rep, const net::PathQuery& from,
               uint16_t reason, Sink& sink) {
  sink.SendMad(
      BytesOf(MakeRej(rep.mad, rep.local_comm_id.value(),
                      rep.remote_comm_id.value(), wire::kCmMessageRep, reason)),
      from);
}

void FillFrom(const wire::CmReq& req, const net::PathQuery& from,
              Event& event) {
  event.from = &from;
  event.service_id = req.service_id.value();
  event.path = PathOf(req);
  event.packet_rate = req.primary.packet_rate();
  event.mtu_code = req.mtu_code();
  event.remote_ca_guid = req.local_ca_guid.value();
  event.remote_qpn = req.local_qpn();
  event.starting_psn = req.starting_psn();
  event.responder_resources = req.responder_resources();
  event.initiator_depth = req.initiator_depth();
  event.retry_count = req.retry_count();
  event.rnr_retry_count = req.rnr_retry_count();
  event.ack_timeout_code = req.primary.ack_timeout_code();
  event.remote_response_timeout_code = req.remote_response_timeout_code();
  event.local_response_timeout_code = req.local_response_timeout_code();
  event.max_cm_retries = req.max_cm_retries();
  event.srq = req.srq();
  event.flow_control = req.flow_control();
  event.ece = {req.ece_vendor_id(), req.mad.attribute_modifier.value()};
  event.private_data = req.private_data;
}

}  // namespace

RxVerdict ConnectionManager::OnReq(const wire::CmReq& req,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint64_t guid = req.local_ca_guid.value();
  const uint32_t comm_id = req.local_comm_id.value();
  if (comm_id == 0) return RxVerdict::kBadMad;
  if (Place* p = routing_.FindTheirs(from, guid, comm_id); p != nullptr) {
    return OnRepeatedReq(*p, req, from, now, sink);
  }
  Service service = Service::kRc;
  if (!ServiceOf(req, service)) {
    RejectReq(req, from, wire::kRejInvalidTransport, sink);
    return RxVerdict::kCmBadTransport;
  }
  if (Place* old = routing_.FindStale(from, guid, req.local_qpn());
      old != nullptr) {
    RejectReq(req, from, wire::kRejStaleConnection, sink);
    EndStale(*old, now, sink);
    return RxVerdict::kCmStale;
  }
  const Place* listener = routing_.FindListener(req.service_id.value());
  if (listener == nullptr) {
    if (!held_.Hold(req, from, now)) {
      RejectReq(req, from, wire::kRejInvalidServiceId, sink);
    }
    return RxVerdict::kCmNoListener;
  }
  bool displaced = false;
  Place* p = MakeRoom(from, *listener, now, sink, &displaced);
  if (p == nullptr) {
    // If a place becomes free soon, the peer may repeat its request.
    if (!displaced) RejectReq(req, from, wire::kRejNoResources, sink);
    return RxVerdict::kCmNoRoom;
  }
  StateMachine::Begin(*p, req, service, from);
  Event event = Announce(*p, *listener, EventKind::kReqReceived);
  event.service = service;
  FillFrom(req, from, event);
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

// Those that have a listener now, and those that have waited too long.
void ConnectionManager::RetryHeld(Time due, Time now, Sink& sink) {
  while (const auto held = held_.TakeDue(due)) {
    if (routing_.FindListener(held->req.service_id.value()) != nullptr) {
      (void)OnReq(held->req, held->from, now, sink);
    } else {
      RejectReq(held->req, held->from, wire::kRejInvalidServiceId, sink);
    }
  }
}

RxVerdict ConnectionManager::OnRepeatedReq(Place& p, const wire::CmReq& req,
                                           const net::PathQuery& from, Time now,
                                           Sink& sink) {
  if (p.state == State::kTimewait) {
    RejectReq(req, from, wire::kRejStaleConnection, sink);
    return RxVerdict::kCmDuplicate;
  }
  return Take(p, now, sink,
              [&](Step& step) { return machine_.OnRepeatedReq(p, step); });
}

// A request displaces at most one connection. Otherwise a source at its limit
// could displace others' connections while the table is full of those that it
// had displaced before.
Place* ConnectionManager::MakeRoom(const net::PathQuery& from,
                                   const Place& listener, Time now, Sink& sink,
                                   bool* displaced) {
  *displaced = true;
  if (routing_.AwaitsRoom()) return nullptr;
  *displaced = Displace(routing_.InTheWayOf(from, listener), now, sink);
  Place* p = Allocate();
  if (p == nullptr && !*displaced) {
    *displaced = Displace(routing_.OldestHalfOpen(), now, sink);
  }
  return p;
}

Event ConnectionManager::Announce(Place& p, const Place& listener,
                                  EventKind kind) {
  routing_.Attach(p);
  routing_.AddHalfOpen(p, &listener);
  Settle(p, /*answered=*/false);
  Event event;
  event.kind = kind;
  event.handle = routing_.handle(p);
  event.user = listener.user;
  event.listener = routing_.handle(listener);
  return event;
}

bool ConnectionManager::Displace(Place* p, Time now, Sink& sink) {
  if (p == nullptr) return false;
  Take(*p, now, sink, [&](Step& step) {
    machine_.Displace(*p, step);
    return 0;
  });
  routing_.SetDisplaced(*p);
  return true;
}

//= IBTA 12.9.8.3.1: a queue pair of the peer is in one connection; a REQ or REP
//= that names it for a second connection ends the first
// The peer has lost the old connection: it is ended.
void ConnectionManager::EndStale(Place& old, Time now, Sink& sink) {
  Take(old, now, sink, [&](Step& step) {
    machine_.EndStale(old, step);
    return 0;
  });
}

RxVerdict ConnectionManager::OnRep(const wire::CmRep& rep,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint32_t theirs = rep.local_comm_id.value();
  if (theirs == 0) return RxVerdict::kBadMad;
  Place* p = routing_.FindOurs(rep.remote_comm_id.value());
  if (p == nullptr || p->state == State::kIdle) {
    // Ours is gone. Without the REJ, the peer would repeat its REP for a
    // minute.
    RejectRep(rep, from, wire::kRejInvalidCommId, sink);
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*p, from)) return RxVerdict::kCmWrongPeer;
  if (!StateMachine::AwaitsRep(*p)) {
    return Take(*p, now, sink, [&](Step& step) {
      return machine_.OnRepeatedRep(*p, rep, step);
    });
  }
  const uint64_t guid = rep.local_ca_guid.value();
  if (routing_.FindTheirs(from, guid, theirs) != nullptr) {
    return RxVerdict::kCmUnexpected;
  }
  if (Place* old =
          routing_.FindStale(from, guid, StateMachine::RemoteQpn(*p, rep));
      old != nullptr) {
    RejectRep(rep, from, wire::kRejStaleConnection, sink);
    const RxVerdict verdict = Take(*p, now, sink, [&](Step& step) {
      return machine_.OnStaleRep(*p, step);
    });
    EndStale(*old, now, sink);
    return verdict;
  }
  return Take(*p, now, sink,
              [&](Step& step) { return machine_.OnRep(*p, rep, step); });
}

RxVerdict ConnectionManager::OnRtu(const wire::CmRtu& rtu,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint32_t ours = rtu.remote_comm_id.value();
  const uint32_t theirs = rtu.local_comm_id.value();
  Place* p = routing_.FindPair(ours, theirs);
  if (p == nullptr) {
    // The peer has missed a REJ, and considers the connection established.
    sink.SendMad(BytesOf(MakeRej(rtu.mad, theirs, ours, wire::kCmMessageOther,
                                 wire::kRejInvalidCommId)),
                 from);
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*p, from)) return RxVerdict::kCmWrongPeer;
  return Take(*p, now, sink,
              [&](Step& step) { return machine_.OnRtu(*p, rtu, step); });
}

RxVerdict ConnectionManager::OnSidrReq(const wire::CmSidrReq& req,
                                       const net::PathQuery& from, Time now,
                                       Sink& sink) {
  const uint32_t request_id = req.request_id.value();
  const uint64_t service_id = req.service_id.value();
  if (routing_.FindSidr(from, request_id) != nullptr) {
    return RxVerdict::kCmDuplicate;
  }
  const Place* listener = routing_.FindListener(service_id);
  if (listener == nullptr) {
    SidrReplyParams params;
    params.status = wire::kSidrUnsupported;
    sink.SendMad(BytesOf(MakeSidrRep(req.mad.transaction_id.value(), request_id,
                                     service_id, params)),
                 from);
    return RxVerdict::kCmNoListener;
  }
  bool displaced = false;
  Place* p = MakeRoom(from, *listener, now, sink, &displaced);
  if (p == nullptr) return RxVerdict::kCmNoRoom;
  StateMachine::Begin(*p, req, from);
  Event event = Announce(*p, *listener, EventKind::kSidrReqReceived);
  event.from = &from;
  event.service_id = service_id;
  event.pkey = req.pkey.value();
  event.private_data = req.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict ConnectionManager::OnSidrRep(const wire::CmSidrRep& rep,
                                       const net::PathQuery& from, Time now,
                                       Sink& sink) {
  Place* p = routing_.FindOurs(rep.request_id.value());
  if (p == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*p, from)) return RxVerdict::kCmWrongPeer;
  return Take(*p, now, sink, [&](Step& step) {
    return machine_.OnSidrRep(*p, rep, from, step);
  });
}

}  // namespace urnic::cm
