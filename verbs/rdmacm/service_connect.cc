// Connections and datagram resolutions: the program's commands, and the
// connection manager's events.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbs/rdmacm/service.h"

namespace urnic::rdmacm {

namespace {

constexpr uint8_t kRejectConsumerDefined = 28;
constexpr uint8_t kRejectVendorOption = 35;

//= Linux cma_match_private_data(): a listener gets the calls to its own address
//= or, if it has none, to any address
bool Hears(const Id& listener, const SocketAddress& called) {
  if (listener.source.is_any() && !listener.family_only) return true;
  if (listener.source.family() != called.family()) return false;
  return listener.source.is_any() || listener.source.SameAddress(called);
}

}  // namespace

// ------------------------------------------------------------------ commands

template <typename F>
int Service::CallFor(const IdPtr& id, F&& f) {
  CmPort* port = nullptr;
  CmHandle handle;
  {
    std::lock_guard lock(mutex_);
    port = id->port;
    handle = id->handle;
  }
  if (!handle.valid()) return EINVAL;
  return port->Call([&] { return f(*port, handle); });
}

int Service::Connect(EventChannel& channel, uint32_t number,
                     const rdma_ucm_conn_param& params,
                     const rdma_ucm_ece& ece) {
  IdPtr id;
  ConnectRequest request;
  {
    std::lock_guard lock(mutex_);
    int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
    if (id->state != IdState::kRouteResolved) return EINVAL;
    id->state = IdState::kConnect;
    id->qpn = params.qp_num;
    id->srq = params.srq != 0;
    request.space = id->port_space;
    request.qp_type = id->qp_type;
    request.source = id->source;
    request.destination = id->destination;
    request.path = *id->path;
    request.packet_rate = id->packet_rate;
    request.mtu_code = id->mtu_code;
    request.ack_timeout = id->ack_timeout;
    request.starting_psn = id->starting_psn;
  }
  request.params = params;
  request.ece = ece;
  CmPort& port = *id->port;
  const int error = port.Call([&] {
    CmHandle handle;
    const int result = port.Connect(request, id->serial, handle);
    if (result != 0) return result;
    {
      std::lock_guard lock(mutex_);
      if (id->state != IdState::kDestroying) {
        id->handle = handle;
        return 0;
      }
    }
    port.Destroy(handle);
    return 0;
  });
  if (error == 0) return 0;
  std::lock_guard lock(mutex_);
  if (id->state == IdState::kConnect) id->state = IdState::kRouteResolved;
  return error;
}

int Service::Accept(EventChannel& channel, uint32_t number, uint64_t uid,
                    const rdma_ucm_conn_param* params,
                    const rdma_ucm_ece& ece) {
  IdPtr id;
  AcceptRequest request;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
    if (id->state != IdState::kConnect) return EINVAL;
    if (params != nullptr) {
      id->qpn = params->qp_num;
      id->srq = params->srq != 0;
      request.params = *params;
    }
    if (id->is_datagram() && id->qkey == 0) id->qkey = kUdpQkey;
    request.qpn = id->qpn;
    request.qkey = id->qkey;
    request.starting_psn = id->starting_psn;
    request.ece = ece;
  }
  return CallFor(id, [&](CmPort& port, CmHandle handle) {
    // Without parameters, a connection is confirmed. Datagrams are not.
    const int error = params == nullptr && !id->is_datagram()
                          ? port.Ready(handle)
                          : port.Accept(handle, request);
    if (error != 0) {
      port.Reject(handle, kRejectConsumerDefined, {});
    } else if (params != nullptr) {
      // Set before the peer can answer: from now on the program knows the id.
      std::lock_guard lock(mutex_);
      id->uid = uid;
    }
    return error;
  });
}

int Service::Reject(EventChannel& channel, uint32_t number, uint8_t reason,
                    std::span<const uint8_t> private_data) {
  if (reason == 0) reason = kRejectConsumerDefined;
  if (reason != kRejectConsumerDefined && reason != kRejectVendorOption) {
    return EINVAL;
  }
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
  }
  return CallFor(id, [&](CmPort& port, CmHandle handle) {
    return port.Reject(handle, reason, private_data);
  });
}

int Service::Disconnect(EventChannel& channel, uint32_t number) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
  }
  return CallFor(id, [](CmPort& port, CmHandle handle) {
    return port.Disconnect(handle);
  });
}

uint32_t Service::DisconnectFrom(std::string_view rnic,
                                 const wire::Gid& local) {
  std::vector<IdPtr> ids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [serial, id] : by_serial_) {
      if (id->port != nullptr && id->port->rnic().info().name == rnic &&
          id->state == IdState::kConnect && id->source.is_ip() &&
          id->source.gid() == local) {
        ids.push_back(id);
      }
    }
  }
  uint32_t count = 0;
  for (const IdPtr& id : ids) {
    const int error = CallFor(id, [](CmPort& port, CmHandle handle) {
      return port.Disconnect(handle);
    });
    count += error == 0 ? 1 : 0;
  }
  return count;
}

//= Linux cma_send_device_removal_put(): every id on the device gets the event
void Service::OnDeviceFailed(std::string_view rnic) {
  if (abandoned_.load()) return;
  std::lock_guard lock(mutex_);
  for (const auto& [serial, id] : by_serial_) {
    if (id->port == nullptr || id->port->rnic().info().name != rnic) continue;
    PushEvent(id, EventType::kDeviceRemoval, /*status=*/0);
  }
}

int Service::Notify(EventChannel& channel, uint32_t number, uint32_t event) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
  }
  return CallFor(id, [&](CmPort& port, CmHandle handle) {
    return port.Notify(handle, event);
  });
}

// -------------------------------------------------------------------- events

uint64_t Service::OnRequest(CmPort& port, const CmRequest& request) {
  if (abandoned_.load()) return 0;
  std::lock_guard lock(mutex_);
  Id* const listener = FindListener(port, request);
  if (listener == nullptr) return 0;
  const IdPtr id = MakeRequestId(port, request, *listener);
  QueuedEvent queued;
  queued.owner = ids_.Find(listener->number);
  queued.request = id;
  queued.response = Complete(request.response, *listener);
  queued.response.event = static_cast<uint32_t>(EventType::kConnectRequest);
  if (listener->backlog_left == 0) {
    listener->parked.push_back(std::move(queued));
  } else {
    --listener->backlog_left;
    listener->channel->Push(std::move(queued));
  }
  return id->serial;
}

Id* Service::FindListener(CmPort& port, const CmRequest& request) const {
  const SocketAddress& called = request.called;
  Id* const listener = port_spaces_.FindListener(
      request.space, called.port(), [&](const Id& id) {
        return (id.port == nullptr || id.port == &port) && Hears(id, called);
      });
  if (listener == nullptr) return nullptr;
  const bool fits =
      listener->qp_type == 0 || listener->qp_type == request.qp_type;
  // A request to an address that is not ours is refused: no queue pair could
  // answer from it.
  const auto addresses = port.rnic().Addresses();
  const bool is_ours =
      std::any_of(addresses.begin(), addresses.end(),
                  [&](const RnicAddress& a) { return a.gid == called.gid(); });
  return fits && is_ours ? listener : nullptr;
}

Service::IdPtr Service::MakeRequestId(CmPort& port, const CmRequest& request,
                                      Id& listener) {
  const IdPtr id = MakeId(*listener.channel);
  id->port_space = listener.port_space;
  id->qp_type = request.qp_type;
  id->tos = listener.tos;
  id->ack_timeout = listener.ack_timeout;
  id->source = request.called;
  id->destination = request.caller;
  id->port = &port;
  id->handle = request.handle;
  id->listener = &listener;
  id->roce_v1 = request.roce_v1;
  id->path = request.path;
  id->packet_rate = request.packet_rate;
  id->mtu_code = request.mtu_code;
  id->state = IdState::kConnect;
  return id;
}

// Drops a request. Otherwise each request that its sender withdraws would stay
// here, and occupy its place in the manager, until the program reads it.
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
}

//= Linux cma_ib_handler(), cma_iw_handler(): an event is for an id that
//= connects or is connected
bool Service::OnEvent(CmPort& port, const CmEvent& event) {
  if (abandoned_.load()) return true;
  std::lock_guard lock(mutex_);
  const IdPtr id = FindSerial(event.user);
  if (id == nullptr) return true;
  if (id->listener != nullptr) {
    // The event ends a request that the program has not seen: the peer has
    // withdrawn it, or another one has displaced it.
    DropRequest(id);
    return false;
  }
  const bool at_the_end = event.type() == EventType::kTimewaitExit;
  if (id->state != (at_the_end ? IdState::kDisconnect : IdState::kConnect)) {
    return true;
  }
  if (event.type() == EventType::kDisconnected) {
    id->state = IdState::kDisconnect;
  }
  if (id->uid == 0) return true;
  rdma_ucm_event_resp response = Complete(event.response, *id);
  if (id->is_datagram() && event.type() == EventType::kEstablished) {
    CompleteDatagrams(*id, response);
  }
  QueueFromPort(port, id, response);
  return true;
}

//= Linux cma_sidr_rep_handler(): the Q_Key that the peer names must be the id's
void Service::CompleteDatagrams(Id& id, rdma_ucm_event_resp& event) const {
  rdma_ucm_ud_param& ud = event.param.ud;
  if (ud.qkey == 0 || (id.qkey != 0 && id.qkey != ud.qkey)) {
    event.event = static_cast<uint32_t>(EventType::kAddrError);
    event.status = static_cast<uint32_t>(-EINVAL);
    return;
  }
  id.qkey = ud.qkey;
  FillAhAttributes(id, id.path->remote, id.path->hop_limit, ud.ah_attr);
}

}  // namespace urnic::rdmacm
