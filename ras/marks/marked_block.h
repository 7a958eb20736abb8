#pragma once

// One allocation for the parts of an object (document E 5.3.2.2 and 5.3.2.3).
// Each part lies between two marks that read as text in a hex dump:
//
//   | .. uRNIC-EP | control | EP-uRNIC .. | .. uRNIC-SQ |   <- page
//   | ring | SQ-uRNIC .. uRNIC-RQ | ring | RQ-uRNIC ..  |   <- page
//
// A part that begins a page has its mark at the end of the page before, which
// would be padding. Pure; the caller has the memory.

#include <array>
#include <cstddef>
#include <cstdint>

#include "ras/marks/marked_slab.h"

namespace urnic {

// The next multiple that is not below `value`.
constexpr size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class MarkedBlock {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kPartsMax = 6;

  struct Part {
    size_t offset = 0;
    size_t bytes = 0;
    // A pointer, not a copy: so a search of a dump finds the marks at the parts
    // only.
    const Marks* marks = nullptr;
  };

  // --- Planning --------------------------------------------------------------

  // The first part begins `shift` bytes later than it could: a multiple of 64.
  explicit MarkedBlock(size_t shift = 0) : end_(shift) {}

  // Room for a part. Returns its offset, a multiple of `alignment`, which is a
  // power of two, 8 at least. `marks` live as long as the program. REQUIRES:
  // fewer than kPartsMax parts.
  size_t Add(size_t bytes, size_t alignment, const Marks* marks);
  // The same at this offset, which is a multiple of 8 and leaves room for the
  // mark.
  size_t AddAt(size_t offset, size_t bytes, const Marks* marks);
  // So far.
  size_t bytes() const { return end_; }

  // --- In memory; `base` begins a page --------------------------------------

  void WriteMarks(uint8_t* base) const;
  // The first part with a mark that is not there; null: all are.
  const Part* FindDamaged(const uint8_t* base) const;

 private:
  std::array<Part, kPartsMax> parts_ = {};
  size_t count_ = 0;
  size_t end_ = 0;
};

}  // namespace urnic
