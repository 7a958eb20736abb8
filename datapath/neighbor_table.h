#pragma once

// Which MAC belongs to which address of this link. Filled by ARP and
// neighbour discovery (transport/wire/neighbor.h), asked when a path is made.
// Token holder only; never allocates after construction.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/time.h"
#include "transport/wire/address.h"

namespace urnic {

class NeighborTable {
 public:
  // How long a binding is believed without being heard again. Linux keeps a
  // reachable neighbour for 30 s on average (RFC 4861 10).
  static constexpr Duration kLifetime = Duration::Seconds(30);

  // `capacity`: beyond it, the binding heard longest ago makes room.
  explicit NeighborTable(size_t capacity) : entries_(capacity) {}

  void Learn(const wire::Gid& gid, const wire::MacAddress& mac, Time now) {
    Entry* oldest = &entries_[0];
    for (Entry& entry : entries_) {
      if (entry.used && entry.gid == gid) {
        entry = Entry{gid, mac, now, true};
        return;
      }
      if (!entry.used || (oldest->used && entry.heard < oldest->heard)) {
        oldest = &entry;
      }
    }
    *oldest = Entry{gid, mac, now, true};
  }

  // Refreshes a binding that exists; strangers are not remembered.
  void Update(const wire::Gid& gid, const wire::MacAddress& mac, Time now) {
    for (Entry& entry : entries_) {
      if (entry.used && entry.gid == gid) {
        entry.mac = mac;
        entry.heard = now;
      }
    }
  }

  std::optional<wire::MacAddress> Find(const wire::Gid& gid, Time now) const {
    for (const Entry& entry : entries_) {
      if (entry.used && entry.gid == gid && now - entry.heard < kLifetime) {
        return entry.mac;
      }
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    wire::Gid gid;
    wire::MacAddress mac;
    Time heard;
    bool used = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace urnic
