#pragma once

// The path MTUs that routers have reported, or that connections have found out.
// A destination without an entry has the link's MTU.

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

  // The path MTU that a report stands for: a router has refused a packet of
  // `packet_bytes` to `remote`, and forwards at most `mtu` bytes (0: it does
  // not say how many). Values below the floor are raised to the floor. 0: the
  // report is not plausible, or names less than the floor of IPv6.
  static uint32_t ReportedMtu(const wire::Gid& remote, uint32_t mtu,
                              uint32_t packet_bytes);

  // Packets to `remote` of more than `mtu` bytes do not arrive. True if the
  // path MTU changes. Values below the floor are raised to the floor.
  //= RFC 8201 4: "packet too big" never raises a path MTU
  bool Learn(const wire::Gid& remote, uint32_t mtu, Time now);

  // Learns from a report about a packet that nobody else can check.
  bool OnTooBig(const wire::Gid& remote, uint32_t mtu, uint32_t packet_bytes,
                Time now) {
    const uint32_t reported = ReportedMtu(remote, mtu, packet_bytes);
    return reported != 0 && Learn(remote, reported, now);
  }

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
