#pragma once

// The reaction point of DCQCN (Zhu et al., SIGCOMM 2015, 3.1): determines how
// much the sender of marked packets slows down when it is notified. DCQCN
// changes a rate; here it is a window. Time is counted in periods that the
// caller chooses, usually a round trip.
//
// A plain value. Thread: one at a time.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

struct ReactionPoint {
  static constexpr uint32_t kAll = 1u << 16;  // alpha = 1
  static constexpr uint32_t kGain = 16;       // alpha moves by a part of this
  // Older periods have no weight any more.
  static constexpr int64_t kPeriods = 256;

  // A notification has come. Returns the reduced window, or `window` itself if
  // this period has had a notification. REQUIRES: period > 0
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

  // The moving average of the part of the periods that had a notification. The
  // first one halves the window.
  uint32_t alpha = kAll;
  bool notified = false;  // notified_at is known
  Time notified_at;
};

}  // namespace urnic::cc
