#include "transport/cm/connection_manager.h"

#include <algorithm>
#include <cerrno>

#include "transport/cm/messages.h"

namespace urnic::cm {

using wire::Be;

ConnectionManager::ConnectionManager(const Config& config)
    : config_(config), table_(config), half_open_(config, table_.salt()) {
  URNIC_CHECK(config.ack_delay_code < 32);
}

// --- Passive side ---------------------------------------------------------

int ConnectionManager::Listen(uint64_t service_id, uint64_t mask, uint64_t user,
                              Handle& out) {
  if (mask == 0) mask = UINT64_MAX;
  service_id &= mask;
  if (table_.HasListener(service_id, mask)) return EADDRINUSE;
  Connection* c = Allocate(State::kListen);
  if (c == nullptr) return ENOMEM;
  c->user = user;
  c->service_id = service_id;
  c->service_mask = mask;
  table_.AddListener(*c);
  out = table_.handle(*c);
  return 0;
}

int ConnectionManager::Unlisten(Handle listener) {
  Connection* c = table_.Find(listener);
  if (c == nullptr) return EBADF;
  if (c->state != State::kListen) return EINVAL;
  table_.RemoveListener(*c);
  half_open_.ForgetListener(c->slot);
  Release(*c);
  return 0;
}

int ConnectionManager::Accept(Handle handle, const AcceptParams& params,
                              Time now, Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  if (c->state != State::kReqReceived && c->state != State::kMraReqSent) {
    return EINVAL;
  }
  if (const int error = Check(params); error != 0) return error;
  c->local_qpn = params.qpn;
  c->receive_psn = params.starting_psn;
  c->responder_resources = params.responder_resources;
  c->initiator_depth = params.initiator_depth;
  table_.IndexLocalQp(*c);
  SetState(*c, State::kRepSent);
  Store(*c, MakeRep(config_, *c, params));
  SendRepeatedly(*c, c->timeout, now, sink);
  if (c->retries_left > kUnansweredRepRepeats && !half_open_.HasAnswered(*c)) {
    c->retries_withheld =
        static_cast<uint8_t>(c->retries_left - kUnansweredRepRepeats);
    c->retries_left = kUnansweredRepRepeats;
  }
  return 0;
}

int ConnectionManager::Reject(Handle handle, const RejectParams& params,
                              Time now, Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  const bool replied =
      c->state == State::kRepSent || c->state == State::kMraRepReceived;
  const bool early =
      c->state == State::kReqReceived || c->state == State::kMraReqSent ||
      c->state == State::kReqSent || c->state == State::kMraReqReceived ||
      c->state == State::kRepReceived || c->state == State::kMraRepSent;
  if (!replied && !early) return EINVAL;
  if (const int error = Check(params); error != 0) return error;
  SendReject(*c, params, sink);
  if (replied) {
    EnterTimewait(*c, now);
  } else {
    EnterIdle(*c);
  }
  return 0;
}

int ConnectionManager::EstablishByTraffic(Handle handle, Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  if (c->state == State::kEstablished) return EISCONN;
  if (c->state != State::kRepSent && c->state != State::kMraRepReceived) {
    return EINVAL;
  }
  half_open_.SetAnswered(*c);
  SetState(*c, State::kEstablished);
  Emit(*c, EventKind::kUserEstablished, sink);
  return 0;
}

// --- Active side ----------------------------------------------------------

int ConnectionManager::Connect(const ConnectParams& params, uint64_t user,
                               Time now, Sink& sink, Handle& out) {
  if (const int error = Check(params); error != 0) return error;
  Connection* c = Allocate(State::kReqSent);
  if (c == nullptr) return ENOMEM;
  c->user = user;
  c->service = params.service;
  c->service_id = params.service_id;
  c->mad_path = params.mad_path;
  half_open_.Attach(*c);
  c->path = params.path;
  c->packet_rate = params.packet_rate;
  c->mtu_code = params.mtu_code;
  c->transaction_id = NewTransactionId(*c);
  c->local_qpn = params.qpn;
  c->receive_psn = params.starting_psn;
  c->responder_resources = params.responder_resources;
  c->initiator_depth = params.initiator_depth;
  c->retry_count = params.retry_count;
  c->rnr_retry_count = params.rnr_retry_count;
  c->ack_timeout_code =
      static_cast<uint8_t>(std::min(31, params.packet_life_time_code + 1));
  c->max_cm_retries = params.max_cm_retries;
  //= IBTA 12.9.8.1: the answer's time, and the way there and back
  c->timeout = CodeTime(params.remote_response_timeout_code) +
               CodeTime(params.packet_life_time_code) * 2;
  table_.IndexLocalQp(*c);
  Store(*c, MakeReq(config_, *c, params));
  out = table_.handle(*c);
  SendRepeatedly(*c, c->timeout, now, sink);
  return 0;
}

int ConnectionManager::SendRtu(Handle handle,
                               std::span<const uint8_t> private_data,
                               Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  if (c->state != State::kRepReceived && c->state != State::kMraRepSent) {
    return EINVAL;
  }
  if (private_data.size() > wire::kRtuPrivateBytes) return EINVAL;
  SetState(*c, State::kEstablished);
  auto rtu = Begin<wire::CmRtu>(c->transaction_id, c->local_comm_id,
                                c->remote_comm_id);
  PutBytes(rtu.private_data, private_data);
  Store(*c, rtu);
  SendStored(*c, sink);
  return 0;
}

// --- Either side ----------------------------------------------------------

int ConnectionManager::StoreMra(Handle handle, uint8_t service_timeout_code,
                                std::span<const uint8_t> private_data,
                                Connection*& out) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  const bool of_req = c->state == State::kReqReceived;
  if (!of_req && c->state != State::kRepReceived) return EINVAL;
  if (service_timeout_code > 31) return EINVAL;
  if (private_data.size() > wire::kMraPrivateBytes) return EINVAL;
  SetState(*c, of_req ? State::kMraReqSent : State::kMraRepSent);
  auto mra = Begin<wire::CmMra>(c->transaction_id, c->local_comm_id,
                                c->remote_comm_id);
  mra.set_message_mraed(of_req ? wire::kCmMessageReq : wire::kCmMessageRep);
  mra.set_service_timeout_code(service_timeout_code);
  PutBytes(mra.private_data, private_data);
  Store(*c, mra);
  out = c;
  return 0;
}

int ConnectionManager::SendMra(Handle handle, uint8_t service_timeout_code,
                               std::span<const uint8_t> private_data,
                               Sink& sink) {
  Connection* c = nullptr;
  const int error = StoreMra(handle, service_timeout_code, private_data, c);
  if (error == 0) SendStored(*c, sink);
  return error;
}

int ConnectionManager::PrepareMra(Handle handle, uint8_t service_timeout_code) {
  Connection* c = nullptr;
  return StoreMra(handle, service_timeout_code, {}, c);
}

int ConnectionManager::Disconnect(Handle handle,
                                  std::span<const uint8_t> private_data,
                                  Time now, Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  if (c->state != State::kEstablished) return EINVAL;
  if (private_data.size() > wire::kDreqPrivateBytes) return EINVAL;
  SendDreq(*c, private_data, now, sink);
  return 0;
}

void ConnectionManager::SendDreq(Connection& c,
                                 std::span<const uint8_t> private_data,
                                 Time now, Sink& sink) {
  SetState(c, State::kDreqSent);
  auto dreq = Begin<wire::CmDreq>(NewTransactionId(c), c.local_comm_id,
                                  c.remote_comm_id);
  dreq.set_remote_qpn(c.remote_qpn);
  PutBytes(dreq.private_data, private_data);
  Store(c, dreq);
  SendRepeatedly(c, c.timeout, now, sink);
}

int ConnectionManager::SendDrep(Handle handle,
                                std::span<const uint8_t> private_data, Time now,
                                Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  if (c->state != State::kDreqReceived) return EINVAL;
  if (private_data.size() > wire::kDrepPrivateBytes) return EINVAL;
  SendDrep(*c, private_data, now, sink);
  return 0;
}

void ConnectionManager::SendDrep(Connection& c,
                                 std::span<const uint8_t> private_data,
                                 Time now, Sink& sink) {
  auto drep =
      Begin<wire::CmDrep>(c.transaction_id, c.local_comm_id, c.remote_comm_id);
  PutBytes(drep.private_data, private_data);
  Store(c, drep);
  SendStored(c, sink);
  EnterTimewait(c, now);
}

// --- Datagrams ------------------------------------------------------------

int ConnectionManager::SidrRequest(const SidrRequestParams& params,
                                   uint64_t user, Time now, Sink& sink,
                                   Handle& out) {
  if (const int error = Check(params); error != 0) return error;
  Connection* c = Allocate(State::kSidrReqSent);
  if (c == nullptr) return ENOMEM;
  c->user = user;
  c->service_id = params.service_id;
  c->mad_path = params.mad_path;
  half_open_.Attach(*c);
  c->transaction_id = NewTransactionId(*c);
  c->max_cm_retries = params.max_cm_retries;
  c->timeout = CodeTime(params.response_timeout_code) +
               CodeTime(params.packet_life_time_code) * 2;
  auto req = Begin<wire::CmSidrReq>(c->transaction_id);
  req.request_id = Be<uint32_t>(c->local_comm_id);
  req.pkey = Be<uint16_t>(params.pkey);
  req.service_id = Be<uint64_t>(params.service_id);
  PutBytes(req.private_data, params.private_data);
  Store(*c, req);
  out = table_.handle(*c);
  SendRepeatedly(*c, c->timeout, now, sink);
  return 0;
}

int ConnectionManager::SidrReply(Handle handle, const SidrReplyParams& params,
                                 Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  if (c->state != State::kSidrReqReceived) return EINVAL;
  if (const int error = Check(params); error != 0) return error;
  sink.SendMad(BytesOf(MakeSidrRep(c->transaction_id, c->remote_comm_id,
                                   c->service_id, params)),
               c->mad_path);
  EnterIdle(*c);
  return 0;
}

// --- All ------------------------------------------------------------------

int ConnectionManager::Destroy(Handle handle, Time now, Sink& sink) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  switch (c->state) {
    case State::kListen:
      return Unlisten(handle);
    case State::kReqSent:
    case State::kMraReqReceived:
      SendRejectTimeout(*c, sink);
      break;
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
      SendReject(*c, RejectParams(), sink);
      break;
    case State::kRepSent:
    case State::kMraRepReceived:
      SendReject(*c, RejectParams(), sink);
      EnterTimewait(*c, now);
      break;
    case State::kEstablished:
      // An XRC target QP lives on without the connection.
      if (c->service == Service::kXrc && c->passive) break;
      SendDreq(*c, {}, now, sink);
      break;
    case State::kDreqReceived:
      SendDrep(*c, {}, now, sink);
      break;
    case State::kSidrReqReceived: {
      SidrReplyParams params;
      params.status = wire::kSidrReject;
      (void)SidrReply(handle, params, sink);
      break;
    }
    case State::kIdle:
    case State::kDreqSent:
    case State::kTimewait:
    case State::kSidrReqSent:
      break;
  }
  if (c->state == State::kDreqSent || c->state == State::kTimewait) {
    c->orphan = true;
  } else {
    Release(*c);
  }
  return 0;
}

int ConnectionManager::SetUser(Handle handle, uint64_t user) {
  Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  c->user = user;
  return 0;
}

uint32_t ConnectionManager::HurryDisconnects(Duration interval, uint8_t repeats,
                                             Time now) {
  for (uint32_t i = 0; i < table_.slots() && unanswered_dreqs_ > 0; ++i) {
    Connection& c = table_.slot(i);
    if (!c.used || c.state != State::kDreqSent) continue;
    c.repeat_after = interval;
    c.retries_left = repeats;
    heap_.Set(c.slot, now + interval);
  }
  return unanswered_dreqs_;
}

State ConnectionManager::state(Handle handle) const {
  const Connection* c = table_.Find(handle);
  return c == nullptr ? State::kIdle : c->state;
}

uint32_t ConnectionManager::local_comm_id(Handle handle) const {
  const Connection* c = table_.Find(handle);
  return c == nullptr ? 0 : c->local_comm_id;
}

uint32_t ConnectionManager::remote_comm_id(Handle handle) const {
  const Connection* c = table_.Find(handle);
  return c == nullptr ? 0 : c->remote_comm_id;
}

int ConnectionManager::GetQpAttributes(Handle handle, QpAttributes& out) const {
  const Connection* c = table_.Find(handle);
  if (c == nullptr) return EBADF;
  switch (c->state) {
    case State::kIdle:
    case State::kListen:
    case State::kSidrReqSent:
    case State::kSidrReqReceived:
      return EINVAL;
    default:
      break;
  }
  out.service = c->service;
  out.passive = c->passive;
  out.local_qpn = c->local_qpn;
  out.remote_qpn = c->remote_qpn;
  out.send_psn = c->send_psn;
  out.receive_psn = c->receive_psn;
  out.path = c->path;
  out.mtu_code = c->mtu_code;
  out.responder_resources = c->responder_resources;
  out.initiator_depth = c->initiator_depth;
  out.ack_timeout_code = c->ack_timeout_code;
  out.retry_count = c->retry_count;
  out.rnr_retry_count = c->rnr_retry_count;
  return 0;
}

}  // namespace urnic::cm
