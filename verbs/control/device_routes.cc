#include "verbs/control/device_routes.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/guest/engine_thread.h"
#include "ras/errors/refusal.h"
#include "transport/wire/address_text.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/gid_table.h"
#include "verbs/libc/high_fd.h"

namespace urnic::control {

namespace {

// Routes often change in batches, and each update may check thousands of paths.
constexpr int kBatchMs = 10;

net::Route RouteOf(const urnic_ip_route& from) {
  return {.prefix = wire::Gid::FromIpv6(from.prefix),
          .prefix_bits = from.prefix_bits,
          .gateway = wire::Gid::FromIpv6(from.gateway),
          .metric = from.metric,
          .source = wire::Gid::FromIpv6(from.source)};
}

}  // namespace

absl::StatusOr<net::Route> ParseRoute(std::string_view text) {
  urnic_ip_route route;
  char error[256];
  if (urnic_ip_route_parse(text.data(), text.size(), &route, error,
                           sizeof(error)) != 0) {
    return Refusal(ErrorCode::kBadAddress, error);
  }
  return RouteOf(route);
}

std::string RouteText(const net::Route& route) {
  const int nothing = route.is_ipv4() ? 96 : 0;
  std::string text = route.prefix_bits == nothing
                         ? "default"
                         : AddressText(route.prefix, route.prefix_bits);
  if (route.has_gateway()) {
    absl::StrAppend(&text, " via ", wire::IpText(route.gateway));
  }
  if (!(route.source == wire::Gid{})) {
    absl::StrAppend(&text, " src ", wire::IpText(route.source));
  }
  if (route.metric != 0) absl::StrAppend(&text, " metric ", route.metric);
  return text;
}

DeviceRoutes::DeviceRoutes(const urnic_device_identity& identity)
    : name_(identity.name) {
  for (uint32_t i = 0; i < identity.num_routes; ++i) {
    (void)own_.Add(RouteOf(identity.routes[i]));
  }
  if (identity.ifname[0] != '\0' && identity.num_routes == 0 &&
      identity.vlan == 0) {
    watch_ = std::make_unique<KernelRoutes>(identity.ifname);
    ReadKernel();
  }
}

DeviceRoutes::~DeviceRoutes() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(stop_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  if (stop_fd_ >= 0) close(stop_fd_);
}

void DeviceRoutes::Follow(std::function<void()> changed) {
  if (watch_ == nullptr) return;
  stop_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC));
  if (watch_->fd() >= 0 && stop_fd_ >= 0) {
    auto thread = StartEngineThread(
        "urnic-routes", [this, changed = std::move(changed)] { Run(changed); });
    if (thread.has_value()) {
      thread_ = *std::move(thread);
      return;
    }
  }
  DebugLog(absl::StrCat(name_,
                        ": no netlink socket or no thread: changes of the "
                        "kernel's routes are not followed"));
}

void DeviceRoutes::Run(const std::function<void()>& changed) {
  while (true) {
    pollfd fds[] = {{stop_fd_, POLLIN, 0}, {watch_->fd(), POLLIN, 0}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    while (fds[0].revents == 0 && poll(fds, 1, kBatchMs) < 0) {
    }
    if (fds[0].revents != 0) return;
    if (watch_->TakeChange() && ReadKernel()) changed();
  }
}

bool DeviceRoutes::ReadKernel() {
  bool cut_off = false;
  const auto routes = watch_->Read(&cut_off);
  if (!routes.has_value()) {
    DebugLog(absl::StrCat(name_, ": the kernel does not list its routes"));
    return false;
  }
  if (cut_off) {
    DebugLog(absl::StrCat(name_, ": the kernel has more than ",
                          net::RouteTable::kMaxRoutes,
                          " routes over the interface; the others are not "
                          "used"));
  }
  net::RouteTable next;
  (void)next.Replace(*routes);
  std::lock_guard lock(mutex_);
  if (std::ranges::equal(next.routes(), kernel_.routes())) return false;
  kernel_ = std::move(next);
  DebugLog(absl::StrCat(name_, ": ", routes->size(), " routes of the kernel"));
  return true;
}

std::vector<DeviceRoutes::Entry> DeviceRoutes::List() const {
  std::vector<Entry> list;
  std::lock_guard lock(mutex_);
  for (const net::Route& route : own_.routes()) {
    list.push_back({.route = route, .of_kernel = false});
  }
  for (const net::Route& route : kernel_.routes()) {
    list.push_back({.route = route, .of_kernel = true});
  }
  return list;
}

std::vector<net::Route> DeviceRoutes::For(
    std::span<const GidPair> addresses) const {
  const auto is_on_link = [&](const net::Route& route) {
    return std::ranges::any_of(addresses, [&](const GidPair& own) {
      return own.gid.is_ipv4() == route.is_ipv4() &&
             own.prefix_bits < route.prefix_bits &&
             net::SamePrefix(own.gid, route.prefix, own.prefix_bits);
    });
  };
  std::vector<net::Route> routes;
  for (const Entry& entry : List()) {
    if (!entry.of_kernel || !is_on_link(entry.route)) {
      routes.push_back(entry.route);
    }
  }
  routes.resize(std::min(routes.size(), net::RouteTable::kMaxRoutes));
  return routes;
}

absl::Status DeviceRoutes::CheckGateway(
    const net::Route& route, std::span<const GidPair> addresses) const {
  const wire::Gid& router = route.gateway;
  if (!route.has_gateway()) return absl::OkStatus();
  std::string links;
  for (const GidPair& own : addresses) {
    if (own.gid.is_ipv4() != router.is_ipv4()) continue;
    if (net::SamePrefix(own.gid, router, own.prefix_bits)) {
      return absl::OkStatus();
    }
    absl::StrAppend(&links, " ", AddressText(own.gid, own.prefix_bits));
  }
  for (const Entry& entry : List()) {
    const net::Route& r = entry.route;
    if (!r.has_gateway() && r.is_ipv4() == router.is_ipv4() &&
        net::SamePrefix(r.prefix, router, r.prefix_bits)) {
      return absl::OkStatus();
    }
  }
  if (links.empty()) links = " (none of its family)";
  return Refusal(ErrorCode::kNotOurs,
                 absl::StrCat("via ", wire::IpText(router),
                              " is in none of the networks of ", name_,
                              "'s addresses", links));
}

absl::Status DeviceRoutes::Add(const net::Route& route) {
  std::lock_guard lock(mutex_);
  if (own_.Add(route)) return absl::OkStatus();
  return Refusal(ErrorCode::kNoPlace,
                 absl::StrCat(name_, ": ", RouteText(route),
                              " is one too many; the limit is ",
                              net::RouteTable::kMaxRoutes, " routes"));
}

absl::Status DeviceRoutes::Remove(const net::Route& route) {
  std::lock_guard lock(mutex_);
  if (own_.Remove(route)) return absl::OkStatus();
  // A copy, only to see whether the kernel has this route.
  net::RouteTable kernel = kernel_;
  if (kernel.Remove(route)) {
    return Refusal(
        ErrorCode::kNotOurs,
        absl::StrCat(name_, ": ", RouteText(route),
                     " belongs to the kernel; remove it with ip route del"));
  }
  return Refusal(ErrorCode::kNoSuchAddress,
                 absl::StrCat(name_, " has no route ", RouteText(route)));
}

}  // namespace urnic::control
