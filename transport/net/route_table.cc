#include "transport/net/route_table.h"

#include <algorithm>

namespace urnic::net {

bool RouteTable::Valid(const Route& route) {
  const bool source_fits =
      route.source == wire::Gid{} || route.source.is_ipv4() == route.is_ipv4();
  return route.prefix_bits <= 128 && source_fits &&
         !route.gateway.is_multicast();
}

bool RouteTable::SameRoute(const Route& a, const Route& b) {
  return a.prefix_bits == b.prefix_bits && a.metric == b.metric &&
         a.gateway == b.gateway && a.is_ipv4() == b.is_ipv4() &&
         SamePrefix(a.prefix, b.prefix, a.prefix_bits);
}

bool RouteTable::IsBetter(const Route& a, const Route& b) {
  return a.prefix_bits != b.prefix_bits ? a.prefix_bits > b.prefix_bits
                                        : a.metric < b.metric;
}

bool RouteTable::Replace(std::span<const Route> routes) {
  if (routes.size() > kMaxRoutes ||
      !std::all_of(routes.begin(), routes.end(), Valid)) {
    return false;
  }
  routes_.assign(routes.begin(), routes.end());
  std::stable_sort(routes_.begin(), routes_.end(), IsBetter);
  return true;
}

bool RouteTable::Add(const Route& route) {
  if (!Valid(route)) return false;
  (void)Remove(route);
  if (routes_.size() == kMaxRoutes) return false;
  routes_.insert(
      std::upper_bound(routes_.begin(), routes_.end(), route, IsBetter), route);
  return true;
}

bool RouteTable::Remove(const Route& route) {
  return std::erase_if(routes_, [&route](const Route& other) {
           return SameRoute(other, route);
         }) != 0;
}

const Route* RouteTable::Find(const wire::Gid& destination) const {
  const auto at = std::find_if(
      routes_.begin(), routes_.end(), [&destination](const Route& route) {
        return route.is_ipv4() == destination.is_ipv4() &&
               SamePrefix(route.prefix, destination, route.prefix_bits);
      });
  return at == routes_.end() ? nullptr : &*at;
}

const wire::Gid* RouteTable::SourceFor(const wire::Gid& remote,
                                       const LocalAddresses& addresses) const {
  const Route* route = Find(remote);
  const LocalAddress* local = addresses.FindOnLink(remote);
  if (route != nullptr &&
      (local == nullptr || route->prefix_bits > local->prefix_bits)) {
    if (addresses.Contains(route->source)) return &route->source;
    local = addresses.FindOnLink(route->gateway);
  }
  const bool fits =
      local != nullptr && local->gid.is_ipv4() == remote.is_ipv4();
  if (!fits) local = addresses.SourceLike(remote);
  return local == nullptr ? nullptr : &local->gid;
}

}  // namespace urnic::net
