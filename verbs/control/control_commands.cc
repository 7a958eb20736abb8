#include "verbs/control/control_commands.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "verbs/abi/device_identity.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/device.h"
#include "verbs/control/gid_table.h"

namespace urnic::control {

namespace {

std::string Refuse(const std::string& why) {
  return absl::StrCat("error\n", why, "\n");
}

std::string Line(const GidPair& pair) {
  return absl::StrCat(pair.index, " ", AddressText(pair.gid, pair.prefix_bits),
                      "\n");
}

std::string List(const Device& device) {
  std::string answer = "ok\n";
  for (const GidPair& pair : device.gids().Pairs()) answer += Line(pair);
  return answer;
}

std::string Change(Device& device, bool add, const std::string& text) {
  urnic_ip_address address = {};
  char error[128];
  if (urnic_ip_address_parse(text.c_str(), &address, error, sizeof(error)) !=
      0) {
    return Refuse(error);
  }
  wire::Gid gid;
  urnic_ip_address_gid(&address, gid.bytes.data());
  auto before = device.gids().Pairs();
  const absl::Status done =
      add ? device.AddAddress(address) : device.RemoveAddress(address);
  if (!done.ok()) return Refuse(std::string(done.message()));
  DebugLog(absl::StrCat(device.identity().name, ": address ", text,
                        add ? " added" : " removed"));
  const auto pairs = add ? device.gids().Pairs() : std::move(before);
  const auto at = std::find_if(pairs.begin(), pairs.end(),
                               [&](const GidPair& p) { return p.gid == gid; });
  // Somebody may have changed it again.
  return at == pairs.end() ? "ok\n" : "ok\n" + Line(*at);
}

}  // namespace

std::string AnswerControl(Device& device, std::string_view request) {
  constexpr std::string_view kAdd = "addr add ";
  constexpr std::string_view kDel = "addr del ";
  if (request == "addr") return List(device);
  if (request.starts_with(kAdd)) {
    return Change(device, /*add=*/true,
                  std::string(request.substr(kAdd.size())));
  }
  if (request.starts_with(kDel)) {
    return Change(device, /*add=*/false,
                  std::string(request.substr(kDel.size())));
  }
  return Refuse("this RNIC knows the requests addr, addr add and addr del");
}

}  // namespace urnic::control
