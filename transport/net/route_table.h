#pragma once

// Routes for packets that leave our link: longest prefix, then smallest metric,
// then the order of arrival. Destinations within the prefixes of our own
// addresses are on our link and need no route; a route with a longer prefix
// overrides this (net/host.h).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/net/addresses.h"
#include "transport/wire/address.h"

namespace urnic::net {

struct Route {
  wire::Gid prefix = {};
  // Of 128; IPv4 routes have 96 and more: 0.0.0.0/0 is ::ffff:0:0/96.
  uint8_t prefix_bits = 0;
  // The router, which is on our link and may be of either family. Gid{}: the
  // destination itself is on our link.
  wire::Gid gateway = {};
  uint32_t metric = 0;
  // The source address that packets of this route prefer; Gid{}: no preference.
  wire::Gid source = {};

  bool is_ipv4() const { return prefix_bits >= 96 && prefix.is_ipv4(); }
  bool has_gateway() const { return !(gateway == wire::Gid{}); }
  friend bool operator==(const Route&, const Route&) = default;
};

// Used off the packet path: a lookup walks the list.
class RouteTable {
 public:
  static constexpr size_t kMaxRoutes = 4096;

  // Replaces all routes. Of equal routes the first counts. False: a route is
  // not Valid(), or there are more than kMaxRoutes; then nothing changes.
  bool Replace(std::span<const Route> routes);
  // Replaces a route of the same prefix, gateway and metric. False: the route
  // is not Valid(), or there are kMaxRoutes already.
  bool Add(const Route& route);
  // Removes the route of this prefix, gateway and metric. False: there is none.
  bool Remove(const Route& route);

  // The best route; null: none leads there. Valid until the next change.
  const Route* Find(const wire::Gid& destination) const;

  // prefix_bits <= 128, the gateway is not a group, and the source is of the
  // route's family.
  static bool Valid(const Route& route);

  std::span<const Route> routes() const { return routes_; }

  //= RFC 6724 5: the preferred source address is that of the route, or one on
  //= the link by which the packets leave
  // Null: none is of its family.
  const wire::Gid* SourceFor(const wire::Gid& remote,
                             const LocalAddresses& addresses) const;

 private:
  static bool SameRoute(const Route& a, const Route& b);
  static bool IsBetter(const Route& a, const Route& b);

  std::vector<Route> routes_;  // the best first
};

}  // namespace urnic::net
