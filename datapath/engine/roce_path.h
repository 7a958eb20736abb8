#pragma once

// Where the packets of a queue pair go: everything that a packet needs, built
// once, so that no packet looks anything up.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "transport/net/path.h"

namespace urnic {

// The running ICRC over the headers before the BTH, per packet length: those
// headers depend on nothing else while the rest of them stays as it is.
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

// That of what a peer sends, whose headers are its own affair.
class PeerIcrcPrefixCache {
 public:
  // `rest` stands for all that may differ between two packets of this path, the
  // length aside, and that the ICRC covers.
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

// A path, with what RoCE's framer remembers of the packets along it.
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
