#pragma once

// The routes of a device: its own, which the configuration and `urnic route`
// give it; and those of the kernel's interface, where it is on one and the
// configuration gives it none. They are followed while the device is open.
// Of a device in a VLAN the kernel's are not taken: the interface's are those
// of another network. Nor are those to a part of a link of the device's own
// addresses: the kernel does not have these, and may reach that in its own way.
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
  // Asks the kernel, if its routes count.
  explicit DeviceRoutes(const urnic_device_identity& identity);
  // Nobody is told of a change any more.
  ~DeviceRoutes();
  DeviceRoutes(const DeviceRoutes&) = delete;
  DeviceRoutes& operator=(const DeviceRoutes&) = delete;

  // From now on `changed` is called when the kernel's have changed, by a thread
  // of ours.
  void Follow(std::function<void()> changed);

  struct Entry {
    net::Route route;
    bool of_kernel = false;
  };
  // Its own first, which precede equal ones of the kernel's; the best first.
  std::vector<Entry> List() const;
  // Those that count for a device with these addresses, as many as a table
  // holds.
  std::vector<net::Route> For(std::span<const GidPair> addresses) const;

  // One of its own; another of the same prefix, gateway and metric is replaced.
  // RESOURCE_EXHAUSTED: net::RouteTable::kMaxRoutes are there.
  absl::Status Add(const net::Route& route);
  // NOT_FOUND; FAILED_PRECONDITION: it is the kernel's.
  absl::Status Remove(const net::Route& route);

 private:
  // False: nothing has changed.
  bool ReadKernel();
  void Run(const std::function<void()>& changed);

  const std::string name_;
  std::unique_ptr<KernelRoutes> watch_;  // null: the kernel's do not count
  int stop_fd_ = -1;
  std::thread thread_;

  mutable std::mutex mutex_;
  net::RouteTable own_;
  net::RouteTable kernel_;
};

// A route out of the words that people write. INVALID_ARGUMENT, in words.
absl::StatusOr<net::Route> ParseRoute(std::string_view text);
// "10.2.0.0/16 via 10.1.0.254 metric 7".
std::string RouteText(const net::Route& route);

}  // namespace urnic::control
