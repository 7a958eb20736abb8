#pragma once

// The numbers that peers know things by, and that they therefore share: this
// is the one place that says how their bits are used.
//
//               | NIC ordinal | index   | variant |
//   QPN, SRQN   | 3 bits      | 21 bits |         |   24 bits
//   lkey, rkey  | 3 bits      | 21 bits | 8 bits  |   32 bits
//
// NIC ordinal   of the RNIC, unique among those of its host (of a network
//               namespace: datapath/port/port_claim.h), so that no two of them,
//               of whatever processes, ever have a number in common.
// index         drawn (LeasedSequence), so that it says nothing of the others.
//               Its lowest bits choose the engine of a NIC that has several
//               (EngineOf()); and the place in a table (GrowingSlots).
// variant       the consumer's: ibv_inc_rkey() and a bind change it, the rest
//               finds the entry (IBTA 10.6.7.2). Drawn as well at first.
//
// Numbers with a meaning of their own are not given out: QPNs 0 and 1 are those
// of management, 0xffffff that of multicast (IBTA 9.6.1), for every ordinal, so
// that the rule is one.
//
// There is room for kMaxQueuePairs at a time, of 2^21 indices 57 %: what is
// left keeps the search for a free one short, and a number that was given back
// away from its next owner.

#include <bit>
#include <cstdint>

#include "transport/base/check.h"

namespace urnic {

inline constexpr uint32_t kOrdinalBits = 3;
inline constexpr uint32_t kIndexBits = 21;
inline constexpr uint32_t kVariantBits = 8;
inline constexpr uint32_t kOrdinals = 1u << kOrdinalBits;
inline constexpr uint32_t kIndexCount = 1u << kIndexBits;
inline constexpr uint32_t kIndexMask = kIndexCount - 1;
inline constexpr uint32_t kVariantMask = (1u << kVariantBits) - 1;

inline constexpr uint32_t kMaxQueuePairs = 1'200'000;

// REQUIRES: ordinal < kOrdinals, index < kIndexCount.
constexpr uint32_t NumberOf(uint32_t ordinal, uint32_t index) {
  return ordinal << kIndexBits | index;
}
constexpr uint32_t KeyOf(uint32_t ordinal, uint32_t index, uint8_t variant) {
  return NumberOf(ordinal, index) << kVariantBits | variant;
}
constexpr uint32_t IndexOf(uint32_t number) { return number & kIndexMask; }
constexpr uint32_t IndexOfKey(uint32_t key) {
  return IndexOf(key >> kVariantBits);
}
// Of `engines`, a power of two.
constexpr uint32_t EngineOf(uint32_t number, uint32_t engines) {
  return number & (engines - 1);
}
// One that is never a queue pair's.
constexpr bool IsReservedIndex(uint32_t index) {
  return index < 2 || index == kIndexMask;
}

// Where an index has its place in a table that grows by one slot at a time:
// linear hashing (Litwin 1980) of numbers whose low bits are as good as random.
// A slot has room for one; whoever draws an index whose slot is taken draws
// another one. So a table with twice as many slots as entries costs two draws
// and two steps of growth at most per entry, whatever its size: nothing is ever
// moved at once.
class GrowingSlots {
 public:
  // `first`: a power of two; `most` too, at most kIndexCount.
  constexpr GrowingSlots(uint32_t first, uint32_t most)
      : count_(first < most ? first : most),
        lower_mask_(count_ - 1),
        upper_mask_(2 * count_ - 1),
        most_(most) {
    URNIC_CHECK(std::has_single_bit(first) && std::has_single_bit(most));
  }

  uint32_t count() const { return count_; }
  uint32_t most() const { return most_; }
  uint32_t Of(uint32_t index) const {
    const uint32_t at = index & upper_mask_;
    return at < count_ ? at : at & lower_mask_;
  }

  struct Split {
    uint32_t from;
    uint32_t to;  // the new slot
  };
  // One slot more. REQUIRES: count() < most(). What is in `from` and whose Of()
  // now is `to` moves there.
  Split Grow() {
    const Split split = {count_ & lower_mask_, count_};
    if (++count_ > upper_mask_) {
      lower_mask_ = upper_mask_;
      upper_mask_ = 2 * upper_mask_ + 1;
    }
    return split;
  }

 private:
  uint32_t count_;
  uint32_t lower_mask_;
  uint32_t upper_mask_;
  uint32_t most_;
};

}  // namespace urnic
