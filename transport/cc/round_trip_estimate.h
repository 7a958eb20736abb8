#pragma once

// The smoothed round trip of a flow, in eight bytes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "transport/base/time.h"

namespace urnic::cc {

struct RoundTripEstimate {
  // The assumed round trip while none was measured.
  static constexpr Duration kUnknown = Duration::Milliseconds(1);
  // Longer samples count as this.
  static constexpr Duration kMax = Duration::Seconds(2);

  //= RFC 6298 2.2: the first sample R gives SRTT = R and RTTVAR = R/2
  //= RFC 6298 2.3: each further sample changes RTTVAR by a quarter and SRTT by
  //= an eighth of the difference
  void OnSample(Duration round_trip) {
    const auto sample = static_cast<int32_t>(
        std::clamp<int64_t>(round_trip.ns(), 1, kMax.ns()));
    if (__builtin_expect(!known(), 0)) {
      smoothed_ns = static_cast<uint32_t>(sample);
      variation_ns = smoothed_ns / 2;
      return;
    }
    const auto before = static_cast<int32_t>(smoothed_ns);
    const auto variation = static_cast<int32_t>(variation_ns);
    const int32_t error = sample - before;
    variation_ns =
        static_cast<uint32_t>(variation + ((std::abs(error) - variation) >> 2));
    smoothed_ns = static_cast<uint32_t>(std::max(before + (error >> 3), 1));
  }

  bool known() const { return smoothed_ns != 0; }
  Duration smoothed() const {
    return known() ? Duration::Nanoseconds(smoothed_ns) : kUnknown;
  }
  // A time that few round trips exceed.
  Duration longest() const {
    return known()
               ? Duration::Nanoseconds(smoothed_ns + int64_t{4} * variation_ns)
               : kUnknown;
  }

  uint32_t smoothed_ns = 0;  // 0: not known
  uint32_t variation_ns = 0;
};

}  // namespace urnic::cc
