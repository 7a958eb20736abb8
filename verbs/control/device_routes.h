#pragma once

// The routes of a device. It has routes of its own, from the configuration and
// from `urnic route`. A device on a kernel interface without routes in its
// configuration also uses the kernel's routes of that interface, and follows
// their changes while it is open. There are two exceptions. A device in a VLAN
// uses no kernel routes, because the routes of the interface belong to another
// network. And kernel routes to a part of a link of the device's own addresses
// are not used: the kernel does not have these addresses, and may reach that
// part in another way.
//
// Threads: any; call Follow() once. The mutex is a leaf.

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/port/kernel_routes.h"
#include "transport/net/route_table.h"
#include "verbs/control/gid_table.h"
#include "verbs/identity/device_identity.h"

namespace urnic::control {

class DeviceRoutes {
 public:
  // Reads the kernel's routes, if they are used.
  explicit DeviceRoutes(const urnic_device_identity& identity);
  // Afterwards `changed` is not called any more.
  ~DeviceRoutes();
  DeviceRoutes(const DeviceRoutes&) = delete;
  DeviceRoutes& operator=(const DeviceRoutes&) = delete;

  // Calls `changed` from a separate thread whenever the kernel's routes change.
  void Follow(std::function<void()> changed);

  struct Entry {
    net::Route route;
    bool of_kernel = false;
  };
  // All routes, the best first. Routes of the device precede equal ones of the
  // kernel.
  std::vector<Entry> List() const;
  // The routes that a device with these addresses uses, at most as many as a
  // net::RouteTable holds.
  std::vector<net::Route> For(std::span<const GidPair> addresses) const;

  // Whether the router of a route can be reached. FAILED_PRECONDITION: it is
  // neither on a link of these addresses nor in the prefix of a route without a
  // router. ip-route(8) also refuses this.
  absl::Status CheckGateway(const net::Route& route,
                            std::span<const GidPair> addresses) const;
  // Adds a route of the device, and replaces one with the same prefix, gateway
  // and metric. RESOURCE_EXHAUSTED: there are net::RouteTable::kMaxRoutes.
  absl::Status Add(const net::Route& route);
  // NOT_FOUND: there is no such route; FAILED_PRECONDITION: it belongs to the
  // kernel.
  absl::Status Remove(const net::Route& route);

 private:
  // False: nothing has changed.
  bool ReadKernel();
  void Run(const std::function<void()>& changed);

  const std::string name_;
  std::unique_ptr<KernelRoutes> watch_;  // null: kernel routes are not used
  int stop_fd_ = -1;
  std::thread thread_;

  mutable std::mutex mutex_;
  net::RouteTable own_;
  net::RouteTable kernel_;
};

// Parses a route. INVALID_ARGUMENT: the message names the mistake.
absl::StatusOr<net::Route> ParseRoute(std::string_view text);
// "10.2.0.0/16 via 10.1.0.254 metric 7".
std::string RouteText(const net::Route& route);

}  // namespace urnic::control
