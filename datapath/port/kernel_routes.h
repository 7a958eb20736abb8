#pragma once

// The kernel's routes of one interface. An RNIC on the interface uses them
// unless it has routes of its own. They are the routes of the main table that
// `ip route show dev NAME` lists, for both families. Other tables and rules
// (policy routing) are ignored.
//
// One user thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/net/route_table.h"

namespace urnic {

class KernelRoutes {
 public:
  // Uses the network namespace of the calling thread, for its whole life.
  explicit KernelRoutes(std::string interface_name);
  ~KernelRoutes();
  KernelRoutes(const KernelRoutes&) = delete;
  KernelRoutes& operator=(const KernelRoutes&) = delete;

  // Readable when routes, addresses or links of this namespace have changed; -1
  // if netlink is not available.
  int fd() const { return events_; }
  // Empties fd(). True: routes of the interface may have changed. (Routes of
  // other interfaces may change a thousand times a second on a router.)
  bool TakeChange();

  // The usable routes: to hosts, over a nexthop that is up. Empty if there is
  // no such interface. At most net::RouteTable::kMaxRoutes; `cut_off` says that
  // there were more. None: the kernel has not answered for a second.
  std::optional<std::vector<net::Route>> Read(bool* cut_off);

 private:
  bool Concerns(const void* message) const;
  bool Dump(uint8_t family, std::vector<net::Route>& out);
  enum class Piece : uint8_t { kMore, kLast, kNone };
  Piece ReadPiece(bool& interrupted, std::vector<net::Route>& out);

  const std::string name_;
  const std::unique_ptr<char[]> buffer_;
  int events_ = -1;
  int dump_ = -1;
  uint32_t sequence_ = 0;
  unsigned index_ = 0;  // of the interface, when it was last read
};

}  // namespace urnic
