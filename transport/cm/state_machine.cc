// Calls, repetitions, and the end of a connection.

#include "transport/cm/state_machine.h"

#include <algorithm>
#include <cerrno>

#include "transport/base/check.h"
#include "transport/cm/messages.h"

namespace urnic::cm {

using wire::Be;

namespace {

bool IsReplied(State state) {
  return state == State::kRepSent || state == State::kMraRepReceived;
}

bool IsRepeated(State state) {
  return state == State::kReqSent || state == State::kMraReqReceived ||
         IsReplied(state) || state == State::kDreqSent ||
         state == State::kSidrReqSent;
}

}  // namespace

// --- Helpers -----------------------------------------------------------------

void StateMachine::SetState(Connection& c, State state) {
  c.deadline = Time::Infinite();
  c.state = state;
}

//= IBTA 12.9.8.4: TIMEWAIT lasts as long as packets of the connection may be
//= under way
// The local ACK timeout is longer than that.
void StateMachine::EnterTimewait(Connection& c, const Step& step) {
  SetState(c, State::kTimewait);
  const uint8_t longest =
      step.answered ? kLongestGrantCode : kUnansweredTimewaitCode;
  c.deadline = step.now + CodeTime(std::min(c.ack_timeout_code, longest));
}

void StateMachine::SendStored(const Connection& c, const Step& step) {
  step.sink.SendMad(std::span<const uint8_t, wire::kMadBytes>(c.sent),
                    c.mad_path);
}

void StateMachine::SendRepeatedly(Connection& c, const Step& step) {
  c.repeat_after = c.timeout;
  c.retries_left = c.max_cm_retries;
  c.retries_withheld = 0;
  c.deadline = step.now + c.timeout;
  SendStored(c, step);
}

void StateMachine::SendReject(Connection& c, const RejectParams& params,
                              const Step& step) {
  Store(c, MakeRej(c, params));
  SendStored(c, step);
}

//= IBTA 12.6.7.2: a REJ with reason 4 (timeout) carries the sender's CA GUID,
//= because the peer may have no other way to find the connection
void StateMachine::SendRejectTimeout(Connection& c, const Step& step) const {
  const Be<uint64_t> guid(config_.ca_guid);
  RejectParams params;
  params.reason = wire::kRejTimeout;
  params.ari = {reinterpret_cast<const uint8_t*>(&guid), sizeof(guid)};
  SendReject(c, params, step);
}

void StateMachine::SendDreq(Connection& c,
                            std::span<const uint8_t> private_data,
                            const Step& step) const {
  SetState(c, State::kDreqSent);
  auto dreq = cm::Begin<wire::CmDreq>(NewTransactionId(c), c.local_comm_id,
                                      c.remote_comm_id);
  dreq.set_remote_qpn(c.remote_qpn);
  PutBytes(dreq.private_data, private_data);
  Store(c, dreq);
  SendRepeatedly(c, step);
}

void StateMachine::AnswerDreq(Connection& c,
                              std::span<const uint8_t> private_data,
                              const Step& step) {
  auto drep = cm::Begin<wire::CmDrep>(c.transaction_id, c.local_comm_id,
                                      c.remote_comm_id);
  PutBytes(drep.private_data, private_data);
  Store(c, drep);
  SendStored(c, step);
  EnterTimewait(c, step);
}

// Linux on x86 writes the communication id in its own byte order into the
// lower half; so do we, which makes messages comparable.
uint64_t StateMachine::NewTransactionId(const Connection& c) const {
  return uint64_t{config_.transaction_prefix} << 32 |
         __builtin_bswap32(c.local_comm_id);
}

Event StateMachine::EventOf(const Connection& c, EventKind kind,
                            const Step& step) {
  Event event;
  event.kind = kind;
  event.handle = step.handle;
  event.user = c.user;
  return event;
}

void StateMachine::Emit(const Connection& c, EventKind kind, const Step& step) {
  if (!c.orphan) step.sink.OnEvent(EventOf(c, kind, step));
}

// --- Starting ----------------------------------------------------------------

void StateMachine::Connect(Connection& c, const ConnectParams& params,
                           uint64_t user, Step& step) const {
  SetState(c, State::kReqSent);
  c.user = user;
  c.service = params.service;
  c.service_id = params.service_id;
  c.mad_path = params.mad_path;
  c.path = params.path;
  c.packet_rate = params.packet_rate;
  c.mtu_code = params.mtu_code;
  c.transaction_id = NewTransactionId(c);
  c.local_qpn = params.qpn;
  c.has_local_qpn = true;
  c.receive_psn = params.starting_psn;
  c.responder_resources = params.responder_resources;
  c.initiator_depth = params.initiator_depth;
  c.retry_count = params.retry_count;
  c.rnr_retry_count = params.rnr_retry_count;
  c.ack_timeout_code =
      static_cast<uint8_t>(std::min(31, params.packet_life_time_code + 1));
  c.max_cm_retries = params.max_cm_retries;
  //= IBTA 12.9.8.1: a message is repeated after the peer's response time plus
  //= twice the packet lifetime
  c.timeout = CodeTime(params.remote_response_timeout_code) +
              CodeTime(params.packet_life_time_code) * 2;
  Store(c, MakeReq(config_, c, params));
  SendRepeatedly(c, step);
}

void StateMachine::RequestSidr(Connection& c, const SidrRequestParams& params,
                               uint64_t user, Step& step) const {
  SetState(c, State::kSidrReqSent);
  c.user = user;
  c.service_id = params.service_id;
  c.mad_path = params.mad_path;
  c.transaction_id = NewTransactionId(c);
  c.max_cm_retries = params.max_cm_retries;
  c.timeout = CodeTime(params.response_timeout_code) +
              CodeTime(params.packet_life_time_code) * 2;
  auto req = cm::Begin<wire::CmSidrReq>(c.transaction_id);
  req.request_id = Be<uint32_t>(c.local_comm_id);
  req.pkey = Be<uint16_t>(params.pkey);
  req.service_id = Be<uint64_t>(params.service_id);
  PutBytes(req.private_data, params.private_data);
  Store(c, req);
  SendRepeatedly(c, step);
}

// --- Calls -------------------------------------------------------------------

int StateMachine::Accept(Connection& c, const AcceptParams& params,
                         Step& step) const {
  if (c.state != State::kReqReceived && c.state != State::kMraReqSent) {
    return EINVAL;
  }
  if (const int error = Check(params); error != 0) return error;
  c.local_qpn = params.qpn;
  c.has_local_qpn = true;
  c.receive_psn = params.starting_psn;
  c.responder_resources = params.responder_resources;
  c.initiator_depth = params.initiator_depth;
  SetState(c, State::kRepSent);
  Store(c, MakeRep(config_, c, params));
  SendRepeatedly(c, step);
  if (c.retries_left > kUnansweredRepRepeats && !step.answered) {
    c.retries_withheld =
        static_cast<uint8_t>(c.retries_left - kUnansweredRepRepeats);
    c.retries_left = kUnansweredRepRepeats;
  }
  return 0;
}

int StateMachine::Reject(Connection& c, const RejectParams& params,
                         Step& step) const {
  const bool early = AwaitsRep(c) || c.state == State::kReqReceived ||
                     c.state == State::kMraReqSent ||
                     c.state == State::kRepReceived ||
                     c.state == State::kMraRepSent;
  const bool replied = IsReplied(c.state);
  if (!replied && !early) return EINVAL;
  if (const int error = Check(params); error != 0) return error;
  SendReject(c, params, step);
  if (replied) {
    EnterTimewait(c, step);
  } else {
    SetState(c, State::kIdle);
  }
  return 0;
}

int StateMachine::EstablishByTraffic(Connection& c, Step& step) const {
  if (c.state == State::kEstablished) return EISCONN;
  if (!IsReplied(c.state)) return EINVAL;
  step.answered = true;
  SetState(c, State::kEstablished);
  Emit(c, EventKind::kUserEstablished, step);
  return 0;
}

int StateMachine::SendRtu(Connection& c, std::span<const uint8_t> private_data,
                          Step& step) const {
  if (c.state != State::kRepReceived && c.state != State::kMraRepSent) {
    return EINVAL;
  }
  if (private_data.size() > wire::kRtuPrivateBytes) return EINVAL;
  SetState(c, State::kEstablished);
  auto rtu = cm::Begin<wire::CmRtu>(c.transaction_id, c.local_comm_id,
                                    c.remote_comm_id);
  PutBytes(rtu.private_data, private_data);
  Store(c, rtu);
  SendStored(c, step);
  return 0;
}

int StateMachine::PrepareMra(Connection& c,
                             uint8_t service_timeout_code) const {
  const bool of_req = c.state == State::kReqReceived;
  if (!of_req && c.state != State::kRepReceived) return EINVAL;
  if (service_timeout_code > 31) return EINVAL;
  SetState(c, of_req ? State::kMraReqSent : State::kMraRepSent);
  auto mra = cm::Begin<wire::CmMra>(c.transaction_id, c.local_comm_id,
                                    c.remote_comm_id);
  mra.set_message_mraed(of_req ? wire::kCmMessageReq : wire::kCmMessageRep);
  mra.set_service_timeout_code(service_timeout_code);
  Store(c, mra);
  return 0;
}

int StateMachine::Disconnect(Connection& c,
                             std::span<const uint8_t> private_data,
                             Step& step) const {
  if (c.state != State::kEstablished) return EINVAL;
  if (private_data.size() > wire::kDreqPrivateBytes) return EINVAL;
  SendDreq(c, private_data, step);
  return 0;
}

int StateMachine::SendDrep(Connection& c, std::span<const uint8_t> private_data,
                           Step& step) const {
  if (c.state != State::kDreqReceived) return EINVAL;
  if (private_data.size() > wire::kDrepPrivateBytes) return EINVAL;
  AnswerDreq(c, private_data, step);
  return 0;
}

int StateMachine::SidrReply(Connection& c, const SidrReplyParams& params,
                            Step& step) const {
  if (c.state != State::kSidrReqReceived) return EINVAL;
  if (const int error = Check(params); error != 0) return error;
  step.sink.SendMad(BytesOf(MakeSidrRep(c.transaction_id, c.remote_comm_id,
                                        c.service_id, params)),
                    c.mad_path);
  SetState(c, State::kIdle);
  return 0;
}

void StateMachine::Destroy(Connection& c, Step& step) const {
  switch (c.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      SendRejectTimeout(c, step);
      break;
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
      SendReject(c, RejectParams(), step);
      break;
    case State::kRepSent:
    case State::kMraRepReceived:
      SendReject(c, RejectParams(), step);
      EnterTimewait(c, step);
      break;
    case State::kEstablished:
      // An XRC target QP outlives the connection.
      if (c.service == Service::kXrc && c.passive) break;
      SendDreq(c, {}, step);
      break;
    case State::kDreqReceived:
      AnswerDreq(c, {}, step);
      break;
    case State::kSidrReqReceived: {
      SidrReplyParams params;
      params.status = wire::kSidrReject;
      (void)SidrReply(c, params, step);
      break;
    }
    case State::kIdle:
    case State::kListen:
    case State::kDreqSent:
    case State::kTimewait:
    case State::kSidrReqSent:
      break;
  }
  c.orphan = true;
  if (c.state != State::kDreqSent && c.state != State::kTimewait) {
    SetState(c, State::kIdle);
  }
}

int StateMachine::GetQpAttributes(const Connection& c, QpAttributes& out) {
  if (IsOver(c.state) || c.state == State::kSidrReqSent ||
      c.state == State::kSidrReqReceived) {
    return EINVAL;
  }
  out.service = c.service;
  out.passive = c.passive;
  out.local_qpn = c.local_qpn;
  out.remote_qpn = c.remote_qpn;
  out.send_psn = c.send_psn;
  out.receive_psn = c.receive_psn;
  out.path = c.path;
  out.mtu_code = c.mtu_code;
  out.responder_resources = c.responder_resources;
  out.initiator_depth = c.initiator_depth;
  out.ack_timeout_code = c.ack_timeout_code;
  out.retry_count = c.retry_count;
  out.rnr_retry_count = c.rnr_retry_count;
  return 0;
}

// --- Other inputs ------------------------------------------------------------

void StateMachine::Displace(Connection& c, Step& step) const {
  SetState(c, State::kIdle);
  Emit(c, EventKind::kDisplaced, step);
}

void StateMachine::EndStale(Connection& c, Step& step) const {
  if (c.state == State::kEstablished) SendDreq(c, {}, step);
}

void StateMachine::Hurry(Connection& c, Duration interval, uint8_t repeats,
                         Time now) {
  c.repeat_after = interval;
  c.retries_left = repeats;
  c.deadline = now + interval;
}

void StateMachine::OnDeadline(Connection& c, Step& step) const {
  if (c.state == State::kTimewait) {
    SetState(c, State::kIdle);
    return Emit(c, EventKind::kTimewaitExit, step);
  }
  if (c.retries_left > 0) {
    --c.retries_left;
    c.deadline = step.now + c.repeat_after;
    return SendStored(c, step);
  }
  switch (c.state) {
    //= IBTA 12.9.6: a side that gets no answer to its REQ or REP gives up with
    //= a REJ (timeout)
    // Linux sends none, but a peer whose answer is under way would be left with
    // half a connection.
    case State::kReqSent:
    case State::kMraReqReceived:
      SendRejectTimeout(c, step);
      SetState(c, State::kIdle);
      return Emit(c, EventKind::kReqError, step);
    case State::kRepSent:
    case State::kMraRepReceived:
      SendRejectTimeout(c, step);
      EnterTimewait(c, step);
      return Emit(c, EventKind::kRepError, step);
    case State::kDreqSent:
      EnterTimewait(c, step);
      return Emit(c, EventKind::kDreqError, step);
    case State::kSidrReqSent:
      SetState(c, State::kIdle);
      return Emit(c, EventKind::kSidrReqError, step);
    default:
      URNIC_CHECK(!"no deadline in this state");
  }
}

void StateMachine::CheckInvariants(const Connection& c) {
  const State s = c.state;
  URNIC_CHECK(c.deadline.IsInfinite() !=
              (IsRepeated(s) || s == State::kTimewait));
  URNIC_CHECK(!c.orphan || s == State::kDreqSent || s == State::kTimewait);
  const bool paired = s == State::kRepSent || s == State::kRepReceived ||
                      s == State::kEstablished || s == State::kDreqSent ||
                      s == State::kDreqReceived;
  // TIMEWAIT can follow a REJ of the REQ, when the peer has no id yet.
  URNIC_CHECK(!paired || c.remote_comm_id != 0);
}

}  // namespace urnic::cm
