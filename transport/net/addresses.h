#pragma once

// Our addresses, and which other addresses are on our link.

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "transport/wire/address.h"

namespace urnic::net {

// The first `bits` (0..128) are the same.
inline bool SamePrefix(const wire::Gid& a, const wire::Gid& b, uint32_t bits) {
  const uint32_t whole = bits / 8;
  if (std::memcmp(a.bytes.data(), b.bytes.data(), whole) != 0) return false;
  const uint32_t rest = bits % 8;
  return rest == 0 || ((a.bytes[whole] ^ b.bytes[whole]) >> (8 - rest)) == 0;
}

// `prefix_bits` of the GID's 128 bits name the link: 96 + 24 for 10.0.0.1/24.
struct LocalAddress {
  wire::Gid gid;
  uint8_t prefix_bits = 128;
  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

// Our addresses in the given order; earlier ones are preferred. A few tens at
// most, because every function searches the whole list.
class LocalAddresses {
 public:
  void Set(std::vector<LocalAddress> list) { list_ = std::move(list); }
  std::span<const LocalAddress> list() const { return list_; }

  bool Contains(const wire::Gid& gid) const {
    for (const LocalAddress& local : list_) {
      if (local.gid == gid) return true;
    }
    return false;
  }

  // The address whose prefix covers `gid`; of several, the one with the longest
  // prefix. Null: by our addresses, `gid` is not on our link.
  const LocalAddress* FindOnLink(const wire::Gid& gid) const {
    const LocalAddress* best = nullptr;
    for (const LocalAddress& local : list_) {
      if (local.gid.is_ipv4() == gid.is_ipv4() &&
          SamePrefix(local.gid, gid, local.prefix_bits) &&
          (best == nullptr || best->prefix_bits < local.prefix_bits)) {
        best = &local;
      }
    }
    return best;
  }

  // The first address of the family of `gid`; null: there is none.
  const LocalAddress* FirstLike(const wire::Gid& gid) const {
    for (const LocalAddress& local : list_) {
      if (local.gid.is_ipv4() == gid.is_ipv4()) return &local;
    }
    return nullptr;
  }
  // The same, but prefers an address that is not link-local if `gid` is not
  // link-local.
  //= RFC 6724 5: rule 2: a source address with the scope of the destination is
  //= preferred
  const LocalAddress* SourceLike(const wire::Gid& gid) const {
    for (const LocalAddress& local : list_) {
      if (local.gid.is_ipv4() == gid.is_ipv4() &&
          local.gid.is_link_local() == gid.is_link_local()) {
        return &local;
      }
    }
    return FirstLike(gid);
  }

 private:
  std::vector<LocalAddress> list_;
};

}  // namespace urnic::net
