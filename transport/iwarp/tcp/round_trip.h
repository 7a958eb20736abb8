#pragma once

// Round-trip times, and the retransmission time-out that follows from them.

#include <algorithm>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic::tcp {

//= RFC 7323 5.4: a tick of the timestamp clock takes between 1 ms and 1 s;
//= here, it takes 1 ms
// The connection sends At(now). The offset differs from connection to
// connection, so that no uptime can be read from it.
struct TimestampClock {
  static constexpr int64_t kTickNs = 1'000'000;
  uint32_t offset = 0;
  uint32_t At(Time t) const {
    return offset + static_cast<uint32_t>(t.ns() / kTickNs);
  }
};

// The smallest sample of the last five to ten minutes.
struct WindowedMin {
  static constexpr Duration kWindow = Duration::Seconds(300);

  void OnSample(Duration sample, Time now) {
    if (current.ns() != 0 && now - since < kWindow) {
      current = std::min(current, sample);
      return;
    }
    before = now - since < kWindow * 2 ? current : Duration();
    current = sample;
    since = now;
  }
  // Zero: none yet.
  Duration value() const {
    return before.ns() == 0 ? current : std::min(before, current);
  }

  Duration current;
  Duration before;
  Time since;
};

struct RoundTrip {
  //= RFC 6298 2.1: the time-out is one second before the first sample
  static constexpr Duration kInitial = Duration::Seconds(1);
  //= RFC 6298 2.5: an upper bound of the time-out is at least 60 seconds
  static constexpr Duration kMax = Duration::Seconds(60);
  // A time-out exceeds the smoothed round trip by at least this, as in Linux:
  // it is the longest usual delay of an acknowledgement. The standard
  // recommends a time-out of at least one second, to avoid time-outs that are
  // caused by delays. Instead, the sender undoes those (time stamps, D-SACK,
  // F-RTO).
  static constexpr Duration kMinMargin = Duration::Milliseconds(200);

  //= RFC 6298 2.2: the first sample R gives SRTT = R and RTTVAR = R/2
  //= RFC 6298 2.3: each further sample changes RTTVAR by a quarter and SRTT by
  //= an eighth of the difference
  void OnSample(Duration sample, Time now) {
    sample = std::max(sample, Duration::Nanoseconds(1));
    if (smoothed.ns() == 0) {
      smoothed = sample;
      variance = Duration::Nanoseconds(sample.ns() / 2);
    } else {
      const int64_t error = sample.ns() - smoothed.ns();
      const int64_t distance = error < 0 ? -error : error;
      variance =
          variance + Duration::Nanoseconds((distance - variance.ns()) / 4);
      smoothed = std::max(smoothed + Duration::Nanoseconds(error / 8),
                          Duration::Nanoseconds(1));
    }
    shortest.OnSample(sample, now);
    //= RFC 6298 5.7: a new sample of the round trip ends the back-off
    back_off = 0;
    fresh = true;
  }

  //= RFC 6298 5.5: each time-out doubles the next one, up to the upper bound
  void OnTimeout() {
    if (back_off < kMaxBackOff) ++back_off;
  }

  Duration timeout() const {
    Duration base = initial;
    if (smoothed.ns() != 0) {
      base = smoothed + std::max(kMinMargin, variance * 4);
    }
    return std::min(kMax, std::min(kMax, base) * (int64_t{1} << back_off));
  }

  static constexpr uint8_t kMaxBackOff = 10;
  Duration smoothed;  // SRTT; zero: no sample yet
  Duration variance;  // RTTVAR
  Duration initial = kInitial;
  WindowedMin shortest;
  uint8_t back_off = 0;
  bool fresh = true;  // a sample since the last tail loss probe
};

}  // namespace urnic::tcp
