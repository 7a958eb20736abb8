#pragma once

// The routes of a device. It has routes of its own, from the configuration and
// from `urnic route`. A device on a kernel interface without routes in its
// configuration also uses the kernel's routes of that interface, and follows
// their changes while it is open. Two kinds of kernel routes are not used. A
// device in a VLAN uses none, because the routes of the interface belong to
// another network. Routes to a part of a link of the device's own addresses are
// not used either, because the kernel does not have these addresses and may
// reach that part in its own way.
//
// Threads: any; Follow() once. The mutex is a leaf.

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

  // Calls `changed` from a thread of its own whenever the kernel's routes have
  // changed.
  void Follow(std::function<void()> changed);

  struct Entry {
    net::Route route;
    bool of_kernel = false;
  };
  // All routes, the best first. Its own routes precede equal ones of the
  // kernel.
  std::vector<Entry> List() const;
  // The routes that a device with these addresses uses, as many as a table
  // holds.
  std::vector<net::Route> For(std::span<const GidPair> addresses) const;

  // FAILED_PRECONDITION: the router is neither on a link of these addresses nor
  // where a route without a router leads. ip-route(8) also refuses this.
  absl::Status CheckGateway(const net::Route& route,
                            std::span<const GidPair> addresses) const;
  // Adds a route of its own, and replaces one of the same prefix, gateway and
  // metric. RESOURCE_EXHAUSTED: there are net::RouteTable::kMaxRoutes already.
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
