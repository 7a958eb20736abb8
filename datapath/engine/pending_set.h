#pragma once

// The places of the queue pairs that were posted to while another thread held
// the token: a bitmap of three levels of 64-bit words. To see whether it is
// empty costs one load, and draining costs only for the marks that are set. Any
// thread marks; the token holder drains.
//
// Segments are added as places are used, and are never removed. So a set of few
// places is small, and the set grows to 2^21 places without moving a word that
// another thread may be marking.

#include <bit>
#include <cstdint>
#include <memory>

#include "transport/base/check.h"

namespace urnic {

// `kLeafWords`: words of the lowest level for each bit of the middle one. They
// fill one cache line, which is read as a whole.
template <template <typename> class Atomic, uint32_t kLeafWords = 8>
class PendingSet {
 public:
  // Places of one segment (32768), and of all segments (2^21).
  static constexpr uint32_t kSegmentPlaces = 64 * 64 * kLeafWords;
  static constexpr uint32_t kMaxPlaces = 64 * kSegmentPlaces;

  PendingSet() { Reserve(1); }

  // Makes room for places below `places`. Called by the token holder before any
  // thread can mark the last of them.
  void Reserve(uint32_t places) {
    URNIC_CHECK(places <= kMaxPlaces);
    for (; segment_count_ * kSegmentPlaces < places; ++segment_count_) {
      segments_[segment_count_].reset(new Segment);
    }
  }

  // Sets the bits from the lowest level up, so that a drain that sees a bit
  // also sees the marks below it. REQUIRES: there is room for the place.
  void Mark(uint32_t place) {
    const uint32_t top = place / kSegmentPlaces;
    const uint32_t word = place % kSegmentPlaces / 64;
    Segment& segment = *segments_[top];
    segment.leaf[word].fetch_or(uint64_t{1} << (place % 64));
    segment.middle.fetch_or(uint64_t{1} << (word / kLeafWords));
    top_.fetch_or(uint64_t{1} << top);
  }

  bool Any() const { return top_.load() != 0; }

  // Calls visit(place) once for each mark, from the top down.
  template <typename Visit>
  void Drain(Visit&& visit) {
    ForEachBit(top_.exchange(0), [&](uint32_t top) {
      Segment& segment = *segments_[top];
      ForEachBit(segment.middle.exchange(0), [&](uint32_t line) {
        for (uint32_t i = 0; i < kLeafWords; ++i) {
          const uint32_t word = line * kLeafWords + i;
          if (kLeafWords > 1 && segment.leaf[word].load() == 0) continue;
          ForEachBit(segment.leaf[word].exchange(0), [&](uint32_t bit) {
            visit(top * kSegmentPlaces + word * 64 + bit);
          });
        }
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

  struct Segment {
    alignas(64) Atomic<uint64_t> leaf[64 * kLeafWords] = {};
    Atomic<uint64_t> middle{0};
  };

  Atomic<uint64_t> top_{0};
  uint32_t segment_count_ = 0;
  std::unique_ptr<Segment> segments_[64];
};

}  // namespace urnic
