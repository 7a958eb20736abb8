#include <arpa/inet.h>

#include <algorithm>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "verbs/cli/checks.h"

namespace urnic {
namespace {

using Gid = uint8_t[16];

constexpr Gid kLinkLocal = {0xfe, 0x80};
constexpr uint32_t kLinkLocalBits = 64;
constexpr uint32_t kMappedBits = 96;  // before an IPv4 address in a GID

bool HasPrefix(const Gid& gid, const Gid& prefix, uint32_t bits) {
  for (uint32_t i = 0; i < bits; ++i) {
    if (((gid[i / 8] ^ prefix[i / 8]) & 0x80 >> i % 8) != 0) return false;
  }
  return true;
}

bool IsNone(const Gid& gid) {
  return std::ranges::all_of(gid, [](uint8_t byte) { return byte == 0; });
}

bool IsOnLink(const urnic_device_identity& d, const Gid& router) {
  if (HasPrefix(router, kLinkLocal, kLinkLocalBits)) return true;
  for (const urnic_ip_address& own : std::span(d.addresses, d.num_addresses)) {
    Gid gid;
    urnic_ip_address_gid(&own, gid);
    const uint32_t bits = own.prefix_len + (own.is_ipv6 ? 0 : kMappedBits);
    if (HasPrefix(router, gid, bits)) return true;
  }
  for (const urnic_ip_route& route : std::span(d.routes, d.num_routes)) {
    if (IsNone(route.gateway) &&
        HasPrefix(router, route.prefix, route.prefix_bits)) {
      return true;
    }
  }
  return false;
}

std::string Text(const Gid& gid) {
  in6_addr address;
  std::ranges::copy(gid, address.s6_addr);
  const bool v4 = IN6_IS_ADDR_V4MAPPED(&address) != 0;
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(v4 ? AF_INET : AF_INET6, &address.s6_addr[v4 ? 12 : 0], text,
            sizeof(text));
  return text;
}

}  // namespace

std::vector<Check> CheckRouters(const urnic_device_identity& d) {
  std::vector<Check> checks;
  for (const urnic_ip_route& route : std::span(d.routes, d.num_routes)) {
    if (IsNone(route.gateway) || IsOnLink(d, route.gateway)) continue;
    checks.push_back(
        {Finding::kWarn, absl::StrCat(d.name, " route"),
         absl::StrCat("via ", Text(route.gateway),
                      " is in none of the networks of the port's addresses"),
         "correct --route, or give the port an --addr on that link"});
  }
  return checks;
}

}  // namespace urnic
