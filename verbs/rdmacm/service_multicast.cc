// Multicast groups of datagram ids.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbs/rdmacm/service.h"

namespace urnic::rdmacm {

namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint8_t kMulticastHopLimit = 64;

}  // namespace

int Service::JoinMulticast(EventChannel& channel, uint32_t number, uint64_t uid,
                           const SocketAddress& group, bool send_only,
                           uint32_t* multicast) {
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = FindOnDevice(channel, number, id);
    if (error != 0) return error;
    if (!id->is_datagram() || !group.is_multicast() ||
        (id->state != IdState::kAddrBound &&
         id->state != IdState::kAddrResolved)) {
      return EINVAL;
    }
  }
  auto joined = std::make_shared<Multicast>();
  joined->owner = id;
  joined->uid = uid;
  joined->address = group;
  joined->group = group.gid();
  joined->joined = !send_only;
  int error = id->port->Open();
  if (error == 0 && joined->joined) {
    error = id->port->rnic().JoinMulticast(joined->group);
  }
  if (error != 0) return error;
  {
    std::lock_guard lock(mutex_);
    if (id->state == IdState::kDestroying) {
      error = ENOENT;
    } else if (!multicasts_.Add(joined, &joined->number)) {
      error = ENOMEM;
    } else {
      id->multicasts.push_back(joined);
      if (id->qkey == 0) id->qkey = kUdpQkey;
      QueuedEvent event;
      event.owner = id;
      event.multicast = joined;
      event.response = MakeEvent(*id, EventType::kMulticastJoin, 0);
      event.response.uid = joined->uid;
      event.response.id = joined->number;
      event.response.param.ud.qp_num = kMulticastQpn;
      event.response.param.ud.qkey = id->qkey;
      FillAhAttributes(*id, joined->group, kMulticastHopLimit,
                       event.response.param.ud.ah_attr);
      if (id->uid != 0) id->channel->Push(std::move(event));
      *multicast = joined->number;
    }
  }
  if (error != 0 && joined->joined) {
    id->port->rnic().LeaveMulticast(joined->group);
  }
  return error;
}

int Service::LeaveMulticast(EventChannel& channel, uint32_t multicast,
                            uint32_t* events) {
  std::shared_ptr<Multicast> left;
  CmPort* port = nullptr;
  {
    std::lock_guard lock(mutex_);
    left = multicasts_.Find(multicast);
    if (left == nullptr) return ENOENT;
    const IdPtr id = left->owner.lock();
    if (id->channel != &channel) return EINVAL;
    multicasts_.Remove(multicast);
    std::erase(id->multicasts, left);
    channel.Drop(*left);
    *events = left->events_reported;
    port = id->port;
  }
  if (left->joined) port->rnic().LeaveMulticast(left->group);
  return 0;
}

}  // namespace urnic::rdmacm
