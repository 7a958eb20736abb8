#pragma once

// Finds the items that have a key: chains through a fixed number of buckets.
// Insert() does not allocate. Items are small integers; the owner keeps the
// keys and passes their hash. An item is in an index at most once.

#include <bit>
#include <cstdint>
#include <vector>

#include "transport/base/check.h"

namespace urnic {

// Mixes words of a key. `salt` is random, so that an attacker cannot choose
// keys that share a bucket.
inline uint64_t HashKey(uint64_t salt, uint64_t a, uint64_t b) {
  uint64_t h = salt;
  for (const uint64_t word : {a, b}) {
    h = (h ^ word) * 0x9e3779b97f4a7c15;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9;
    h ^= h >> 32;
  }
  return h;
}

class HashIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit HashIndex(uint32_t buckets)
      : heads_(std::bit_ceil(buckets), uint32_t{kNone}) {}

  // Makes room for items below `items`.
  void Grow(uint32_t items) {
    if (items > next_.size()) next_.resize(items, kNone);
  }
  void Insert(uint64_t hash, uint32_t item) {
    uint32_t& head = heads_[hash & (heads_.size() - 1)];
    next_[item] = head;
    head = item;
  }
  // REQUIRES: the item is in the index.
  void Remove(uint64_t hash, uint32_t item) {
    uint32_t* link = &heads_[hash & (heads_.size() - 1)];
    while (*link != item) {
      URNIC_CHECK(*link != kNone);
      link = &next_[*link];
    }
    *link = next_[item];
  }
  // The first item with this hash for which `matches(item)` is true, or kNone.
  // Other items may share the bucket: `matches` compares the key.
  template <typename Matches>
  uint32_t Find(uint64_t hash, Matches matches) const {
    uint32_t item = heads_[hash & (heads_.size() - 1)];
    while (item != kNone && !matches(item)) item = next_[item];
    return item;
  }

 private:
  std::vector<uint32_t> heads_;
  std::vector<uint32_t> next_;
};

}  // namespace urnic
