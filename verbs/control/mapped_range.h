#pragma once

// Checks whether memory is mapped. Registration checks once and does not rely
// on the result later (the placer is guarded,
// datapath/memory/guarded_memory.h).

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace urnic::control {

// kText, for tests: does not ask the kernel for single addresses.
enum class MapsSource : uint8_t { kAny, kText };

// Checks that all of [address, address + bytes) is readable, and writable if
// requested. Reads /proc/thread-self/maps, not the memory itself (/proc/self is
// empty once the main thread has ended). Takes 2 us if the kernel answers for
// single addresses (Linux 6.11 and later), otherwise about 0.3 us for each
// mapping of the process. OUT_OF_RANGE: the message names the first address
// that fails, and what is mapped there.
absl::Status CheckMapped(uint64_t address, uint64_t bytes, bool writable,
                         MapsSource source = MapsSource::kAny);

// The same check for mappings that the caller passes one by one, in order. For
// CheckMapped() and its test. REQUIRES: bytes > 0, and no overflow.
class MappedRangeCheck {
 public:
  MappedRangeCheck(uint64_t address, uint64_t bytes, bool writable)
      : next_(address), end_(address + bytes), writable_(writable) {}

  // The first byte that has not been found yet.
  uint64_t next() const { return next_; }
  // Takes a mapping, [start, end). False when the result is known.
  bool Mapping(uint64_t start, uint64_t end, bool readable, bool writable);
  // Takes a line of a maps file, without the line end.
  bool Line(std::string_view line);
  // Call this after the last mapping.
  absl::Status Result() const;

 private:
  uint64_t next_;  // everything before it passed the check
  uint64_t end_;
  bool writable_;
  bool wrong_rights_ = false;
};

}  // namespace urnic::control
