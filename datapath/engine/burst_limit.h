#pragma once

// How many frames are received, or sent, at a time. The more, the less each of
// them costs; but a small one waits for all large ones before it. So while both
// kinds come, they come a few at a time.

#include <algorithm>
#include <cstdint>

#include "datapath/port/port.h"
#include "transport/base/mutation.h"

namespace urnic {

class BurstLimit {
 public:
  uint16_t frames() const { return frames_; }
  // The lengths of the first and of the last frame of a burst. Those between
  // are not worth a look at each: where the kinds mix, both come first or last
  // now and then.
  void Learn(uint32_t first, uint32_t last) {
    const auto [least, most] = std::minmax(first, last);
    if (large_ != 0 || most >= kLarge) Note(most >= kLarge, least < kSmall);
  }

 private:
  static constexpr uint32_t kLarge = 2048;  // bytes
  static constexpr uint32_t kSmall = 512;
  static constexpr uint16_t kFew = 8;
  // Bursts after which a kind is forgotten: some 8 MB of large frames.
  static constexpr uint32_t kMemory = 256;

  void Note(bool large, bool small) {
    large_ = large ? kMemory : large_ - 1;
    small_ = small ? kMemory : small_ - (small_ != 0);
    frames_ = MUTATION(keeps_bursts_long, large_ != 0 && small_ != 0, false)
                  ? kFew
                  : kBurstMax;
  }

  uint16_t frames_ = kBurstMax;
  uint32_t large_ = 0;  // bursts until forgotten
  uint32_t small_ = 0;
};

}  // namespace urnic
