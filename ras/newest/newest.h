#pragma once

// The newest entries of what was added, by number. Bounded: the newest replaces
// the oldest.
//
// Thread: one at a time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace urnic {

// `kEntries`: how many are kept, a power of two. Memory that was never used is
// not resident if T has no initializers.
template <typename T, uint32_t kEntries>
class Newest {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  void Add(const T& entry) { entries_[added_++ % kEntries] = entry; }

  // Null: nothing was added.
  T* last() {
    return added_ == 0 ? nullptr : &entries_[(added_ - 1) % kEntries];
  }

  // All so far; those before oldest() are gone.
  uint64_t added() const { return added_; }
  uint64_t oldest() const { return added_ > kEntries ? added_ - kEntries : 0; }

  // Calls visit(const T&) for at most `most` entries, from that number on or
  // the oldest that is left. Returns the number to continue from; none: that
  // was all.
  template <typename F>
  std::optional<uint64_t> Visit(uint64_t number, size_t most, F&& visit) const {
    number = std::max(number, oldest());
    for (; number < added_ && most != 0; ++number, --most)
      visit(entries_[number % kEntries]);
    if (number >= added_) return std::nullopt;
    return number;
  }

 private:
  uint64_t added_ = 0;
  const std::unique_ptr<T[]> entries_ =
      std::make_unique_for_overwrite<T[]>(kEntries);
};

}  // namespace urnic
