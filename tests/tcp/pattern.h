#pragma once

// The bytes that the two ends exchange: any part of them can be made or checked
// without the rest.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "transport/base/random.h"

namespace urnic::testing {

class Pattern {
 public:
  explicit Pattern(uint64_t seed) : block_(kPeriod) {
    Random random(seed);
    for (uint8_t& byte : block_) byte = random.Byte();
  }

  void Make(uint64_t at, std::span<uint8_t> out) const {
    for (size_t done = 0; done < out.size();) {
      const size_t from = (at + done) % kPeriod;
      const size_t n = std::min(out.size() - done, kPeriod - from);
      std::memcpy(&out[done], &block_[from], n);
      done += n;
    }
  }
  bool Check(uint64_t at, std::span<const uint8_t> bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const size_t from = (at + done) % kPeriod;
      const size_t n = std::min(bytes.size() - done, kPeriod - from);
      if (std::memcmp(&bytes[done], &block_[from], n) != 0) return false;
      done += n;
    }
    return true;
  }

 private:
  // Prime, so that no multiple of a segment's size repeats it.
  static constexpr size_t kPeriod = 1'000'003;
  std::vector<uint8_t> block_;
};

}  // namespace urnic::testing
