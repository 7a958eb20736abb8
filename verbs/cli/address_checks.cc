#include <arpa/inet.h>
#include <ifaddrs.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "verbs/cli/checks.h"

namespace urnic {
namespace {

bool IsSame(const urnic_ip_address& ours, const sockaddr* kernel) {
  if (kernel == nullptr) return false;
  if (ours.is_ipv6 != 0) {
    return kernel->sa_family == AF_INET6 &&
           std::memcmp(
               ours.bytes,
               &reinterpret_cast<const sockaddr_in6*>(kernel)->sin6_addr,
               16) == 0;
  }
  return kernel->sa_family == AF_INET &&
         std::memcmp(ours.bytes,
                     &reinterpret_cast<const sockaddr_in*>(kernel)->sin_addr,
                     4) == 0;
}

std::string Text(const urnic_ip_address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(address.is_ipv6 != 0 ? AF_INET6 : AF_INET, address.bytes, text,
            sizeof(text));
  return text;
}

}  // namespace

std::vector<Check> CheckAddresses(const urnic_device_identity& d) {
  std::vector<Check> checks;
  ifaddrs* list = nullptr;
  if (d.ifname[0] == '\0' || getifaddrs(&list) != 0) return checks;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const urnic_ip_address& own : std::span(d.addresses, d.num_addresses)) {
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if (!IsSame(own, at->ifa_addr)) continue;
      checks.push_back(
          {Finding::kWarn, absl::StrCat(d.name, " address"),
           absl::StrCat("the kernel has ", Text(own), " on ", at->ifa_name,
                        ", too; peers get two answers to ARP"),
           "choose an --addr that no host has"});
      break;
    }
  }
  return checks;
}

}  // namespace urnic
