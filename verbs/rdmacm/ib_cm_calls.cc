// The calls of programs become messages of the connection manager.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/wire/ip_cm.h"
#include "verbs/rdmacm/ib_cm_port.h"
#include "verbs/rdmacm/qp_attributes.h"

namespace urnic::rdmacm {

namespace {

constexpr uint8_t kMaxRetries = 7;             // three bits on the wire
constexpr uint32_t kEventCommEstablished = 4;  // IBV_EVENT_COMM_EST

// Another thread has destroyed the id in the meantime.
int ErrnoOf(int error) { return error == EBADF ? EINVAL : error; }

cm::Handle Of(CmHandle handle) { return {handle.value}; }

std::optional<cm::Service> ServiceOf(uint8_t qp_type) {
  switch (qp_type) {
    case kQpTypeRc:
      return cm::Service::kRc;
    case kQpTypeUc:
      return cm::Service::kUc;
    case kQpTypeXrcInitiator:
      return cm::Service::kXrc;
    default:
      return std::nullopt;
  }
}

std::span<const uint8_t> PrivateData(const rdma_ucm_conn_param& params) {
  return {params.private_data, params.private_data_len};
}

// MADs do not use the TOS and flow label that the program wants for its data.
net::PathQuery MadPathOf(const ConnectRequest& request) {
  net::PathQuery path;
  path.local = request.path.local;
  path.remote = request.path.remote;
  path.pkey = request.path.pkey;
  return path;
}

// Private data of a request: the addresses of both sides, then the program's
// own data.
template <size_t kSize>
struct RequestData {
  std::array<uint8_t, kSize> bytes = {};
  size_t size = 0;

  // False if it does not fit.
  bool Set(const ConnectRequest& request) {
    const auto header = wire::IpCmHeader::Make(
        request.source.gid(), request.destination.gid(), request.source.port());
    const auto own = PrivateData(request.params);
    size = sizeof(header) + own.size();
    if (size > bytes.size()) return false;
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), own.data(), own.size());
    return true;
  }
  std::span<const uint8_t> span() const { return {bytes.data(), size}; }
};

bool CanReceive(cm::State state) {
  switch (state) {
    case cm::State::kReqReceived:
    case cm::State::kMraReqSent:
    case cm::State::kRepSent:
    case cm::State::kMraRepReceived:
    case cm::State::kRepReceived:
    case cm::State::kMraRepSent:
    case cm::State::kEstablished:
      return true;
    default:
      return false;
  }
}

bool CanInit(cm::State state) {
  return CanReceive(state) || state == cm::State::kReqSent ||
         state == cm::State::kMraReqReceived;
}

void SetInit(const cm::QpAttributes& from, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask |= kAccessFlags | kPkeyIndex | kPort;
  out.qp_access_flags = kRemoteWrite;
  if (from.responder_resources > 0) {
    out.qp_access_flags |= kRemoteRead | kRemoteAtomic;
  }
}

void SetReadyToReceive(const cm::QpAttributes& from, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask |= kAddressVector | kPathMtu | kDestinationQpn | kReceivePsn;
  out.path_mtu = from.mtu_code;
  out.dest_qp_num = from.remote_qpn.value;
  // Not for UC, or for an XRC initiator, which receives nothing.
  const bool receives = from.service == cm::Service::kRc ||
                        (from.service == cm::Service::kXrc && from.passive);
  if (!receives) return;
  out.qp_attr_mask |= kMaxTargeted | kMinRnrTimer;
  out.max_dest_rd_atomic = from.responder_resources;
}

void SetReadyToSend(const cm::QpAttributes& from, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask |= kSendPsn;
  out.sq_psn = from.send_psn.value();
  if (from.service == cm::Service::kUc) return;
  out.qp_attr_mask |= kTimeout;
  out.timeout = from.ack_timeout_code;
  if (from.service == cm::Service::kXrc && from.passive) return;
  out.qp_attr_mask |= kRetryCount | kRnrRetry | kMaxInitiated;
  out.retry_cnt = from.retry_count;
  out.rnr_retry = from.rnr_retry_count;
  out.max_rd_atomic = from.initiator_depth;
}

}  // namespace

// --------------------------------------------------------------- connections

int IbCmPort::Connect(const ConnectRequest& request, uint64_t user,
                      CmHandle& out) {
  cm::Handle handle;
  const int error = request.qp_type == kQpTypeUd
                        ? AskForDatagrams(request, user, handle)
                        : ConnectStream(request, user, handle);
  out = {handle.value};
  return error;
}

int IbCmPort::ConnectStream(const ConnectRequest& request, uint64_t user,
                            cm::Handle& out) {
  const auto service = ServiceOf(request.qp_type);
  RequestData<wire::kReqPrivateBytes> data;
  if (!service.has_value() || !data.Set(request)) return EINVAL;
  const rdma_ucm_conn_param& params = request.params;
  cm::ConnectParams connect;
  connect.service = *service;
  connect.service_id = ServiceId(request.space, request.destination.port());
  connect.path = request.path;
  connect.mad_path = MadPathOf(request);
  connect.packet_rate = request.packet_rate;
  connect.mtu_code = request.mtu_code;
  if (request.ack_timeout.value_or(0) > 0) {
    connect.packet_life_time_code =
        static_cast<uint8_t>(*request.ack_timeout - 1);
  }
  connect.qpn = Qpn{params.qp_num};
  connect.starting_psn = Psn(request.starting_psn);
  connect.srq = params.srq != 0;
  connect.responder_resources = params.responder_resources;
  connect.initiator_depth = params.initiator_depth;
  connect.retry_count = std::min(params.retry_count, kMaxRetries);
  connect.rnr_retry_count = std::min(params.rnr_retry_count, kMaxRetries);
  connect.flow_control = params.flow_control != 0;
  connect.ece = {request.ece.vendor_id, request.ece.attr_mod};
  connect.private_data = data.span();
  return cm_->Connect(connect, user, now(), *this, out);
}

int IbCmPort::AskForDatagrams(const ConnectRequest& request, uint64_t user,
                              cm::Handle& out) {
  RequestData<wire::kSidrReqPrivateBytes> data;
  if (!data.Set(request)) return EINVAL;
  cm::SidrRequestParams sidr;
  sidr.service_id = ServiceId(request.space, request.destination.port());
  sidr.mad_path = MadPathOf(request);
  sidr.private_data = data.span();
  return cm_->SidrRequest(sidr, user, now(), *this, out);
}

bool IbCmPort::AsksForDatagrams(CmHandle handle) const {
  return cm_->state(Of(handle)) == cm::State::kSidrReqReceived;
}

int IbCmPort::Accept(CmHandle handle, const AcceptRequest& request) {
  if (AsksForDatagrams(handle)) {
    cm::SidrReplyParams reply;
    reply.qpn = Qpn{request.qpn};
    reply.qkey = request.qkey;
    reply.private_data = PrivateData(request.params);
    return ErrnoOf(cm_->SidrReply(Of(handle), reply, *this));
  }
  const rdma_ucm_conn_param& params = request.params;
  cm::AcceptParams accept;
  accept.qpn = Qpn{request.qpn};
  accept.starting_psn = Psn(request.starting_psn);
  accept.responder_resources = params.responder_resources;
  accept.initiator_depth = params.initiator_depth;
  accept.rnr_retry_count = std::min(params.rnr_retry_count, kMaxRetries);
  accept.srq = params.srq != 0;
  accept.flow_control = params.flow_control != 0;
  accept.private_data = PrivateData(params);
  accept.ece = {request.ece.vendor_id, request.ece.attr_mod};
  return ErrnoOf(cm_->Accept(Of(handle), accept, now(), *this));
}

int IbCmPort::Ready(CmHandle handle) {
  return ErrnoOf(cm_->SendRtu(Of(handle), {}, *this));
}

int IbCmPort::Reject(CmHandle handle, uint8_t reason,
                     std::span<const uint8_t> private_data) {
  if (AsksForDatagrams(handle)) {
    cm::SidrReplyParams reply;
    reply.status = wire::kSidrReject;
    reply.private_data = private_data;
    return ErrnoOf(cm_->SidrReply(Of(handle), reply, *this));
  }
  cm::RejectParams reject;
  reject.reason = reason;
  reject.private_data = private_data;
  return ErrnoOf(cm_->Reject(Of(handle), reject, now(), *this));
}

int IbCmPort::Disconnect(CmHandle handle) {
  // Sends a DREQ, or answers the peer's. If neither is possible, the connection
  // is over; Linux does not report that as an error either.
  if (cm_->Disconnect(Of(handle), {}, now(), *this) != 0) {
    cm_->SendDrep(Of(handle), {}, now(), *this);
  }
  return 0;
}

int IbCmPort::Notify(CmHandle handle, uint32_t event) {
  if (event != kEventCommEstablished) return EINVAL;
  return ErrnoOf(cm_->EstablishByTraffic(Of(handle), *this));
}

void IbCmPort::Destroy(CmHandle handle) {
  cm_->Destroy(Of(handle), now(), *this);
}

// ---------------------------------------------------------------- attributes

//= Linux rdma_init_qp_attr(): before there is a connection, a queue pair gets
//= its partition and port, and the Q_Key or no rights
void IbCmPort::GetInitialAttributes(bool is_datagram,
                                    ib_uverbs_qp_attr& out) const {
  out.qp_attr_mask =
      kState | kPkeyIndex | kPort | (is_datagram ? kQkey : kAccessFlags);
}

//= Linux rdma_init_qp_attr(), ib_cm_init_qp_attr(): each step of a connection
//= has its set of queue pair attributes
int IbCmPort::GetQpAttributes(CmHandle handle, ib_uverbs_qp_attr& out) {
  cm::QpAttributes attributes;
  const cm::State state = cm_->state(Of(handle));
  if (cm_->GetQpAttributes(Of(handle), attributes) != 0) return EINVAL;
  out.qp_attr_mask = kState;
  if (out.qp_state == kInit && CanInit(state)) {
    SetInit(attributes, out);
  } else if (out.qp_state == kReadyToReceive && CanReceive(state)) {
    SetReadyToReceive(attributes, out);
  } else if (out.qp_state == kReadyToSend && CanReceive(state)) {
    SetReadyToSend(attributes, out);
  } else {
    return EINVAL;
  }
  return 0;
}

}  // namespace urnic::rdmacm
