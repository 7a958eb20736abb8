// Received messages that set a connection up: REQ, REP, RTU; and SIDR.

#include <algorithm>

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

void FillFrom(const wire::CmReq& req, Service service,
              const net::PathQuery& from, Connection& c) {
  c.passive = true;
  c.service = service;
  c.service_id = req.service_id.value();
  c.remote_comm_id = req.local_comm_id.value();
  c.remote_ca_guid = req.local_ca_guid.value();
  c.transaction_id = req.mad.transaction_id.value();
  c.mad_path = from;
  c.path = PathOf(req);
  c.packet_rate = req.primary.packet_rate();
  c.mtu_code = req.mtu_code();
  c.remote_qpn = req.local_qpn();
  c.send_psn = req.starting_psn();
  // What is one side's to initiate is the other's to respond to.
  c.responder_resources = req.initiator_depth();
  c.initiator_depth = req.responder_resources();
  c.ack_timeout_code = req.primary.ack_timeout_code();
  c.retry_count = req.retry_count();
  c.rnr_retry_count = req.rnr_retry_count();
  c.alternate_path = req.has_alternate_path();
  c.max_cm_retries = req.max_cm_retries();
  c.timeout =
      CodeTime(std::min(req.local_response_timeout_code(), kLongestGrantCode));
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

Qpn RemoteQpn(const wire::CmRep& rep, Service service) {
  return service == Service::kXrc ? Qpn{rep.local_eecn()} : rep.local_qpn();
}

void FillFrom(const wire::CmRep& rep, Event& event) {
  event.remote_ca_guid = rep.local_ca_guid.value();
  event.starting_psn = rep.starting_psn();
  event.responder_resources = rep.responder_resources;
  event.initiator_depth = rep.initiator_depth;
  event.rnr_retry_count = rep.rnr_retry_count();
  event.target_ack_delay_code = rep.target_ack_delay_code();
  event.srq = rep.srq();
  event.flow_control = rep.flow_control();
  event.ece = {rep.ece_vendor_id(), rep.mad.attribute_modifier.value()};
  event.private_data = rep.private_data;
}

}  // namespace

RxVerdict ConnectionManager::OnReq(const wire::CmReq& req,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint64_t guid = req.local_ca_guid.value();
  const uint32_t comm_id = req.local_comm_id.value();
  if (comm_id == 0) return RxVerdict::kBadMad;
  if (Connection* c = table_.FindByPeer(from.remote, guid, comm_id);
      c != nullptr) {
    return OnRepeatedReq(*c, req, from, sink);
  }
  Service service = Service::kRc;
  if (!ServiceOf(req, service)) {
    RejectReq(req, from, wire::kRejInvalidTransport, sink);
    return RxVerdict::kCmBadTransport;
  }
  if (Connection* old =
          table_.FindByRemoteQp(from.remote, guid, req.local_qpn());
      old != nullptr) {
    RejectReq(req, from, wire::kRejStaleConnection, sink);
    EndStale(*old, now, sink);
    return RxVerdict::kCmStale;
  }
  const Connection* listener = table_.FindListener(req.service_id.value());
  if (listener == nullptr) {
    RejectReq(req, from, wire::kRejInvalidServiceId, sink);
    return RxVerdict::kCmNoListener;
  }
  if (AwaitsRoom()) return RxVerdict::kCmNoRoom;
  const bool displaced = MakeRoom(from, *listener, sink);
  Connection* c = Allocate(State::kReqReceived);
  if (c == nullptr) {
    // Where something else goes, the peer may ask again.
    if (!displaced && !Displace(half_open_.oldest(), sink)) {
      RejectReq(req, from, wire::kRejNoResources, sink);
    }
    return RxVerdict::kCmNoRoom;
  }
  FillFrom(req, service, from, *c);
  half_open_.Attach(*c);
  half_open_.Add(*c, listener->slot);
  table_.IndexPeer(*c);
  table_.IndexRemoteQp(*c);
  Event event = EventOf(*c, EventKind::kReqReceived);
  event.user = listener->user;
  event.listener = table_.handle(*listener);
  event.service = service;
  FillFrom(req, from, event);
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

//= IBTA 12.9.8.3.2: a REQ that comes again is answered as it was, by what the
//= peer has then missed; while nothing was decided it is not answered
RxVerdict ConnectionManager::OnRepeatedReq(Connection& c,
                                           const wire::CmReq& req,
                                           const net::PathQuery& from,
                                           Sink& sink) {
  if (c.passive &&
      (c.state == State::kRepSent || c.state == State::kMraReqSent)) {
    SendStored(c, sink);
  } else if (c.state == State::kTimewait) {
    RejectReq(req, from, wire::kRejStaleConnection, sink);
  }
  return RxVerdict::kCmDuplicate;
}

// Never a second one for the same request: a source at its limit must not cost
// others theirs while the table is full of what it had displaced before.
bool ConnectionManager::MakeRoom(const net::PathQuery& from,
                                 const Connection& listener, Sink& sink) {
  return Displace(half_open_.InTheWayOf(from.remote, listener.slot), sink);
}

bool ConnectionManager::Displace(uint32_t place, Sink& sink) {
  if (place == HalfOpen::kNone) return false;
  Connection& c = table_.slot(place);
  EnterIdle(c);
  c.displaced = true;
  ++displaced_;
  Emit(c, EventKind::kDisplaced, sink);
  return true;
}

//= IBTA 12.9.8.3.1: a QP is in one connection. The peer has forgotten the old
//= one: it is ended.
void ConnectionManager::EndStale(Connection& old, Time now, Sink& sink) {
  if (old.state == State::kEstablished) SendDreq(old, {}, now, sink);
}

// What was being set up is given up: the peer, too, has been told so.
RxVerdict ConnectionManager::OnStaleRep(Connection& c, Connection& old,
                                        const wire::CmRep& rep,
                                        const net::PathQuery& from, Time now,
                                        Sink& sink) {
  RejectRep(rep, from, wire::kRejStaleConnection, sink);
  EnterIdle(c);
  Event event = EventOf(c, EventKind::kRejReceived);
  event.reject_reason = wire::kRejStaleConnection;
  event.message_rejected = wire::kCmMessageRep;
  sink.OnEvent(event);
  EndStale(old, now, sink);
  return RxVerdict::kCmStale;
}

RxVerdict ConnectionManager::OnRep(const wire::CmRep& rep,
                                   const net::PathQuery& from, Time now,
                                   Sink& sink) {
  const uint32_t theirs = rep.local_comm_id.value();
  if (theirs == 0) return RxVerdict::kBadMad;
  Connection* c = table_.FindByCommId(rep.remote_comm_id.value());
  if (c == nullptr || c->state == State::kIdle) {
    // Ours is gone: the peer need not repeat its REP for a minute.
    RejectRep(rep, from, wire::kRejInvalidCommId, sink);
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  if (c->state != State::kReqSent && c->state != State::kMraReqReceived) {
    return OnRepeatedRep(*c, rep, sink);
  }
  const uint64_t guid = rep.local_ca_guid.value();
  const Qpn remote_qpn = RemoteQpn(rep, c->service);
  if (table_.FindByPeer(from.remote, guid, theirs) != nullptr) {
    return RxVerdict::kCmUnexpected;
  }
  if (Connection* old = table_.FindByRemoteQp(from.remote, guid, remote_qpn);
      old != nullptr) {
    return OnStaleRep(*c, *old, rep, from, now, sink);
  }
  half_open_.SetAnswered(*c);
  SetState(*c, State::kRepReceived);
  c->remote_comm_id = theirs;
  c->remote_ca_guid = guid;
  c->remote_qpn = remote_qpn;
  c->send_psn = rep.starting_psn();
  c->initiator_depth = rep.responder_resources;
  c->responder_resources = rep.initiator_depth;
  c->rnr_retry_count = rep.rnr_retry_count();
  c->ack_timeout_code =
      AckTimeoutCode(rep.target_ack_delay_code(),
                     static_cast<uint8_t>(c->ack_timeout_code - 1));
  table_.IndexPeer(*c);
  table_.IndexRemoteQp(*c);
  Event event = EventOf(*c, EventKind::kRepReceived);
  event.service = c->service;
  event.path = c->path;
  event.packet_rate = c->packet_rate;
  event.mtu_code = c->mtu_code;
  event.remote_qpn = remote_qpn;
  FillFrom(rep, event);
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

//= IBTA 12.9.8.3.2: the RTU was lost, or the MRA
RxVerdict ConnectionManager::OnRepeatedRep(Connection& c,
                                           const wire::CmRep& rep, Sink& sink) {
  if (c.passive || c.remote_comm_id != rep.local_comm_id.value()) {
    return RxVerdict::kCmUnexpected;
  }
  if (c.state == State::kEstablished || c.state == State::kMraRepSent) {
    SendStored(c, sink);
  }
  return RxVerdict::kCmDuplicate;
}

RxVerdict ConnectionManager::OnRtu(const wire::CmRtu& rtu,
                                   const net::PathQuery& from, Sink& sink) {
  const uint32_t ours = rtu.remote_comm_id.value();
  const uint32_t theirs = rtu.local_comm_id.value();
  Connection* c = FindPair(ours, theirs);
  if (c == nullptr) {
    // The peer believes in a connection that is none: it has missed a REJ.
    sink.SendMad(BytesOf(MakeRej(rtu.mad, theirs, ours, wire::kCmMessageOther,
                                 wire::kRejInvalidCommId)),
                 from);
    return RxVerdict::kCmNoConnection;
  }
  if (!IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  if (c->state == State::kTimewait &&
      c->sent_attribute == wire::kCmRejAttribute) {
    SendStored(*c, sink);
    return RxVerdict::kCmDuplicate;
  }
  if (c->state == State::kEstablished && c->passive) {
    return RxVerdict::kCmDuplicate;
  }
  if (c->state != State::kRepSent && c->state != State::kMraRepReceived) {
    return RxVerdict::kCmUnexpected;
  }
  half_open_.SetAnswered(*c);
  SetState(*c, State::kEstablished);
  Event event = EventOf(*c, EventKind::kRtuReceived);
  event.private_data = rtu.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict ConnectionManager::OnSidrReq(const wire::CmSidrReq& req,
                                       const net::PathQuery& from, Sink& sink) {
  const uint32_t request_id = req.request_id.value();
  const uint64_t service_id = req.service_id.value();
  const uint64_t transaction_id = req.mad.transaction_id.value();
  if (table_.FindSidr(from.remote, request_id) != nullptr) {
    return RxVerdict::kCmDuplicate;
  }
  const Connection* listener = table_.FindListener(service_id);
  if (listener == nullptr) {
    SidrReplyParams params;
    params.status = wire::kSidrUnsupported;
    sink.SendMad(
        BytesOf(MakeSidrRep(transaction_id, request_id, service_id, params)),
        from);
    return RxVerdict::kCmNoListener;
  }
  if (AwaitsRoom()) return RxVerdict::kCmNoRoom;
  const bool displaced = MakeRoom(from, *listener, sink);
  Connection* c = Allocate(State::kSidrReqReceived);
  if (c == nullptr) {
    if (!displaced) Displace(half_open_.oldest(), sink);
    return RxVerdict::kCmNoRoom;
  }
  c->passive = true;
  c->service_id = service_id;
  c->remote_comm_id = request_id;
  c->transaction_id = transaction_id;
  c->mad_path = from;
  half_open_.Attach(*c);
  half_open_.Add(*c, listener->slot);
  table_.IndexPeer(*c);
  Event event = EventOf(*c, EventKind::kSidrReqReceived);
  event.user = listener->user;
  event.listener = table_.handle(*listener);
  event.from = &from;
  event.service_id = service_id;
  event.pkey = req.pkey.value();
  event.private_data = req.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict ConnectionManager::OnSidrRep(const wire::CmSidrRep& rep,
                                       const net::PathQuery& from, Sink& sink) {
  Connection* c = table_.FindByCommId(rep.request_id.value());
  if (c == nullptr) return RxVerdict::kCmNoConnection;
  if (!IsFromPeer(*c, from)) return RxVerdict::kCmWrongPeer;
  if (c->state != State::kSidrReqSent) return RxVerdict::kCmUnexpected;
  half_open_.SetAnswered(*c);
  EnterIdle(*c);
  Event event = EventOf(*c, EventKind::kSidrRepReceived);
  event.from = &from;
  event.service_id = rep.service_id.value();
  event.sidr_status = rep.status;
  event.remote_qpn = rep.qpn();
  event.qkey = rep.qkey.value();
  event.ari = std::span<const uint8_t>(
      rep.info, std::min<size_t>(rep.info_bytes, sizeof(rep.info)));
  event.private_data = rep.private_data;
  sink.OnEvent(event);
  return RxVerdict::kAccept;
}

}  // namespace urnic::cm
