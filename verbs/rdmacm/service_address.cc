// Binding, address and route resolution, listening.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/net/addresses.h"
#include "verbs/rdmacm/service.h"

namespace urnic::rdmacm {

namespace {

bool SameFamily(const wire::Gid& gid, uint16_t family) {
  return gid.is_ipv4() == (family == AF_INET);
}

// Whether a link-local address with this scope selects this device.
bool InScope(const RnicInfo& info, uint32_t scope) {
  return info.interface_index == 0 || info.interface_index == scope;
}

uint32_t ScopeOf(const RnicInfo& info, uint32_t scope) {
  return info.interface_index != 0 ? info.interface_index : scope;
}

// The addresses for which rdma_cm uses this device.
std::vector<RnicAddress> ChosenAddresses(const CmPort& port) {
  std::vector<RnicAddress> addresses = port.rnic().Addresses();
  std::erase_if(addresses, [](const RnicAddress& a) { return !a.is_chosen; });
  return addresses;
}

}  // namespace

CmPort* Service::FindLocal(const SocketAddress& address) const {
  if (!address.is_ip()) return nullptr;
  const wire::Gid gid = address.gid();
  for (const auto& port : ports_) {
    if (address.is_link_local() &&
        !InScope(port->rnic().info(), address.scope())) {
      continue;
    }
    for (const RnicAddress& local : ChosenAddresses(*port)) {
      if (local.gid == gid && SameFamily(gid, address.family())) {
        return port.get();
      }
    }
  }
  return nullptr;
}

int Service::BindLocked(Id& id, const SocketAddress& address) {
  if (address.size() == 0) return EAFNOSUPPORT;
  if (id.state != IdState::kIdle) return EINVAL;
  if (address.is_link_local() && address.scope() == 0) return EINVAL;
  CmPort* port = nullptr;
  if (!address.is_any()) {
    port = FindLocal(address);
    if (port == nullptr) return address.is_ip() ? EADDRNOTAVAIL : ENODEV;
  }
  const bool family_only = id.family_only;
  id.source = address;
  // IPv6 wildcards accept IPv4 as well, as with net.ipv6.bindv6only = 0.
  if (!id.family_only_set) id.family_only = address.family() == AF_INET;
  const int error = port_spaces_.Bind(id);
  if (error != 0) {
    id.source = {};
    id.family_only = family_only;
    return error;
  }
  id.destination.set_family(address.family());
  id.port = port;
  id.state = IdState::kAddrBound;
  return 0;
}

int Service::Bind(EventChannel& channel, uint32_t number,
                  const SocketAddress& address) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = Find(channel, number, id);
  return error != 0 ? error : BindLocked(*id, address);
}

// ---------------------------------------------------------------- resolution

int Service::FindUnicastWay(const Id& id, Way& out) const {
  const SocketAddress& destination = out.destination;
  const wire::Gid remote = destination.gid();
  int best_bits = -1;
  for (const auto& port : ports_) {
    if (id.port != nullptr && id.port != port.get()) continue;
    const RnicInfo& info = port->rnic().info();
    if (destination.is_link_local() && !InScope(info, destination.scope())) {
      continue;
    }
    const auto route = port->rnic().RouteTo(remote);
    for (const RnicAddress& local : ChosenAddresses(*port)) {
      if (!SameFamily(local.gid, destination.family())) continue;
      // A bound id uses its own address only, wherever it leads.
      const bool bound = id.port != nullptr && !id.source.is_any();
      if (bound && !(local.gid == id.source.gid())) continue;
      int bits = local.prefix_bits;
      if (local.gid == remote) {
        bits = 128;
      } else if (!bound && !destination.is_multicast() &&
                 !net::SamePrefix(local.gid, remote, local.prefix_bits)) {
        if (!route.has_value() || !(route->source == local.gid)) continue;
        bits = route->prefix_bits;
      }
      if (bits <= best_bits) continue;
      best_bits = bits;
      out.port = port.get();
      out.source = SocketAddress::FromGid(local.gid, id.source.port(),
                                          ScopeOf(info, destination.scope()));
    }
  }
  return best_bits >= 0 ? 0 : ENETUNREACH;
}

int Service::FindWay(const Id& id, const SocketAddress& destination,
                     Way& out) const {
  out.destination = destination;
  if (!destination.is_any()) return FindUnicastWay(id, out);
  // Loopback: the first address of the family, or the bound one.
  for (const auto& port : ports_) {
    if (id.port != nullptr && id.port != port.get()) continue;
    for (const RnicAddress& local : ChosenAddresses(*port)) {
      if (!SameFamily(local.gid, destination.family()) ||
          local.gid.is_link_local()) {
        continue;
      }
      out.destination = SocketAddress::FromGid(
          id.source.is_any() ? local.gid : id.source.gid(), destination.port(),
          id.source.scope());
      return FindUnicastWay(id, out);
    }
  }
  return ENODEV;
}

// Under the mutex: everything that does not have to wait for an answer.
int Service::StartResolving(const IdPtr& id, const SocketAddress& source,
                            const SocketAddress& destination) {
  if (destination.is_link_local() && destination.scope() == 0) return EINVAL;
  const SocketAddress before = id->destination;
  // Set before the search for a port: ids with different peers may share one.
  id->destination = destination;
  const bool bind = id->state == IdState::kIdle;
  int error = 0;
  if (bind) {
    SocketAddress any;
    any.set_family(destination.family());
    any.set_scope(destination.scope());
    error = BindLocked(*id, source.family() != 0 ? source : any);
    id->destination = destination;
  }
  if (error == 0 && id->source.family() != destination.family()) error = EINVAL;
  if (error == 0 && id->state != IdState::kAddrBound) error = EINVAL;
  if (error == 0 && !destination.is_ip()) error = ENODEV;
  Way way;
  if (error == 0) error = FindWay(*id, destination, way);
  if (error == 0) {
    id->state = IdState::kAddrQuery;
    id->resolution = std::make_shared<Resolution>(*this, id, way);
    return 0;
  }
  id->destination = before;
  if (id->state == IdState::kAddrBound && bind) {
    id->destination = {};
    id->destination.set_family(id->source.family());
  }
  return error;
}

int Service::ResolveAddress(EventChannel& channel, uint32_t number,
                            const SocketAddress& source,
                            const SocketAddress& destination,
                            uint32_t timeout_ms) {
  IdPtr id;
  std::shared_ptr<Resolution> resolution;
  {
    std::lock_guard lock(mutex_);
    int error = Find(channel, number, id);
    if (error == 0) error = StartResolving(id, source, destination);
    if (error != 0) return error;
    resolution = id->resolution;
  }
  int error = resolution->way().port->Open();
  if (error == 0) {
    // A group is always reachable.
    const std::optional<net::PathStatus> answer =
        resolution->way().destination.is_multicast()
            ? net::PathStatus::kFound
            : resolution->Ask(Duration::Milliseconds(timeout_ms));
    if (!answer.has_value()) return 0;
    error = ErrnoOf(*answer);
  }
  std::lock_guard lock(mutex_);
  // Another thread has destroyed the id in the meantime.
  if (id->resolution != resolution) return error;
  if (error == 0) {
    Resolved(*resolution);
  } else {
    id->state = IdState::kAddrBound;
    id->resolution.reset();
  }
  return error;
}

void Service::Resolved(const Resolution& resolution) {
  const IdPtr id = resolution.id();
  const Way& way = resolution.way();
  // The id keeps the port that it holds.
  const uint16_t port = id->source.port();
  id->source = way.source;
  id->source.set_port(port);
  id->destination = way.destination;
  id->port = way.port;
  id->path_mtu = resolution.path_mtu();
  id->state = IdState::kAddrResolved;
  id->resolution.reset();
  PushEvent(id, EventType::kAddrResolved, 0);
}

void Service::OnAnswer(Resolution& resolution, net::PathStatus status) {
  if (abandoned_.load()) return;
  std::lock_guard lock(mutex_);
  const IdPtr id = resolution.id();
  const std::shared_ptr<Resolution> same = id->resolution;
  if (same.get() != &resolution) return;  // destroyed
  const int error = ErrnoOf(status);
  if (error == 0) return Resolved(resolution);
  id->state = IdState::kAddrBound;
  id->resolution.reset();
  if (id->uid == 0) return;
  QueueFromPort(*resolution.way().port, id,
                MakeEvent(*id, EventType::kAddrError, -error));
}

int Service::ResolveRoute(EventChannel& channel, uint32_t number,
                          uint32_t timeout_ms) {
  std::lock_guard lock(mutex_);
  IdPtr id;
  const int error = FindOnDevice(channel, number, id);
  if (error != 0) return error;
  if (timeout_ms == 0 || id->state != IdState::kAddrResolved) return EINVAL;
  // The resolved address is the route.
  SetRoute(*id);
  id->state = IdState::kRouteResolved;
  PushEvent(id, EventType::kRouteResolved, 0);
  return 0;
}

// ----------------------------------------------------------------- listening

//= Linux cma_listen_on_all(): an id at all addresses listens on all devices, or
//= on none if one of them fails
int Service::ListenOn(const std::vector<CmPort*>& ports, const Listening& place,
                      std::vector<CmPort*>& heard_on) {
  int skipped = ENODEV;
  for (CmPort* port : ports) {
    int error = port->Open();
    const bool is_open = error == 0;
    if (is_open) error = port->Call([&] { return port->AddListener(place); });
    if (error == 0) {
      heard_on.push_back(port);
    } else if (is_open && error != EOPNOTSUPP) {
      return error;
    } else {
      skipped = error;
    }
  }
  return heard_on.empty() ? skipped : 0;
}

int Service::Listen(EventChannel& channel, uint32_t number, uint32_t backlog) {
  IdPtr id;
  std::vector<CmPort*> targets;
  Listening place;
  {
    std::lock_guard lock(mutex_);
    int error = Find(channel, number, id);
    if (error == 0 && id->state == IdState::kIdle) {
      SocketAddress any;
      any.set_family(AF_INET);
      error = BindLocked(*id, any);
    }
    if (error == 0 && id->state != IdState::kAddrBound) error = EINVAL;
    if (error == 0 && !id->source.is_ip()) error = ENODEV;
    if (error == 0 && id->reuse_address) error = port_spaces_.CheckListen(*id);
    if (error != 0) return error;
    id->state = IdState::kListen;
    id->backlog_left =
        backlog > 0 && backlog < kMaxBacklog ? backlog : kMaxBacklog;
    place = {*id->bound_space, id->source};
    for (const auto& port : ports_) {
      if (id->port == nullptr || id->port == port.get()) {
        targets.push_back(port.get());
      }
    }
  }
  std::vector<CmPort*> heard_on;
  const int error = ListenOn(targets, place, heard_on);
  std::vector<Teardown> work;
  {
    std::lock_guard lock(mutex_);
    // Another thread has destroyed the id in the meantime.
    const bool is_destroyed = id->state == IdState::kDestroying;
    if (is_destroyed || error != 0) {
      Teardown& teardown = work.emplace_back();
      teardown.place = place;
      teardown.heard_on = std::move(heard_on);
      if (!is_destroyed) id->state = IdState::kAddrBound;
    } else {
      id->heard_on = std::move(heard_on);
    }
  }
  Finish(work);
  return error;
}

}  // namespace urnic::rdmacm
