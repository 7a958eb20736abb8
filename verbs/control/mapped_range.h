#pragma once

// Is memory there? Registration asks once, and does not rely on the answer
// later (the placer is guarded, datapath/guarded_memory.h).

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace urnic::control {

// Looks [address, address + bytes) up in /proc/self/maps: all of it must be
// readable, and writable if asked for. Touches nothing. About 1 us per mapping
// of the process.
// OUT_OF_RANGE: names the first address that is not, and what is there.
absl::Status CheckMapped(uint64_t address, uint64_t bytes, bool writable);

// The same over the lines of a maps file, given in pieces; for CheckMapped()
// and its test. REQUIRES: bytes > 0, and no overflow.
class MappedRangeCheck {
 public:
  MappedRangeCheck(uint64_t address, uint64_t bytes, bool writable)
      : next_(address), end_(address + bytes), writable_(writable) {}

  // One line, without its end. False when the answer is known.
  bool Line(std::string_view line);
  // After the last line.
  absl::Status Result() const;

 private:
  uint64_t next_;  // everything before is fine
  uint64_t end_;
  bool writable_;
  bool wrong_rights_ = false;
};

}  // namespace urnic::control
