#include "verbs/rdmacm/port_spaces.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

namespace urnic::rdmacm {

namespace {

constexpr uint64_t kMaxStep = 4;
constexpr uint64_t kIpServiceMask = 0xffffffffffff0000;

// The space of an AF_IB service id, from the bits that its mask selects.
std::optional<PortSpace> SpaceOfServiceId(const Id& id) {
  const SockaddrIb& ib = id.source.ib();
  const uint64_t mask = ib.service_id_mask.value() & kIpServiceMask;
  const uint64_t fixed = ib.service_id.value() & mask;
  const auto is = [&](PortSpace space) {
    return fixed == (ServiceId(space, 0) & mask) &&
           (id.port_space == PortSpace::kIb || id.port_space == space);
  };
  for (const PortSpace space :
       {PortSpace::kIb, PortSpace::kTcp, PortSpace::kUdp}) {
    if (is(space)) return space;
  }
  return std::nullopt;
}

NumberSpace PortsOf(PortSpace space) {
  switch (space) {
    case PortSpace::kTcp:
      return NumberSpace::kTcpPort;
    case PortSpace::kUdp:
      return NumberSpace::kUdpPort;
    default:
      return NumberSpace::kIbPort;
  }
}

}  // namespace

std::pair<uint16_t, uint16_t> PortSpaces::SystemRange() {
  unsigned first = 32768;
  unsigned last = 60999;
  if (FILE* file = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "re")) {
    unsigned a = 0;
    unsigned b = 0;
    if (std::fscanf(file, "%u %u", &a, &b) == 2 && a > 0 && a <= b &&
        b <= UINT16_MAX) {
      first = a;
      last = b;
    }
    std::fclose(file);
  }
  return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

void PortSpaces::OfferSystemRange(LocalLessor& lessor) {
  const auto [first, last] = SystemRange();
  for (const PortSpace space :
       {PortSpace::kTcp, PortSpace::kUdp, PortSpace::kIb}) {
    lessor.Offer(PortsOf(space), {first, last - first + 1u});
  }
}

PortSpaces::~PortSpaces() {
  for (const auto& [space, ranges] : ephemeral_) {
    for (const NumberRange& range : ranges) {
      lessor_->GiveBack(PortsOf(space), range);
    }
  }
}

bool PortSpaces::IsLeased(PortSpace space, uint16_t port) const {
  const auto it = ephemeral_.find(space);
  return it != ephemeral_.end() &&
         std::any_of(it->second.begin(), it->second.end(),
                     [port](const NumberRange& r) { return r.Has(port); });
}

int PortSpaces::Bind(Id& id) {
  PortSpace space = id.port_space;
  if (id.source.family() == kAfIb) {
    const auto named = SpaceOfServiceId(id);
    if (!named.has_value()) return EPROTONOSUPPORT;
    space = *named;
    SockaddrIb& ib = id.source.ib();
    ib.service_id = wire::Be<uint64_t>(ServiceId(space, id.source.port()));
    ib.service_id_mask =
        wire::Be<uint64_t>(kIpServiceMask | ib.service_id_mask.value());
  }
  const uint16_t port = id.source.port();
  if (port == 0) return BindAny(id, space);
  const auto it = holders_.find({space, port});
  if (it != holders_.end()) {
    const int error = CheckPort(it->second, id, id.reuse_address);
    if (error != 0) return error;
  } else if (!IsLeased(space, port)) {
    if (!lessor_->LeaseOne(PortsOf(space), port)) return EADDRINUSE;
    singles_.insert({space, port});
  }
  Hold(id, space, port);
  return 0;
}

std::optional<uint16_t> PortSpaces::FindFree(
    const Id& id, PortSpace space, const std::vector<NumberRange>& ranges) {
  uint64_t count = 0;
  for (const NumberRange& range : ranges) count += range.count;
  if (count == 0) return std::nullopt;
  // Ports grow by small random steps. So they are not predictable, and each is
  // reused as late as possible, because peers remember them for a while.
  const uint64_t random = SipHash(key_, drawn_++);
  last_place_ += drawn_ == 1 ? random % count : 1 + random % kMaxStep;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t nth = (last_place_ + i) % count;
    auto range = ranges.begin();
    for (; nth >= range->count; ++range) nth -= range->count;
    const auto port = static_cast<uint16_t>(range->first + nth);
    const auto it = holders_.find({space, port});
    if (it != holders_.end() && !IsUnique(it->second, id)) continue;
    last_place_ += i;
    return port;
  }
  return std::nullopt;
}

int PortSpaces::BindAny(Id& id, PortSpace space) {
  std::vector<NumberRange>& ranges = ephemeral_[space];
  for (;;) {
    if (const auto port = FindFree(id, space, ranges); port.has_value()) {
      Hold(id, space, *port);
      return 0;
    }
    const NumberRange more = lessor_->Lease(PortsOf(space));
    if (more.count == 0) return EADDRNOTAVAIL;
    ranges.push_back(more);
  }
}

void PortSpaces::Hold(Id& id, PortSpace space, uint16_t port) {
  id.source.set_port(port);
  id.bound_space = space;
  holders_[{space, port}].push_back(&id);
}

void PortSpaces::Release(Id& id) {
  if (!id.bound_space.has_value()) return;
  const auto it = holders_.find({*id.bound_space, id.source.port()});
  std::erase(it->second, &id);
  if (it->second.empty()) {
    const Key key = it->first;
    holders_.erase(it);
    if (singles_.erase(key) > 0) {
      lessor_->GiveBack(PortsOf(key.first), {key.second, 1});
    }
  }
  id.bound_space.reset();
}

int PortSpaces::CheckListen(const Id& id) const {
  return CheckPort(holders_.at({*id.bound_space, id.source.port()}), id, false);
}

int PortSpaces::CheckPort(const std::vector<Id*>& holders, const Id& id,
                          bool reuse_address) {
  for (const Id* holder : holders) {
    if (holder == &id) continue;
    if (holder->state != IdState::kListen && reuse_address &&
        holder->reuse_address) {
      continue;
    }
    if (id.family_only && holder->family_only &&
        id.source.family() != holder->source.family()) {
      continue;
    }
    if (id.source.is_any() || holder->source.is_any()) return EADDRNOTAVAIL;
    if (id.source.SameAddress(holder->source)) return EADDRINUSE;
  }
  return 0;
}

bool PortSpaces::IsUnique(const std::vector<Id*>& holders, const Id& id) {
  return std::all_of(holders.begin(), holders.end(), [&](const Id* holder) {
    const SocketAddress& peer = holder->destination;
    if (peer.port() != 0 && peer.port() != id.destination.port()) return true;
    if (!id.source.is_any() && !holder->source.is_any() &&
        !id.source.SameAddress(holder->source)) {
      return true;
    }
    return !peer.is_any() && !id.destination.SameAddress(peer);
  });
}

Id* PortSpaces::FindListener(
    PortSpace space, uint16_t port,
    const std::function<bool(const Id&)>& matches) const {
  const auto it = holders_.find({space, port});
  if (it == holders_.end()) return nullptr;
  for (auto id = it->second.rbegin(); id != it->second.rend(); ++id) {
    if ((*id)->state == IdState::kListen && matches(**id)) return *id;
  }
  return nullptr;
}

}  // namespace urnic::rdmacm
