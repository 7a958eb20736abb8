#pragma once

// The path of a queue pair's packets. It is built once and holds everything
// that a packet needs, so no packet needs a lookup.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "transport/net/path.h"

namespace urnic {

// The running ICRC over the headers before the BTH, for each packet length.
// Between two packets of a path only the length changes these headers.
class IcrcPrefixCache {
 public:
  // `length`: from the BTH to the ICRC, in bytes.
  template <typename Compute>
  uint32_t Get(uint16_t length, Compute&& compute) {
    // The lengths of RoCE packets are multiples of four: an acknowledgement
    // and a short send must not share an entry.
    const size_t at = (length >> 2) & (kEntries - 1);
    if (lengths_[at] != length) {
      states_[at] = compute();
      lengths_[at] = length;
    }
    return states_[at];
  }

 private:
  static constexpr size_t kEntries = 4;
  uint16_t lengths_[kEntries] = {};  // no real one is 0
  uint32_t states_[kEntries] = {};
};

// The same for packets of a peer, whose headers we do not control.
class PeerIcrcPrefixCache {
 public:
  // `rest` holds everything besides the length that the ICRC covers and that
  // may differ between two packets of this path.
  template <typename Compute>
  uint32_t Get(uint64_t rest, uint16_t length, Compute&& compute) {
    if (__builtin_expect(rest != rest_, 0)) {
      rest_ = rest;
      by_length_ = IcrcPrefixCache();
    }
    return by_length_.Get(length, compute);
  }

 private:
  uint64_t rest_ = 0;
  IcrcPrefixCache by_length_;
};

// A path, with the caches of RoCE's framer for packets along it.
struct RocePath : net::Path {
  RocePath() = default;
  explicit RocePath(net::Path path) : net::Path(std::move(path)) {}

  // The ICRC does not cover what changes when a neighbour moves, so the caches
  // stay.
  void FollowNeighbor() {
    if (__builtin_expect(!IsCurrent(), 0)) Restamp();
  }

  IcrcPrefixCache sent;
  PeerIcrcPrefixCache received;  // see RoceFramer::IcrcIsRight()
};

}  // namespace urnic
