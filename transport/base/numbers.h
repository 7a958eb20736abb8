#pragma once

// The numbers by which peers name objects. All objects of a host share them,
// and only this file says how their bits are used.
//
//               | NIC ordinal | index   | variant |
//   QPN, SRQN   | 3 bits      | 21 bits |         |   24 bits
//   lkey, rkey  | 3 bits      | 21 bits | 8 bits  |   32 bits
//
// NIC ordinal   of the RNIC, unique among those of its host (of a network
//               namespace: datapath/port/port_claim.h), so that no two of them,
//               in any processes, ever share a number.
// index         drawn (LeasedSequence), so that it reveals nothing about other
//               indices. Its lowest bits choose the engine of a NIC that has
//               several (EngineOf()), and its place in a table (GrowingSlots).
// variant       the consumer's: ibv_inc_rkey() and a bind change it; the other
//               bits find the entry. Its first value is drawn, too.
//
// Reserved numbers are not given out: QPNs 0 and 1 are for management, and
// 0xffffff is for multicast. The rule is the same for every ordinal.
//
// At most kMaxQueuePairs exist at a time, 57 % of the 2^21 indices. The free
// indices keep the search for a free one short, and delay the reuse of a
// number.

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
constexpr uint32_t IndexOf(uint32_t number) { return number & kIndexMask; }
constexpr uint32_t KeyOf(uint32_t number, uint8_t variant) {
  return number << kVariantBits | variant;
}
constexpr uint32_t NumberOfKey(uint32_t key) { return key >> kVariantBits; }
// `engines` is a power of two.
constexpr uint32_t EngineOf(uint32_t number, uint32_t engines) {
  return number & (engines - 1);
}
// A number that is never given to a queue pair.
constexpr bool IsReservedIndex(uint32_t index) {
  return index < 2 || index == kIndexMask;
}

// The slot of an index in a table that grows by one slot at a time: linear
// hashing (Litwin 1980) of numbers whose low bits are as good as random. A slot
// has room for one entry; if the slot of a drawn index is taken, the caller
// draws again. With twice as many slots as entries, an entry costs two draws
// and at most two steps of growth, for any size of the table. The table never
// moves all entries at once.
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
  // Adds a slot. REQUIRES: count() < most(). The entry of `from` moves to `to`
  // if its Of() is now `to`.
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
