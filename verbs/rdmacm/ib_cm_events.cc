// Messages of the connection manager become events for programs.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/wire/ip_cm.h"
#include "verbs/rdmacm/ib_cm_port.h"

namespace urnic::rdmacm {

namespace {

// As in Linux: a program may take 68 s to answer.
constexpr uint8_t kServiceTimeoutCode = 24;

// The type of the queue pair that answers a request.
uint8_t AnsweringType(const cm::Event& event) {
  if (event.kind == cm::EventKind::kSidrReqReceived) return kQpTypeUd;
  switch (event.service) {
    case cm::Service::kUc:
      return kQpTypeUc;
    case cm::Service::kXrc:
      return kQpTypeXrcTarget;
    default:
      return kQpTypeRc;
  }
}

SocketAddress AddressOf(const wire::IpCmHeader& header, const wire::Gid& gid,
                        uint16_t port, uint32_t scope) {
  if (header.ip() == 4) return SocketAddress::FromGid(gid, port, 0);
  SocketAddress address;
  address.set_family(AF_INET6);
  address.set_ipv6(gid);
  address.set_port(port);
  if (gid.is_link_local()) address.set_scope(scope);
  return address;
}

template <typename Param>
void SetPrivateData(std::span<const uint8_t> data, Param& out) {
  std::memcpy(out.private_data, data.data(), data.size());
  out.private_data_len = static_cast<uint8_t>(data.size());
}

// The peer's responder resources are our initiator depth, and vice versa.
void SetConnectionParams(const cm::Event& event,
                         std::span<const uint8_t> private_data,
                         rdma_ucm_event_resp& response) {
  rdma_ucm_conn_param& out = response.param.conn;
  response.ece = {.vendor_id = event.ece.vendor_id,
                  .attr_mod = event.ece.options};
  out.responder_resources = event.initiator_depth;
  out.initiator_depth = event.responder_resources;
  out.flow_control = event.flow_control;
  out.retry_count = event.retry_count;
  out.rnr_retry_count = event.rnr_retry_count;
  out.srq = event.srq;
  out.qp_num = event.remote_qpn.value;
  SetPrivateData(private_data, out);
}

// False: the event concerns the manager only.
//= Linux cma_ib_handler(): each message of the connection manager becomes an
//= event for the program
//= Linux cma_sidr_rep_handler(): a SIDR_REP becomes an event for the program,
//= which depends on its status
bool Translate(const cm::Event& event, CmEvent& out) {
  switch (event.kind) {
    case cm::EventKind::kReqError:
    case cm::EventKind::kRepError:
    case cm::EventKind::kDisplaced:
    case cm::EventKind::kSidrReqError:
      out.set_type(EventType::kUnreachable, -ETIMEDOUT);
      return true;
    case cm::EventKind::kRepReceived:
      out.set_type(EventType::kConnectResponse);
      SetConnectionParams(event, event.private_data, out.response);
      return true;
    case cm::EventKind::kRtuReceived:
    case cm::EventKind::kUserEstablished:
      out.set_type(EventType::kEstablished);
      return true;
    case cm::EventKind::kRejReceived:
      out.set_type(EventType::kRejected, event.reject_reason);
      SetPrivateData(event.private_data, out.response.param.conn);
      return true;
    case cm::EventKind::kDreqError:
      out.set_type(EventType::kDisconnected, -ETIMEDOUT);
      return true;
    case cm::EventKind::kDreqReceived:
    case cm::EventKind::kDrepReceived:
      out.set_type(EventType::kDisconnected);
      return true;
    case cm::EventKind::kTimewaitExit:
      out.set_type(EventType::kTimewaitExit);
      return true;
    case cm::EventKind::kSidrRepReceived: {
      rdma_ucm_ud_param& ud = out.response.param.ud;
      SetPrivateData(event.private_data, ud);
      if (event.sidr_status != wire::kSidrSuccess) {
        out.set_type(EventType::kUnreachable, event.sidr_status);
        return true;
      }
      out.set_type(EventType::kEstablished);
      ud.qp_num = event.remote_qpn.value;
      ud.qkey = event.qkey;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

void IbCmPort::OnEvent(const cm::Event& event) {
  if (event.kind == cm::EventKind::kReqReceived ||
      event.kind == cm::EventKind::kSidrReqReceived) {
    OnRequest(event);
    return;
  }
  if (event.kind == cm::EventKind::kRepReceived) {
    Later(What::kPrepareMra, event.handle);
  }
  CmEvent out;
  out.handle = {event.handle.value};
  out.user = event.user;
  if (!Translate(event, out)) return;
  if (!events().OnEvent(*this, out)) Later(What::kForget, event.handle);
}

void IbCmPort::OnRequest(const cm::Event& event) {
  const bool is_datagram = event.kind == cm::EventKind::kSidrReqReceived;
  wire::IpCmHeader header;
  if (event.private_data.size() >= sizeof(header)) {
    std::memcpy(&header, event.private_data.data(), sizeof(header));
  }
  uint64_t user = 0;
  if (header.cm_version == 0 && (header.ip() == 4 || header.ip() == 6)) {
    const uint32_t scope = rnic().info().interface_index;
    const auto own_data = event.private_data.subspan(sizeof(header));
    CmRequest request;
    request.handle = {event.handle.value};
    request.space = static_cast<PortSpace>(event.service_id >> 16);
    request.qp_type = AnsweringType(event);
    request.called = AddressOf(header, header.destination_gid(),
                               static_cast<uint16_t>(event.service_id), scope);
    request.caller = AddressOf(header, header.source_gid(),
                               header.source_port.value(), scope);
    request.roce_v1 = event.from->roce_v1;
    if (is_datagram) {
      SetPrivateData(own_data, request.response.param.ud);
    } else {
      request.path = event.path;
      request.packet_rate = event.packet_rate;
      request.mtu_code = event.mtu_code;
      SetConnectionParams(event, own_data, request.response);
    }
    user = events().OnRequest(*this, request);
  }
  if (user != 0) {
    Later(What::kAdopt, event.handle, user);
  } else {
    // As in Linux when the manager has a listener but rdma_cm has none.
    Later(is_datagram ? What::kRefuseSidr : What::kRefuse, event.handle);
  }
}

void IbCmPort::DoLater(Time now) {
  // None of these calls causes events, so nothing is added to later_ here.
  for (const Deferred& deferred : later_) {
    const cm::Handle handle = deferred.handle;
    switch (deferred.what) {
      case What::kAdopt:
        cm_->SetUser(handle, deferred.user);
        // Fails for datagrams: there is no MRA for their requests.
        cm_->PrepareMra(handle, kServiceTimeoutCode);
        break;
      case What::kPrepareMra:
        cm_->PrepareMra(handle, kServiceTimeoutCode);
        break;
      case What::kForget:
        cm_->Destroy(handle, now, *this);
        break;
      case What::kRefuse: {
        cm::RejectParams reject;
        reject.reason = wire::kRejConsumerDefined;
        cm_->Reject(handle, reject, now, *this);
        cm_->Destroy(handle, now, *this);
        break;
      }
      case What::kRefuseSidr: {
        cm::SidrReplyParams reply;
        reply.status = wire::kSidrReject;
        cm_->SidrReply(handle, reply, *this);
        cm_->Destroy(handle, now, *this);
        break;
      }
    }
  }
  later_.clear();
}

}  // namespace urnic::rdmacm
