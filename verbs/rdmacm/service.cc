#include "verbs/rdmacm/service.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/psn.h"
#include "verbs/rdmacm/id_facts.h"

namespace urnic::rdmacm {

namespace {

// The purposes of keys (NumberKey::For()).
enum Purpose : uint64_t { kPorts, kPsns, kFirstRnic };

// Other threads hold the mutex only briefly. If it is locked for 10 ms, this
// thread holds it itself.
constexpr int kEndTries = 200;
constexpr useconds_t kEndTryUs = 50;

}  // namespace

Service::Service(const std::vector<Rnic*>& rnics, const NumberKey& key,
                 Lessor* lessor)
    : port_spaces_(lessor != nullptr ? lessor : &own_ports_, key.For(kPorts)),
      psn_key_(key.For(kPsns)) {
  PortSpaces::OfferSystemRange(own_ports_);
  for (Rnic* rnic : rnics) {
    ports_.push_back(
        MakeCmPort(*rnic, *this, key.For(kFirstRnic + ports_.size()), lessor));
  }
}

Service::~Service() { URNIC_CHECK(channels_.empty()); }

// ------------------------------------------------------------------ channels

EventChannel* Service::OpenChannel(EventChannel::Readiness& readiness) {
  auto channel = std::make_unique<EventChannel>(readiness);
  EventChannel* const out = channel.get();
  std::lock_guard lock(mutex_);
  channels_.emplace(out, std::move(channel));
  return out;
}

void Service::CloseChannel(EventChannel* channel) {
  std::vector<Teardown> work;
  {
    std::lock_guard lock(mutex_);
    while (!channel->ids().empty()) {
      const IdPtr id = *channel->ids().begin();
      Forget(id, work);
    }
  }
  Finish(work);
  std::lock_guard lock(mutex_);
  channels_.erase(channel);
}

void Service::BeginEnd() {
  for (int i = 0; i < kEndTries; ++i) {
    if (mutex_.try_lock()) {
      mutex_.unlock();
      return;
    }
    usleep(kEndTryUs);
  }
  abandoned_.store(true);
}

void Service::TakeLeave() {
  if (abandoned_.load()) return;
  std::vector<std::pair<CmPort*, CmHandle>> connections;
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    for (const auto& [serial, id] : by_serial_) {
      if (id->handle.valid()) connections.emplace_back(id->port, id->handle);
    }
  }
  for (const auto& [port, handle] : connections) {
    const auto end = [port = port, handle = handle] {
      port->Destroy(handle);
      return 0;
    };
    if (!port->TryCall(end)) return;
  }
  AwaitFarewells();
}

void Service::AwaitFarewells() {
  std::vector<CmPort*> waiting;
  for (const auto& port : ports_) {
    if (port->is_open()) waiting.push_back(port.get());
  }
  if (waiting.empty()) return;
  constexpr auto kRepeats =
      static_cast<uint8_t>(kLeaveTime.ns() / kLeaveInterval.ns() - 1);
  const Time end = waiting.front()->rnic().Now() + kLeaveTime;
  bool is_first = true;
  do {
    std::erase_if(waiting, [&](CmPort* port) {
      uint32_t left = 0;
      const auto look = [&] {
        if (is_first) port->HurryFarewells(kLeaveInterval, kRepeats);
        left = port->unanswered_farewells();
        return 0;
      };
      // A thread that holds the token this long may be the one that has called
      // exit().
      return !port->TryCall(look) || left == 0;
    });
    is_first = false;
    for (CmPort* port : waiting) port->rnic().Wait();
  } while (!waiting.empty() && waiting.front()->rnic().Now() < end);
}

bool Service::SendImages(std::string_view rnic,
                         const std::function<bool(std::string_view)>& reply) {
  for (const auto& port : ports_) {
    if (port->rnic().info().name != rnic || !port->is_open()) continue;
    if (!port->SendImages(reply)) return false;
  }
  return true;
}

std::optional<uint64_t> Service::DescribeIds(std::string_view rnic,
                                             uint64_t serial,
                                             std::string& out) {
  constexpr size_t kStep = 32;
  const auto is_it = [&](const CmPort* port) {
    return port->rnic().info().name == rnic;
  };
  if (abandoned_.load()) return std::nullopt;
  std::lock_guard lock(mutex_);
  auto at = by_serial_.lower_bound(serial);
  for (size_t left = kStep; at != by_serial_.end() && left != 0; ++at, --left) {
    const Id& id = *at->second;
    if (id.port != nullptr) {
      if (is_it(id.port)) DescribeId(id, std::string(rnic) + "/1", out);
    } else if (std::ranges::any_of(id.heard_on, is_it)) {
      DescribeId(id, std::string(rnic) + "/-", out);
    } else if (id.heard_on.empty()) {
      DescribeId(id, "-", out);
    }
  }
  if (at == by_serial_.end()) return std::nullopt;
  return at->first;
}

uint32_t Service::connections() {
  uint32_t count = 0;
  for (const auto& port : ports_) {
    if (!port->is_open()) continue;
    port->Call([&] {
      count += port->connections();
      return 0;
    });
  }
  return count;
}

// ----------------------------------------------------------------------- ids

int Service::Find(EventChannel& channel, uint32_t number, IdPtr& out) const {
  out = ids_.Find(number);
  if (out == nullptr) return ENOENT;
  return out->channel == &channel ? 0 : EINVAL;
}

int Service::FindOnDevice(EventChannel& channel, uint32_t number,
                          IdPtr& out) const {
  const int error = Find(channel, number, out);
  if (error != 0) return error;
  return out->port != nullptr ? 0 : EINVAL;
}

Service::IdPtr Service::FindSerial(uint64_t serial) const {
  const auto it = by_serial_.find(serial);
  return it == by_serial_.end() ? nullptr : it->second;
}

Service::IdPtr Service::MakeId(EventChannel& channel) {
  auto id = std::make_shared<Id>();
  id->serial = next_serial_++;
  id->channel = &channel;
  id->starting_psn =
      Psn(static_cast<uint32_t>(SipHash(psn_key_, id->serial))).value();
  by_serial_.emplace(id->serial, id);
  return id;
}

int Service::CreateId(EventChannel& channel, uint64_t uid, uint16_t port_space,
                      uint8_t qp_type, uint32_t* number) {
  std::lock_guard lock(mutex_);
  const auto space = static_cast<PortSpace>(port_space);
  switch (space) {
    case PortSpace::kTcp:
      qp_type = kQpTypeRc;
      break;
    case PortSpace::kUdp:
      qp_type = kQpTypeUd;
      break;
    case PortSpace::kIb:
      break;
    default:
      return EINVAL;
  }
  const IdPtr id = MakeId(channel);
  if (!ids_.Add(id, &id->number)) {
    by_serial_.erase(id->serial);
    return ENOMEM;
  }
  channel.ids().insert(id);
  id->uid = uid;
  id->port_space = space;
  id->qp_type = qp_type;
  *number = id->number;
  return 0;
}

void Service::ForgetOne(const IdPtr& id, std::vector<Teardown>& work) {
  Teardown teardown;
  teardown.port = id->port;
  teardown.handle = std::exchange(id->handle, {});
  if (id->state == IdState::kListen) {
    teardown.place = {*id->bound_space, id->source};
    teardown.heard_on = std::move(id->heard_on);
  }
  teardown.resolution = std::move(id->resolution);
  for (const auto& multicast : id->multicasts) {
    multicasts_.Remove(multicast->number);
  }
  id->multicasts.clear();
  port_spaces_.Release(*id);
  id->state = IdState::kDestroying;
  if (id->number != Id::kNoNumber) ids_.Remove(id->number);
  id->channel->ids().erase(id);
  by_serial_.erase(id->serial);
  work.push_back(std::move(teardown));
}

void Service::Forget(const IdPtr& id, std::vector<Teardown>& work) {
  ForgetOne(id, work);
  for (const QueuedEvent& event : id->channel->TakeOf(*id)) {
    if (event.request != nullptr) ForgetOne(event.request, work);
  }
  for (const QueuedEvent& event : id->parked) ForgetOne(event.request, work);
  id->parked.clear();
}

void Service::Finish(const std::vector<Teardown>& work) {
  for (const Teardown& teardown : work) {
    if (teardown.resolution != nullptr) teardown.resolution->Cancel();
    for (CmPort* port : teardown.heard_on) {
      port->Call([&] {
        port->RemoveListener(teardown.place);
        return 0;
      });
    }
    if (!teardown.handle.valid()) continue;
    teardown.port->Call([&] {
      teardown.port->Destroy(teardown.handle);
      return 0;
    });
  }
}

int Service::DestroyId(EventChannel& channel, uint32_t number,
                       uint32_t* events) {
  std::vector<Teardown> work;
  IdPtr id;
  {
    std::lock_guard lock(mutex_);
    const int error = Find(channel, number, id);
    if (error != 0) return error;
    Forget(id, work);
    // No event of the id is or can be queued now, so the count is final.
    *events = id->events_reported;
  }
  Finish(work);
  return 0;
}

int Service::MigrateId(EventChannel& from, EventChannel& to, uint32_t number,
                       uint32_t* events) {
  std::lock_guard lock(mutex_);
  // Another thread has closed it in the meantime.
  if (!channels_.contains(&from)) return ENOENT;
  IdPtr id;
  const int error = Find(from, number, id);
  if (error != 0) return error;
  if (&from != &to) {
    from.ids().erase(id);
    to.ids().insert(id);
    id->channel = &to;
    for (QueuedEvent& event : from.TakeOf(*id)) {
      if (event.request != nullptr) event.request->channel = &to;
      to.Push(std::move(event));
    }
    for (QueuedEvent& event : id->parked) event.request->channel = &to;
  }
  *events = id->events_reported;
  return 0;
}

// -------------------------------------------------------------------- events

rdma_ucm_event_resp Service::MakeEvent(const Id& id, EventType type,
                                       int status) {
  rdma_ucm_event_resp response = {};
  response.uid = id.uid;
  response.id = id.number;
  response.event = static_cast<uint32_t>(type);
  response.status = static_cast<uint32_t>(status);
  return response;
}

rdma_ucm_event_resp Service::Complete(const rdma_ucm_event_resp& event,
                                      const Id& id) {
  rdma_ucm_event_resp response = event;
  response.uid = id.uid;
  response.id = id.number;
  return response;
}

void Service::PushEvent(const IdPtr& id, EventType type, int status) {
  if (id->uid == 0) return;
  id->channel->Push({.owner = id,
                     .request = nullptr,
                     .multicast = nullptr,
                     .response = MakeEvent(*id, type, status)});
}

void Service::Unpark(Id& listener) {
  ++listener.backlog_left;
  if (listener.parked.empty()) return;
  --listener.backlog_left;
  QueuedEvent event = std::move(listener.parked.front());
  listener.parked.pop_front();
  listener.channel->Push(std::move(event));
}

int Service::GetEvent(
    EventChannel& channel,
    const std::function<bool(const rdma_ucm_event_resp&)>& deliver) {
  std::lock_guard lock(mutex_);
  QueuedEvent* const event = channel.Front();
  if (event == nullptr) {
    channel.Refresh();
    return EAGAIN;
  }
  const IdPtr request = event->request;
  if (request != nullptr) {
    if (!ids_.Add(request, &request->number)) {
      channel.Refresh();
      return ENOMEM;
    }
    event->response.id = request->number;
  }
  if (!deliver(event->response)) {
    if (request != nullptr) {
      ids_.Remove(request->number);
      request->number = Id::kNoNumber;
    }
    channel.Refresh();
    return EFAULT;
  }
  if (request != nullptr) {
    request->listener = nullptr;
    channel.ids().insert(request);
  }
  const IdPtr owner = event->owner;
  ++owner->events_reported;
  if (event->multicast != nullptr) ++event->multicast->events_reported;
  channel.Pop();
  if (request != nullptr) Unpark(*owner);
  return 0;
}

// ------------------------------------------------------------------- options

int Service::SetOption(EventChannel& channel, uint32_t number, uint32_t level,
                       uint32_t option, std::span<const uint8_t> value) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = Find(channel, number, id);
  if (error != 0) return error;
  if (level == RDMA_OPTION_ID) return SetIdOption(*id, option, value);
  if (level != RDMA_OPTION_IB || option != RDMA_OPTION_IB_PATH) return ENOSYS;
  return id->port != nullptr ? SetPath(id, value) : EINVAL;
}

int Service::SetIdOption(Id& id, uint32_t option,
                         std::span<const uint8_t> value) {
  const bool is_byte =
      option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (option > RDMA_OPTION_ID_ACK_TIMEOUT) return ENOSYS;
  int number = 0;
  if (value.size() != (is_byte ? 1 : sizeof(number))) return EINVAL;
  std::memcpy(&number, value.data(), value.size());
  const auto byte = static_cast<uint8_t>(number);
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      id.tos = byte;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      // As in Linux: it can be set unless the id listens, and cleared only
      // while it is idle.
      if (id.state != IdState::kIdle &&
          (number == 0 || id.state == IdState::kListen)) {
        return EINVAL;
      }
      id.reuse_address = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (id.state != IdState::kIdle && id.state != IdState::kAddrBound) {
        return EINVAL;
      }
      id.family_only = number != 0;
      id.family_only_set = true;
      return 0;
    default:
      if (id.qp_type != kQpTypeRc && id.qp_type != kQpTypeXrcInitiator) {
        return EINVAL;
      }
      id.ack_timeout = byte;
      return 0;
  }
}

}  // namespace urnic::rdmacm
