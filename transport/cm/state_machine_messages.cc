// Messages of the peer.

#include <algorithm>

#include "transport/cm/messages.h"
#include "transport/cm/state_machine.h"

namespace urnic::cm {

namespace {

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

// --- Setting up --------------------------------------------------------------

void StateMachine::Begin(Connection& c, const wire::CmReq& req, Service service,
                         const net::PathQuery& from) {
  c.state = State::kReqReceived;
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
  // The initiator depth of one side limits the responder resources of the
  // other.
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

void StateMachine::Begin(Connection& c, const wire::CmSidrReq& req,
                         const net::PathQuery& from) {
  c.state = State::kSidrReqReceived;
  c.passive = true;
  c.service_id = req.service_id.value();
  c.remote_comm_id = req.request_id.value();
  c.transaction_id = req.mad.transaction_id.value();
  c.mad_path = from;
}

//= IBTA 12.9.8.3.2: a repeated REQ is answered by the stored MRA or REP; before
//= one of them was sent, it is not answered
RxVerdict StateMachine::OnRepeatedReq(Connection& c, Step& step) const {
  if (c.passive &&
      (c.state == State::kRepSent || c.state == State::kMraReqSent)) {
    SendStored(c, step);
  }
  return RxVerdict::kCmDuplicate;
}

RxVerdict StateMachine::OnMra(Connection& c, const wire::CmMra& mra,
                              Step& step) const {
  const bool of_req = mra.message_mraed() == wire::kCmMessageReq;
  const bool of_rep = mra.message_mraed() == wire::kCmMessageRep;
  if ((of_req && c.state == State::kMraReqReceived) ||
      (of_rep && c.state == State::kMraRepReceived)) {
    return RxVerdict::kCmDuplicate;
  }
  if (of_req && c.state == State::kReqSent) {
    SetState(c, State::kMraReqReceived);
  } else if (of_rep && c.state == State::kRepSent) {
    SetState(c, State::kMraRepReceived);
  } else {
    return RxVerdict::kCmUnexpected;
  }
  //= IBTA 12.9.8.2: after an MRA, the next time-out is the MRA's service
  //= timeout plus the ACK timeout of the path
  const uint8_t code = std::min(mra.service_timeout_code(), kLongestGrantCode);
  const uint8_t way = std::min(c.ack_timeout_code, kLongestGrantCode);
  c.repeat_after = CodeTime(code) + CodeTime(way);
  c.deadline = step.now + c.repeat_after;
  step.answered = true;
  c.retries_left = static_cast<uint8_t>(c.retries_left + c.retries_withheld);
  c.retries_withheld = 0;
  Event event = EventOf(c, EventKind::kMraReceived, step);
  event.service_timeout_code = mra.service_timeout_code();
  event.private_data = mra.private_data;
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict StateMachine::OnRep(Connection& c, const wire::CmRep& rep,
                              Step& step) const {
  step.answered = true;
  SetState(c, State::kRepReceived);
  c.remote_comm_id = rep.local_comm_id.value();
  c.remote_ca_guid = rep.local_ca_guid.value();
  c.remote_qpn = RemoteQpn(c, rep);
  c.send_psn = rep.starting_psn();
  c.initiator_depth = rep.responder_resources;
  c.responder_resources = rep.initiator_depth;
  c.rnr_retry_count = rep.rnr_retry_count();
  c.ack_timeout_code =
      AckTimeoutCode(rep.target_ack_delay_code(),
                     static_cast<uint8_t>(c.ack_timeout_code - 1));
  Event event = EventOf(c, EventKind::kRepReceived, step);
  event.service = c.service;
  event.path = c.path;
  event.packet_rate = c.packet_rate;
  event.mtu_code = c.mtu_code;
  event.remote_qpn = c.remote_qpn;
  FillFrom(rep, event);
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

// The set-up is given up. The peer has already been sent a REJ.
RxVerdict StateMachine::OnStaleRep(Connection& c, Step& step) const {
  SetState(c, State::kIdle);
  Event event = EventOf(c, EventKind::kRejReceived, step);
  event.reject_reason = wire::kRejStaleConnection;
  event.message_rejected = wire::kCmMessageRep;
  step.sink.OnEvent(event);
  return RxVerdict::kCmStale;
}

//= IBTA 12.9.8.3.2: a repeated REP means that the RTU or MRA was lost: the
//= stored one is sent again
RxVerdict StateMachine::OnRepeatedRep(Connection& c, const wire::CmRep& rep,
                                      Step& step) const {
  if (c.passive || c.remote_comm_id != rep.local_comm_id.value()) {
    return RxVerdict::kCmUnexpected;
  }
  if (c.state == State::kEstablished || c.state == State::kMraRepSent) {
    SendStored(c, step);
  }
  return RxVerdict::kCmDuplicate;
}

RxVerdict StateMachine::OnRtu(Connection& c, const wire::CmRtu& rtu,
                              Step& step) const {
  if (c.state == State::kTimewait &&
      c.sent_attribute == wire::kCmRejAttribute) {
    SendStored(c, step);
    return RxVerdict::kCmDuplicate;
  }
  if (c.state == State::kEstablished && c.passive) {
    return RxVerdict::kCmDuplicate;
  }
  if (c.state != State::kRepSent && c.state != State::kMraRepReceived) {
    return RxVerdict::kCmUnexpected;
  }
  step.answered = true;
  SetState(c, State::kEstablished);
  Event event = EventOf(c, EventKind::kRtuReceived, step);
  event.private_data = rtu.private_data;
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict StateMachine::OnSidrRep(Connection& c, const wire::CmSidrRep& rep,
                                  const net::PathQuery& from,
                                  Step& step) const {
  if (c.state != State::kSidrReqSent) return RxVerdict::kCmUnexpected;
  step.answered = true;
  SetState(c, State::kIdle);
  Event event = EventOf(c, EventKind::kSidrRepReceived, step);
  event.from = &from;
  event.service_id = rep.service_id.value();
  event.sidr_status = rep.status;
  event.remote_qpn = rep.qpn();
  event.qkey = rep.qkey.value();
  event.ari = std::span<const uint8_t>(
      rep.info, std::min<size_t>(rep.info_bytes, sizeof(rep.info)));
  event.private_data = rep.private_data;
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

// --- Ending ------------------------------------------------------------------

RxVerdict StateMachine::OnRej(Connection& c, const wire::CmRej& rej,
                              Step& step) const {
  const uint16_t reason = rej.reason.value();
  if (rej.remote_comm_id.value() == c.local_comm_id) step.answered = true;
  switch (c.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
      //= IBTA 12.9.8.3.1: a REJ (stale connection) leads to TIMEWAIT, because
      //= packets of the stale connection may be under way
      if (reason == wire::kRejStaleConnection) {
        EnterTimewait(c, step);
      } else {
        SetState(c, State::kIdle);
      }
      break;
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kEstablished:
    case State::kDreqSent:
      EnterTimewait(c, step);
      break;
    default:
      return RxVerdict::kCmUnexpected;
  }
  if (c.orphan) return RxVerdict::kAccept;
  Event event = EventOf(c, EventKind::kRejReceived, step);
  event.reject_reason = reason;
  event.message_rejected = rej.message_rejected();
  event.ari = std::span<const uint8_t>(
      rej.ari, std::min<size_t>(rej.ari_bytes(), sizeof(rej.ari)));
  event.private_data = rej.private_data;
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict StateMachine::OnDreq(Connection& c, const wire::CmDreq& dreq,
                               Step& step) const {
  const uint64_t transaction_id = dreq.mad.transaction_id.value();
  step.answered = true;
  switch (c.state) {
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
    case State::kDreqSent:
      break;
    case State::kTimewait:
      if (c.sent_attribute != wire::kCmDrepAttribute) {
        Store(c, cm::Begin<wire::CmDrep>(transaction_id, c.local_comm_id,
                                         c.remote_comm_id));
      }
      SendStored(c, step);
      return RxVerdict::kCmDuplicate;
    case State::kDreqReceived:
      return RxVerdict::kCmDuplicate;
    default:
      return RxVerdict::kCmUnexpected;
  }
  c.transaction_id = transaction_id;
  if (c.orphan) {
    AnswerDreq(c, {}, step);
    return RxVerdict::kAccept;
  }
  SetState(c, State::kDreqReceived);
  Event event = EventOf(c, EventKind::kDreqReceived, step);
  event.private_data = dreq.private_data;
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

RxVerdict StateMachine::OnDrep(Connection& c, const wire::CmDrep& drep,
                               Step& step) const {
  if (c.state == State::kTimewait) return RxVerdict::kCmDuplicate;
  if (c.state != State::kDreqSent && c.state != State::kDreqReceived) {
    return RxVerdict::kCmUnexpected;
  }
  EnterTimewait(c, step);
  if (c.orphan) return RxVerdict::kAccept;
  Event event = EventOf(c, EventKind::kDrepReceived, step);
  event.private_data = drep.private_data;
  step.sink.OnEvent(event);
  return RxVerdict::kAccept;
}

}  // namespace urnic::cm
