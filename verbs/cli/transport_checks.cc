#include <arpa/inet.h>

#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "verbs/cli/checks.h"

namespace urnic {
namespace {

// The addresses that rdma_cm resolves to the device of this kind.
std::vector<std::string> AddressesOf(const urnic_device_identity& d, int kind) {
  std::vector<std::string> texts;
  for (const urnic_ip_address& own : std::span(d.addresses, d.num_addresses)) {
    if (urnic_rdma_cm_kind(d.kinds, own.is_iwarp) != kind) continue;
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(own.is_ipv6 != 0 ? AF_INET6 : AF_INET, own.bytes, text,
              sizeof(text));
    texts.emplace_back(text);
  }
  return texts;
}

std::string NameOf(const urnic_device_identity& d, int kind) {
  char name[URNIC_DEVICE_NAME_SIZE];
  urnic_device_name(kind, d.ordinal, name);
  return name;
}

}  // namespace

std::vector<Check> CheckTransports(const urnic_device_identity& d) {
  if ((d.kinds & 1u << URNIC_DEVICE_IWARP) == 0) return {};
  const std::string iwarp = NameOf(d, URNIC_DEVICE_IWARP);
  const std::string what = absl::StrCat(d.port_name, " rdma_cm");
  if ((d.kinds & 1u << URNIC_DEVICE_ROCE) == 0) {
    return {{Finding::kOk, what,
             absl::StrCat("takes ", iwarp,
                          " for all addresses: the port has no RoCE device"),
             ""}};
  }
  const std::string roce = NameOf(d, URNIC_DEVICE_ROCE);
  constexpr char kListeners[] = "; listeners at 0.0.0.0 or :: serve both";
  const std::vector<std::string> marked = AddressesOf(d, URNIC_DEVICE_IWARP);
  if (marked.empty()) {
    return {
        {Finding::kOk, what,
         absl::StrCat("takes ", roce,
                      " for all addresses: none is marked iwarp", kListeners),
         absl::StrCat("to connect by ", iwarp,
                      ", mark the local address: --addr IP/LEN,iwarp")}};
  }
  return {{Finding::kOk, what,
           absl::StrCat("takes ", iwarp, " for addresses marked iwarp (",
                        absl::StrJoin(marked, ", "), ") and ", roce,
                        " for all others", kListeners),
           ""}};
}

}  // namespace urnic
