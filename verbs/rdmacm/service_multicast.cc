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
                           const SocketAddress& group, uint32_t* multicast) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = FindOnDevice(channel, number, id);
  if (error != 0) return error;
  if (!id->is_datagram() || !group.is_multicast() ||
      (id->state != IdState::kAddrBound &&
       id->state != IdState::kAddrResolved)) {
    return EINVAL;
  }
  auto joined = std::make_shared<Multicast>();
  if (!multicasts_.Add(joined, &joined->number)) return ENOMEM;
  joined->owner = id;
  joined->uid = uid;
  id->multicasts.push_back(joined);
  *multicast = joined->number;
  if (id->qkey == 0) id->qkey = kUdpQkey;
  if (id->uid == 0) return 0;
  QueuedEvent event;
  event.owner = id;
  event.multicast = joined;
  event.response = MakeEvent(*id, EventType::kMulticastJoin, 0);
  event.response.uid = uid;
  event.response.id = joined->number;
  event.response.param.ud.qp_num = kMulticastQpn;
  event.response.param.ud.qkey = id->qkey;
  FillAhAttributes(*id, group.gid(), kMulticastHopLimit,
                   event.response.param.ud.ah_attr);
  id->channel->Push(std::move(event));
  return 0;
}

int Service::LeaveMulticast(EventChannel& channel, uint32_t multicast,
                            uint32_t* events) {
  std::lock_guard lock(mutex_);
  const std::shared_ptr<Multicast> left = multicasts_.Find(multicast);
  if (left == nullptr) return ENOENT;
  const IdPtr id = left->owner.lock();
  if (id->channel != &channel) return EINVAL;
  multicasts_.Remove(multicast);
  std::erase(id->multicasts, left);
  channel.Drop(*left);
  *events = left->events_reported;
  return 0;
}

}  // namespace urnic::rdmacm
