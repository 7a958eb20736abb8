// Connections and datagram resolutions: the program's commands, and the
// connection manager's events.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/wire/ip_cm.h"
#include "verbs/rdmacm/service.h"

namespace urnic::rdmacm {

namespace {

constexpr uint8_t kMaxRetries = 7;  // three bits on the wire
constexpr uint8_t kRejectVendorOption = 35;
constexpr uint32_t kEventCommEstablished = 4;  // IBV_EVENT_COMM_EST

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

std::span<const uint8_t> PrivateData(const rdma_ucm_conn_param& params) {
  return {params.private_data, params.private_data_len};
}

// Private data of a request: the addresses of both sides, then the program's
// own data.
template <size_t kSize>
struct RequestData {
  std::array<uint8_t, kSize> bytes = {};
  size_t size = 0;

  // False if it does not fit.
  bool Set(const Id& id, std::span<const uint8_t> own) {
    const auto header = wire::IpCmHeader::Make(
        id.source.gid(), id.destination.gid(), id.source.port());
    size = sizeof(header) + own.size();
    if (size > bytes.size()) return false;
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), own.data(), own.size());
    return true;
  }
  std::span<const uint8_t> span() const { return {bytes.data(), size}; }
};

void SetType(EventType type, rdma_ucm_event_resp& out) {
  out.event = static_cast<uint32_t>(type);
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

//= Linux cma_match_private_data(): a listener gets the calls to its own address
//= or, if it has none, to any address
bool Hears(const Id& listener, const SocketAddress& called) {
  if (listener.source.is_any() && !listener.family_only) return true;
  if (listener.source.family() != called.family()) return false;
  return listener.source.is_any() || listener.source.SameAddress(called);
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

}  // namespace

// ------------------------------------------------------------------ commands

template <typename F>
int Service::CallFor(const IdPtr& id, F&& f) {
  CmPort* port = nullptr;
  cm::Handle handle;
  {
    std::lock_guard lock(mutex_);
    port = id->port;
    handle = id->handle;
  }
  if (!handle.valid()) return EINVAL;
  const int error =
      port->Call([&](cm::ConnectionManager& cm, Time now, cm::Sink& sink) {
        return f(cm, handle, now, sink);
      });
  // Another thread has destroyed the id in the meantime.
  return error == EBADF ? EINVAL : error;
}

template <typename F>
int Service::StartConnection(const IdPtr& id, F&& start) {
  const int error =
      id->port->Call([&](cm::ConnectionManager& cm, Time now, cm::Sink& sink) {
        cm::Handle handle;
        const int result = start(cm, now, sink, handle);
        if (result != 0) return result;
        {
          std::lock_guard lock(mutex_);
          if (id->state != IdState::kDestroying) {
            id->handle = handle;
            return 0;
          }
        }
        return cm.Destroy(handle, now, sink);
      });
  if (error == 0) return 0;
  std::lock_guard lock(mutex_);
  if (id->state == IdState::kConnect) id->state = IdState::kRouteResolved;
  return error;
}

int Service::Connect(EventChannel& channel, uint32_t number,
                     const rdma_ucm_conn_param& params,
                     const rdma_ucm_ece& ece) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
    if (id->state != IdState::kRouteResolved) return EINVAL;
    if (!id->is_datagram() && !ServiceOf(id->qp_type).has_value()) {
      return EINVAL;
    }
    id->state = IdState::kConnect;
    id->qpn = params.qp_num;
    id->srq = params.srq != 0;
  }
  return id->is_datagram() ? ConnectDatagrams(id, params)
                           : ConnectStream(id, params, ece);
}

int Service::ConnectStream(const IdPtr& id, const rdma_ucm_conn_param& params,
                           const rdma_ucm_ece& ece) {
  RequestData<wire::kReqPrivateBytes> data;
  cm::ConnectParams connect;
  connect.service = *ServiceOf(id->qp_type);
  connect.responder_resources = params.responder_resources;
  connect.initiator_depth = params.initiator_depth;
  connect.retry_count = std::min(params.retry_count, kMaxRetries);
  connect.rnr_retry_count = std::min(params.rnr_retry_count, kMaxRetries);
  connect.flow_control = params.flow_control != 0;
  connect.ece = {ece.vendor_id, ece.attr_mod};
  bool fits = false;
  {
    std::lock_guard lock(mutex_);
    connect.service_id = ServiceId(id->port_space, id->destination.port());
    connect.path = *id->path;
    connect.packet_rate = id->packet_rate;
    connect.mtu_code = id->mtu_code;
    connect.mad_path = MadPathOf(*id);
    if (id->ack_timeout.value_or(0) > 0) {
      connect.packet_life_time_code =
          static_cast<uint8_t>(*id->ack_timeout - 1);
    }
    connect.qpn = Qpn{id->qpn};
    connect.starting_psn = Psn(id->starting_psn);
    connect.srq = id->srq;
    fits = data.Set(*id, PrivateData(params));
    connect.private_data = data.span();
  }
  return StartConnection(id, [&](cm::ConnectionManager& cm, Time now,
                                 cm::Sink& sink, cm::Handle& handle) {
    if (!fits) return EINVAL;
    return cm.Connect(connect, id->serial, now, sink, handle);
  });
}

int Service::ConnectDatagrams(const IdPtr& id,
                              const rdma_ucm_conn_param& params) {
  RequestData<wire::kSidrReqPrivateBytes> data;
  cm::SidrRequestParams request;
  bool fits = false;
  {
    std::lock_guard lock(mutex_);
    request.service_id = ServiceId(id->port_space, id->destination.port());
    request.mad_path = MadPathOf(*id);
    fits = data.Set(*id, PrivateData(params));
    request.private_data = data.span();
  }
  return StartConnection(id, [&](cm::ConnectionManager& cm, Time now,
                                 cm::Sink& sink, cm::Handle& handle) {
    if (!fits) return EINVAL;
    return cm.SidrRequest(request, id->serial, now, sink, handle);
  });
}

int Service::Accept(EventChannel& channel, uint32_t number, uint64_t uid,
                    const rdma_ucm_conn_param* params,
                    const rdma_ucm_ece& ece) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
    if (id->state != IdState::kConnect) return EINVAL;
    if (params != nullptr) {
      id->qpn = params->qp_num;
      id->srq = params->srq != 0;
    }
  }
  return id->is_datagram() ? AcceptDatagrams(id, uid, params)
                           : AcceptConnection(id, uid, params, ece);
}

int Service::AcceptConnection(const IdPtr& id, uint64_t uid,
                              const rdma_ucm_conn_param* params,
                              const rdma_ucm_ece& ece) {
  cm::AcceptParams accept;
  if (params != nullptr) {
    accept.qpn = Qpn{params->qp_num};
    accept.starting_psn = Psn(id->starting_psn);
    accept.responder_resources = params->responder_resources;
    accept.initiator_depth = params->initiator_depth;
    accept.rnr_retry_count = std::min(params->rnr_retry_count, kMaxRetries);
    accept.srq = params->srq != 0;
    accept.flow_control = params->flow_control != 0;
    accept.private_data = PrivateData(*params);
    accept.ece = {ece.vendor_id, ece.attr_mod};
  }
  return CallFor(id, [&](cm::ConnectionManager& cm, cm::Handle handle, Time now,
                         cm::Sink& sink) {
    const int error = params != nullptr ? cm.Accept(handle, accept, now, sink)
                                        : cm.SendRtu(handle, {}, sink);
    if (error != 0) {
      cm.Reject(handle, {}, now, sink);
    } else if (params != nullptr) {
      // Set before the peer can answer: from now on the program knows the id.
      std::lock_guard lock(mutex_);
      id->uid = uid;
    }
    return error;
  });
}

int Service::AcceptDatagrams(const IdPtr& id, uint64_t uid,
                             const rdma_ucm_conn_param* params) {
  cm::SidrReplyParams reply;
  {
    std::lock_guard lock(mutex_);
    if (id->qkey == 0) id->qkey = kUdpQkey;
    reply.qpn = Qpn{id->qpn};
    reply.qkey = id->qkey;
    if (params != nullptr) reply.private_data = PrivateData(*params);
  }
  return CallFor(id, [&](cm::ConnectionManager& cm, cm::Handle handle, Time,
                         cm::Sink& sink) {
    const int error = cm.SidrReply(handle, reply, sink);
    if (error != 0) {
      cm::SidrReplyParams refusal;
      refusal.status = wire::kSidrReject;
      cm.SidrReply(handle, refusal, sink);
    } else if (params != nullptr) {
      std::lock_guard lock(mutex_);
      id->uid = uid;
    }
    return error;
  });
}

int Service::Reject(EventChannel& channel, uint32_t number, uint8_t reason,
                    std::span<const uint8_t> private_data) {
  if (reason == 0) reason = wire::kRejConsumerDefined;
  if (reason != wire::kRejConsumerDefined && reason != kRejectVendorOption) {
    return EINVAL;
  }
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
  }
  return CallFor(id, [&](cm::ConnectionManager& cm, cm::Handle handle, Time now,
                         cm::Sink& sink) {
    if (id->is_datagram()) {
      cm::SidrReplyParams reply;
      reply.status = wire::kSidrReject;
      reply.private_data = private_data;
      return cm.SidrReply(handle, reply, sink);
    }
    cm::RejectParams reject;
    reject.reason = reason;
    reject.private_data = private_data;
    return cm.Reject(handle, reject, now, sink);
  });
}

int Service::Disconnect(EventChannel& channel, uint32_t number) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
  }
  return CallFor(id, [&](cm::ConnectionManager& cm, cm::Handle handle, Time now,
                         cm::Sink& sink) {
    // Sends a DREQ, or answers the peer's. If neither is possible, the
    // connection is over; Linux does not report that as an error either.
    if (cm.Disconnect(handle, {}, now, sink) != 0) {
      cm.SendDrep(handle, {}, now, sink);
    }
    return 0;
  });
}

int Service::Notify(EventChannel& channel, uint32_t number, uint32_t event) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
  }
  if (event != kEventCommEstablished) return EINVAL;
  return CallFor(
      id, [&](cm::ConnectionManager& cm, cm::Handle handle, Time,
              cm::Sink& sink) { return cm.EstablishByTraffic(handle, sink); });
}

// -------------------------------------------------------------------- events

void Service::OnCmEvent(CmPort& port, const cm::Event& event) {
  if (abandoned_.load()) return;
  std::lock_guard lock(mutex_);
  if (event.kind == cm::EventKind::kReqReceived ||
      event.kind == cm::EventKind::kSidrReqReceived) {
    OnRequest(port, event);
    return;
  }
  const IdPtr id = FindSerial(event.user);
  if (id == nullptr) return;
  if (IsOverUntold(*id, event)) {
    DropRequest(id);
  } else if (id->is_datagram()) {
    OnDatagramEvent(id, event);
  } else {
    OnConnectionEvent(id, event);
  }
}

bool Service::IsOverUntold(const Id& id, const cm::Event& event) {
  return id.listener != nullptr && (event.kind == cm::EventKind::kRejReceived ||
                                    event.kind == cm::EventKind::kDisplaced);
}

// Otherwise each request that its sender withdraws would stay here, and occupy
// its place in the manager, until the program asks for it.
void Service::DropRequest(const IdPtr& id) {
  Id& listener = *id->listener;
  if (id->channel->TakeRequest(*id)) {
    Unpark(listener);
  } else {
    std::erase_if(listener.parked, [&](const QueuedEvent& event) {
      return event.request == id;
    });
  }
  std::vector<Teardown> work;
  ForgetOne(id, work);
  for (const Teardown& teardown : work) {
    teardown.port->LaterForget(teardown.handle);
  }
}

Service::IdPtr Service::MakeRequestId(CmPort& port, const cm::Event& event,
                                      Id& listener,
                                      const wire::IpCmHeader& header) {
  const IdPtr id = MakeId(*listener.channel);
  const uint32_t scope = port.rnic().info().interface_index;
  id->port_space = listener.port_space;
  id->qp_type = AnsweringType(event);
  id->tos = listener.tos;
  id->ack_timeout = listener.ack_timeout;
  id->source = AddressOf(header, header.destination_gid(),
                         static_cast<uint16_t>(event.service_id), scope);
  id->destination =
      AddressOf(header, header.source_gid(), header.source_port.value(), scope);
  id->port = &port;
  id->handle = event.handle;
  id->listener = &listener;
  id->roce_v1 = event.from->roce_v1;
  if (event.kind == cm::EventKind::kReqReceived) {
    id->path = event.path;
    id->packet_rate = event.packet_rate;
    id->mtu_code = event.mtu_code;
  }
  id->state = IdState::kConnect;
  return id;
}

void Service::OnRequest(CmPort& port, const cm::Event& event) {
  const bool is_datagram = event.kind == cm::EventKind::kSidrReqReceived;
  wire::IpCmHeader header;
  Id* listener = nullptr;
  if (event.private_data.size() >= sizeof(header)) {
    std::memcpy(&header, event.private_data.data(), sizeof(header));
  }
  if (header.cm_version == 0 && (header.ip() == 4 || header.ip() == 6)) {
    const auto called_port = static_cast<uint16_t>(event.service_id);
    const SocketAddress called =
        AddressOf(header, header.destination_gid(), called_port, 0);
    listener = port_spaces_.FindListener(
        static_cast<PortSpace>(event.service_id >> 16), called_port,
        [&](const Id& id) {
          return (id.port == nullptr || id.port == &port) && Hears(id, called);
        });
    // A request to an address that is not ours is rejected: no queue pair could
    // answer from it.
    const auto addresses = port.rnic().Addresses();
    if (std::none_of(addresses.begin(), addresses.end(),
                     [&](const RnicAddress& a) {
                       return a.gid == header.destination_gid();
                     })) {
      listener = nullptr;
    }
  }
  if (listener == nullptr ||
      (listener->qp_type != 0 && listener->qp_type != AnsweringType(event))) {
    // As in Linux when the manager has a listener but rdma_cm has none.
    if (is_datagram) {
      port.LaterRefuseSidr(event.handle, wire::kSidrReject);
    } else {
      port.LaterRefuse(event.handle, wire::kRejConsumerDefined);
    }
    return;
  }
  const IdPtr id = MakeRequestId(port, event, *listener, header);
  port.LaterAdopt(event.handle, id->serial);
  QueuedEvent queued;
  queued.owner = ids_.Find(listener->number);
  queued.request = id;
  queued.response = MakeEvent(*listener, EventType::kConnectRequest, 0);
  const auto own_data = event.private_data.subspan(sizeof(header));
  if (is_datagram) {
    SetPrivateData(own_data, queued.response.param.ud);
  } else {
    SetConnectionParams(event, own_data, queued.response);
  }
  if (listener->backlog_left == 0) {
    listener->parked.push_back(std::move(queued));
    return;
  }
  --listener->backlog_left;
  listener->channel->Push(std::move(queued));
}

//= Linux cma_ib_handler(): each message of the connection manager becomes an
//= event for the program
void Service::OnConnectionEvent(const IdPtr& id, const cm::Event& event) {
  const bool at_the_end = event.kind == cm::EventKind::kTimewaitExit;
  if (id->state != (at_the_end ? IdState::kDisconnect : IdState::kConnect)) {
    return;
  }
  rdma_ucm_event_resp response = MakeEvent(*id, EventType::kEstablished, 0);
  switch (event.kind) {
    case cm::EventKind::kReqError:
    case cm::EventKind::kRepError:
    case cm::EventKind::kDisplaced:
      SetType(EventType::kUnreachable, response);
      response.status = static_cast<uint32_t>(-ETIMEDOUT);
      break;
    case cm::EventKind::kRepReceived:
      id->port->LaterPrepareMra(event.handle);
      SetType(EventType::kConnectResponse, response);
      SetConnectionParams(event, event.private_data, response);
      break;
    case cm::EventKind::kRtuReceived:
    case cm::EventKind::kUserEstablished:
      SetType(EventType::kEstablished, response);
      break;
    case cm::EventKind::kRejReceived:
      SetType(EventType::kRejected, response);
      response.status = event.reject_reason;
      SetPrivateData(event.private_data, response.param.conn);
      break;
    case cm::EventKind::kDreqError:
      response.status = static_cast<uint32_t>(-ETIMEDOUT);
      [[fallthrough]];
    case cm::EventKind::kDreqReceived:
    case cm::EventKind::kDrepReceived:
      id->state = IdState::kDisconnect;
      SetType(EventType::kDisconnected, response);
      break;
    case cm::EventKind::kTimewaitExit:
      SetType(EventType::kTimewaitExit, response);
      break;
    default:
      return;  // an MRA concerns the manager only
  }
  if (id->uid == 0) return;
  id->channel->Push({.owner = id,
                     .request = nullptr,
                     .multicast = nullptr,
                     .response = response});
}

//= Linux cma_sidr_rep_handler(): a SIDR_REP becomes an event for the program,
//= which depends on its status
void Service::OnDatagramEvent(const IdPtr& id, const cm::Event& event) {
  if (id->state != IdState::kConnect || id->uid == 0) return;
  rdma_ucm_event_resp response =
      MakeEvent(*id, EventType::kUnreachable, -ETIMEDOUT);
  if (event.kind == cm::EventKind::kSidrRepReceived) {
    rdma_ucm_ud_param& ud = response.param.ud;
    SetPrivateData(event.private_data, ud);
    response.status = event.sidr_status;
    const bool qkey_fits =
        event.qkey != 0 && (id->qkey == 0 || id->qkey == event.qkey);
    if (event.sidr_status == wire::kSidrSuccess && !qkey_fits) {
      SetType(EventType::kAddrError, response);
      response.status = static_cast<uint32_t>(-EINVAL);
    } else if (event.sidr_status == wire::kSidrSuccess) {
      id->qkey = event.qkey;
      SetType(EventType::kEstablished, response);
      ud.qp_num = event.remote_qpn.value;
      ud.qkey = event.qkey;
      FillAhAttributes(*id, id->path->remote, id->path->hop_limit, ud.ah_attr);
    }
  } else if (event.kind != cm::EventKind::kSidrReqError) {
    return;
  }
  id->channel->Push({.owner = id,
                     .request = nullptr,
                     .multicast = nullptr,
                     .response = response});
}

}  // namespace urnic::rdmacm
