#pragma once

// DCTCP's estimate of how congested the path is: the fraction of bytes that
// were marked, averaged over windows. A reduction is in proportion to it. For
// networks in which all flows do this and switches mark early; in other
// networks it takes the share of other flows.

#include <algorithm>
#include <cstdint>

namespace urnic::cc {

struct Dctcp {
  static constexpr uint32_t kAll = 1u << 20;  // alpha = 1
  static constexpr uint32_t kGain = 16;       // 1/g

  void OnAck(uint32_t bytes, uint32_t marked_bytes, bool ends_round) {
    acked += bytes;
    marked += std::min(bytes, marked_bytes);
    if (!ends_round || acked == 0) return;
    //= RFC 8257 3.3: at the end of each window
    //= alpha = alpha * (1 - g) + g * (marked bytes / acknowledged bytes)
    const auto fraction = static_cast<uint32_t>(marked * kAll / acked);
    alpha = alpha - alpha / kGain + fraction / kGain;
    acked = marked = 0;
  }

  //= RFC 8257 3.3: marks reduce the window by the fraction alpha / 2
  uint64_t AfterMarks(uint64_t window) const {
    return window -
           static_cast<uint64_t>(static_cast<unsigned __int128>(window) *
                                 alpha / (2 * kAll));
  }

  // Starts as if everything were marked, so the first reaction is strong.
  uint32_t alpha = kAll;
  uint64_t acked = 0;   // bytes, in this round
  uint64_t marked = 0;  // of these
};

}  // namespace urnic::cc
