#pragma once

// What routers have said about the MTU of paths: RFC 1191, RFC 8201. A
// destination that is not here has the link's MTU.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic::net {

class PathMtuCache {
 public:
  // RFC 1191 6.3, RFC 8201 4: so long is a reduction believed.
  static constexpr Duration kLifetime = Duration::Seconds(600);
  // What nobody may push us below: over IPv4 Linux' net.ipv4.route.min_pmtu,
  // over IPv6 the smallest MTU that there is (RFC 8200 5).
  static constexpr uint32_t kFloorIpv4 = 552;
  static constexpr uint32_t kFloorIpv6 = 1280;

  struct Change {
    wire::Gid remote;
    uint32_t mtu = 0;  // the largest IP packet, in bytes
  };

  // `capacity`: beyond it the oldest reduction makes room.
  explicit PathMtuCache(size_t capacity) : capacity_(capacity) {}

  // The largest IP packet to `remote`: `link_mtu` or less.
  uint32_t Find(const wire::Gid& remote, uint32_t link_mtu, Time now) const;

  // A router takes no more than `mtu` bytes (0: it does not say) of a packet of
  // `packet_bytes` to `remote`. True if that is news: such a message never
  // raises an MTU (RFC 8201 4), and values below the floor are raised to it or,
  // over IPv6, not believed.
  bool OnTooBig(const wire::Gid& remote, uint32_t mtu, uint32_t packet_bytes,
                Time now);

  // A destination whose MTU has shrunk since it was last handed out here.
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
