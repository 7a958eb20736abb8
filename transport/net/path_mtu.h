#pragma once

// The path MTUs that routers have reported. A destination without an entry has
// the link's MTU.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic::net {

class PathMtuCache {
 public:
  //= RFC 1191 6.3, RFC 8201 4: a reduced path MTU is kept for ten minutes
  static constexpr Duration kLifetime = Duration::Seconds(600);
  // No message can push the MTU below this. For IPv4: Linux's
  // net.ipv4.route.min_pmtu.
  //= RFC 8200 5: every link that carries IPv6 has an MTU of at least 1280 bytes
  static constexpr uint32_t kFloorIpv4 = 552;
  static constexpr uint32_t kFloorIpv6 = 1280;

  struct Change {
    wire::Gid remote;
    uint32_t mtu = 0;  // the largest IP packet, in bytes
  };

  // Beyond `capacity` entries, the oldest reduction is evicted.
  explicit PathMtuCache(size_t capacity) : capacity_(capacity) {}

  // The largest IP packet to `remote`: `link_mtu` or less.
  uint32_t Find(const wire::Gid& remote, uint32_t link_mtu, Time now) const;

  // A router has refused a packet of `packet_bytes` to `remote`, and forwards
  // at most `mtu` bytes (0: it does not say how many). True if the path MTU
  // changes. Values below the floor are raised to the floor or, for IPv6,
  // ignored.
  //= RFC 8201 4: "packet too big" never raises a path MTU
  bool OnTooBig(const wire::Gid& remote, uint32_t mtu, uint32_t packet_bytes,
                Time now);

  // The next destination whose MTU has shrunk since this last returned it.
  bool TakeChange(Change& out);

 private:
  struct Entry {
    wire::Gid remote;
    uint32_t mtu = 0;
    Time until;
    bool changed = false;
  };

  Entry* FindEntry(const wire::Gid& remote);

  size_t capacity_;
  std::vector<Entry> entries_;
  size_t changes_ = 0;  // entries with `changed`
};

}  // namespace urnic::net
