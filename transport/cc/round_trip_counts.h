#pragma once

// How long the round trips of a path took: a count for each power of two of
// microseconds. It shows people what the smoothed value hides.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::cc {

struct RoundTripCounts {
  // Place 0: less than 1 us. Place i: from 2^(i-1) us to less than 2^i us. The
  // last: all that took longer (half a second).
  static constexpr size_t kPlaces = 21;

  void Add(Duration round_trip) {
    const auto us = static_cast<uint64_t>(round_trip.ns()) / 1000;
    ++counts[std::min<size_t>(std::bit_width(us), kPlaces - 1)];
  }

  void Add(const RoundTripCounts& others) {
    for (size_t i = 0; i != kPlaces; ++i) counts[i] += others.counts[i];
  }

  std::array<uint64_t, kPlaces> counts = {};
};

}  // namespace urnic::cc
