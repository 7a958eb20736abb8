#pragma once

// The address handles of a network: the paths that datagrams name by number. A
// number consists of an index and a variant, so the number of a destroyed
// handle finds nothing.
//= IBTA 10.2.3: an address handle serves only the queue pairs of its protection
//= domain

#include <cstdint>
#include <memory>
#include <vector>

#include "datapath/engine/roce_path.h"

namespace urnic {

// Thread: the holder of the engine's token.
class AddressTable {
 public:
  static constexpr uint32_t kIndexBits = 20;

  // Returns the number of the new handle. 0: there are 2^20 handles already.
  uint32_t Add(const RocePath& path, uint32_t pd) {
    uint32_t index = static_cast<uint32_t>(entries_.size());
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (index >> kIndexBits != 0) {
      return 0;
    } else {
      entries_.emplace_back();
    }
    // Variant 0 is not used: no number is 0.
    next_variant_ = next_variant_ % 0xfff + 1;
    const uint32_t number = next_variant_ << kIndexBits | index;
    entries_[index] = std::make_unique<Entry>(Entry{number, pd, path});
    return number;
  }

  void Remove(uint32_t number) {
    if (FindEntry(number) == nullptr) return;
    const uint32_t index = number & kIndexMask;
    entries_[index] = nullptr;
    free_.push_back(index);
  }

  // Null: the protection domain `pd` has no such handle.
  RocePath* Find(uint32_t number, uint32_t pd) const {
    Entry* entry = FindEntry(number);
    return entry != nullptr && entry->pd == pd ? &entry->path : nullptr;
  }

  // Calls `f` with the path of each handle.
  template <typename F>
  void ForEach(F&& f) {
    for (const auto& entry : entries_) {
      if (entry != nullptr) f(entry->path);
    }
  }

 private:
  static constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
  struct Entry {
    uint32_t number;
    uint32_t pd;
    RocePath path;
  };

  Entry* FindEntry(uint32_t number) const {
    const uint32_t index = number & kIndexMask;
    if (index >= entries_.size()) return nullptr;
    Entry* entry = entries_[index].get();
    return entry != nullptr && entry->number == number ? entry : nullptr;
  }

  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<uint32_t> free_;
  uint32_t next_variant_ = 0;
};

}  // namespace urnic
