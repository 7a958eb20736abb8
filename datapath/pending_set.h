#pragma once

// The numbers of the queue pairs that somebody has posted to while the engine
// was taken: three levels of 64-bit words, so that looking costs one load and
// draining costs what is set. Any thread marks; the token holder drains.

#include <bit>
#include <cstdint>
#include <memory>

namespace urnic {

template <template <typename> class Atomic>
class PendingSet {
 public:
  // For indices below `capacity`, at most 64^3.
  explicit PendingSet(uint32_t capacity)
      : leaf_(new Atomic<uint64_t>[(capacity + 63) / 64]()),
        middle_(new Atomic<uint64_t>[(capacity + 4095) / 4096]()) {}

  // From the leaf up: a drain that sees a bit finds what it leads to.
  void Mark(uint32_t index) {
    leaf_[index >> 6].fetch_or(uint64_t{1} << (index & 63));
    middle_[index >> 12].fetch_or(uint64_t{1} << (index >> 6 & 63));
    top_.fetch_or(uint64_t{1} << (index >> 12));
  }

  bool Any() const { return top_.load() != 0; }

  // Calls visit(index) once for each mark, from the top down.
  template <typename Visit>
  void Drain(Visit&& visit) {
    ForEachBit(top_.exchange(0), [&](uint32_t t) {
      ForEachBit(middle_[t].exchange(0), [&](uint32_t m) {
        const uint32_t word = t << 6 | m;
        ForEachBit(leaf_[word].exchange(0),
                   [&](uint32_t bit) { visit(word << 6 | bit); });
      });
    });
  }

 private:
  template <typename Visit>
  static void ForEachBit(uint64_t bits, Visit&& visit) {
    for (; bits != 0; bits &= bits - 1) {
      visit(static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }

  Atomic<uint64_t> top_{0};
  std::unique_ptr<Atomic<uint64_t>[]> leaf_;
  std::unique_ptr<Atomic<uint64_t>[]> middle_;
};

}  // namespace urnic
