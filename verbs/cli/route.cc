#include <cstdio>
#include <string>

#include "verbs/cli/command.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/identity/ip_route.h"

namespace urnic {
namespace {

void PrintRoute(const std::string& line) {
  std::printf("  %s\n", line.c_str());
}

absl::Status CheckRoute(const std::string& value) {
  urnic_ip_route route;
  char error[256];
  if (urnic_ip_route_parse(value.data(), value.size(), &route, error,
                           sizeof(error)) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(error);
}

}  // namespace

void AddRouteCommand(Command& urnic) {
  AddRnicCommand(
      urnic, {.name = "route",
              .help = "Show and change the routes of running programs' RNICs",
              .one = "a route",
              .value = "ROUTE",
              .add_option = "",
              .value_help = "PREFIX [via IP] [metric N] [src IP], for example "
                            "10.2.0.0/16 via 10.1.0.254",
              .value_is_words = true,
              .check = CheckRoute,
              .print = PrintRoute});
}

}  // namespace urnic
