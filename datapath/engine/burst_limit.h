#pragma once

// How many frames a burst has, in either direction. In a larger burst each
// frame costs less, but a small frame waits for all large frames in front of
// it. So bursts are short while small and large frames are mixed.

#include <algorithm>
#include <cstdint>

#include "datapath/port/port.h"
#include "transport/base/mutation.h"

namespace urnic {

class BurstLimit {
 public:
  uint16_t frames() const { return frames_; }
  // Takes the lengths of the first and the last frame of a burst. The frames
  // between them are not looked at, which would cost too much: in mixed traffic
  // each kind is first or last often enough.
  void Learn(uint32_t first, uint32_t last) {
    const auto [least, most] = std::minmax(first, last);
    if (large_ != 0 || most >= kLarge) Note(most >= kLarge, least < kSmall);
  }

 private:
  static constexpr uint32_t kLarge = 2048;  // bytes
  static constexpr uint32_t kSmall = 512;
  static constexpr uint16_t kFew = 8;
  // A kind is forgotten after this many bursts without it: about 8 MB of large
  // frames.
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
