#pragma once

// The order in which an owner draws numbers from its leases.

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/lessor.h"
#include "transport/base/numbers.h"
#include "transport/base/permutation.h"

namespace urnic {

// Every number is drawn once before any number is drawn again. With all 2^21
// indices, an index is reused after 2^21 draws at the earliest, and a key with
// its variant after 2^29. When all numbers have been drawn, more are leased.
class LeasedSequence {
 public:
  // `key`: random for each incarnation, so that late packets for a dead process
  // hit nothing that is alive, except by chance. The lessor outlives this
  // object.
  LeasedSequence(Lessor* lessor, NumberSpace space, const NumberKey& key)
      : lessor_(lessor), space_(space), key_(key) {
    LeaseMore();
  }
  ~LeasedSequence() {
    for (const Held& held : held_) lessor_->GiveBack(space_, held.range);
  }
  LeasedSequence(const LeasedSequence&) = delete;
  LeasedSequence& operator=(const LeasedSequence&) = delete;

  // The number of different numbers to draw; it may grow.
  uint64_t held() const { return total_; }

  struct Draw {
    uint32_t number;
    uint8_t variant;
  };
  // Empty: we have no lease.
  std::optional<Draw> Next() {
    if (at_ == held_.size() && !LeaseMore()) {
      if (held_.empty()) return std::nullopt;
      at_ = 0;
    }
    Held& held = held_[at_];
    const uint64_t mask = held.range.count - 1;
    const uint32_t index = held.order(static_cast<uint32_t>(held.drawn & mask));
    // Starts at a random value and increments: 256 rounds give 256 values.
    const uint64_t variant =
        SipHash(held.variants, index) + held.drawn / held.range.count;
    if ((++held.drawn & mask) == 0) ++at_;
    return Draw{held.range.first + index, static_cast<uint8_t>(variant)};
  }

 private:
  struct Held {
    NumberRange range;
    Permutation order;
    NumberKey variants;
    uint64_t drawn = 0;
  };

  bool LeaseMore() {
    const NumberRange range = lessor_->Lease(space_);
    if (range.count == 0) return false;
    URNIC_CHECK(range.count >= 4 && std::has_single_bit(range.count) &&
                range.first % range.count == 0);
    const NumberKey key =
        held_.empty() ? key_ : key_.For(held_.size() + kFirstFurther);
    held_.push_back(
        {range,
         Permutation(key.For(0),
                     static_cast<uint32_t>(std::countr_zero(range.count))),
         key.For(1)});
    total_ += range.count;
    return true;
  }

  // For the ranges after the first, which uses the key directly.
  static constexpr uint64_t kFirstFurther = 2;

  Lessor* const lessor_;
  const NumberSpace space_;
  const NumberKey key_;
  std::vector<Held> held_;
  size_t at_ = 0;  // the range to draw from next
  uint64_t total_ = 0;
};

// For a NIC that has its addresses to itself: all numbers of its ordinal, which
// no other NIC of the host has.
inline void OfferNumbersOf(uint32_t ordinal, LocalLessor& lessor) {
  URNIC_CHECK(ordinal < kOrdinals);
  for (const NumberSpace space : {NumberSpace::kQpn, NumberSpace::kSrqn,
                                  NumberSpace::kKey, NumberSpace::kWindow}) {
    lessor.Offer(space, {NumberOf(ordinal, 0), kIndexCount});
  }
}

}  // namespace urnic
