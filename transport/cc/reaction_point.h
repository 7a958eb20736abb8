#pragma once

// The reaction point of DCQCN (Zhu et al., SIGCOMM 2015, 3.1): by how much the
// sender of marked packets slows down when it is notified. It is for windows,
// in periods that the caller chooses: a round trip.
//
// A plain value. Thread: one at a time.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

struct ReactionPoint {
  static constexpr uint32_t kAll = 1u << 16;
  static constexpr uint32_t kGain = 16;
  // What is older has no weight left.
  static constexpr int64_t kPeriods = 256;

  // A notification has come. Returns `window` with what the marks leave of it;
  // the same if this period has had a notification. REQUIRES: window < 2^31
  uint32_t OnNotification(Time now, Duration period, uint32_t window) {
    if (notified) {
      const int64_t periods = (now - notified_at).ns() / period.ns();
      if (periods == 0) return window;
      for (int64_t i = 1; i < std::min(periods, kPeriods); ++i) {
        alpha -= alpha / kGain;
      }
    }
    alpha += (kAll - alpha) / kGain;
    notified = true;
    notified_at = now;
    return window - static_cast<uint32_t>(uint64_t{window} * alpha /
                                          (2 * uint64_t{kAll}));
  }

  // The average part of the periods that had a notification. The first one
  // halves the window.
  uint32_t alpha = kAll;
  bool notified = false;  // notified_at is known
  Time notified_at;
};

}  // namespace urnic::cc
