#pragma once

// Atomics that change only some bits of a word (iWARP has them).

#include <cstdint>
#include <type_traits>

namespace urnic {

struct MaskedAtomic {
  enum class Kind : uint8_t { kFetchAdd, kCompareSwap };
  uint64_t original = 0;  // the result; the first member, for Of()
  Kind kind = Kind::kFetchAdd;
  uint64_t swap_or_add = 0;
  // kFetchAdd: each bit that is set ends a field: it passes no carry on.
  // kCompareSwap: the bits that are exchanged.
  uint64_t mask = 0;
  uint64_t compare = 0;
  uint64_t compare_mask = 0;

  // The operation whose result is *original.
  static const MaskedAtomic& Of(const uint64_t* original) {
    return *reinterpret_cast<const MaskedAtomic*>(original);
  }

  // What the word becomes.
  constexpr uint64_t Apply(uint64_t word) const {
    if (kind == Kind::kCompareSwap) {
      //= RFC 7306 5.1.3: the masks choose which bits are compared and which are
      //= exchanged
      if (((word ^ compare) & compare_mask) != 0) return word;
      return (word & ~mask) | (swap_or_add & mask);
    }
    //= RFC 7306 5.1.1: the mask of an add divides the word into fields that are
    //= added separately
    // Without the top bit of each field, no sum leaves its field; the top bits
    // are added by exclusive or.
    return ((word & ~mask) + (swap_or_add & ~mask)) ^
           ((word ^ swap_or_add) & mask);
  }
};
static_assert(std::is_standard_layout_v<MaskedAtomic>);

}  // namespace urnic
