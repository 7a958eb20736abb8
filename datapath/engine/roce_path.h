#pragma once

// Where the packets of a queue pair go: everything that a packet needs, built
// once, so that no packet looks anything up.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "transport/net/path.h"

namespace urnic {

// The running ICRC over the headers before the BTH, per frame length: those
// headers depend on nothing else while identification is 0.
template <typename Key>
class IcrcPrefixCache {
 public:
  // `key` stands for everything in the headers that may differ between two
  // packets of this path and that the ICRC covers.
  template <typename Compute>
  uint32_t Get(Key key, Compute&& compute) {
    // The lengths of RoCE packets are multiples of four: an acknowledgement
    // and a short send must not share an entry.
    const size_t at = (key >> 2) & (kEntries - 1);
    if (keys_[at] != key) {
      states_[at] = compute();
      keys_[at] = key;
    }
    return states_[at];
  }

 private:
  static constexpr size_t kEntries = 4;
  Key keys_[kEntries] = {};  // no real key is 0: lengths are not
  uint32_t states_[kEntries] = {};
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

  IcrcPrefixCache<uint32_t> sent;      // by length
  IcrcPrefixCache<uint64_t> received;  // see RoceFramer::IcrcIsRight()
};

}  // namespace urnic
