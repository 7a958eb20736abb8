#pragma once

// Converts times of the engine's clock into the time of day. Threads: any.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "transport/base/time.h"

namespace urnic::control {

// How far the wall clock is ahead of the engine's clock. The two clocks are
// never read at exactly the same moment, so each measurement differs a little.
// Therefore the offset is kept, so that an event always has the same time of
// day, and the order of events does not change. It is only replaced if a clock
// was set, or has drifted by kToleranceNs.
class ClockOffset {
 public:
  static constexpr int64_t kToleranceNs = 10'000'000;

  // `look` measures the offset, in nanoseconds. If the thread is interrupted
  // meanwhile, the result is too small, never too large.
  int64_t Ns(const std::function<int64_t()>& look);

 private:
  static constexpr int64_t kNone = INT64_MIN;
  std::atomic<int64_t> ns_ = kNone;
};

// In nanoseconds since 1970. `at`: a time of the engine's clock.
int64_t WallTimeNow();
int64_t WallTimeOf(Time at);

// "2026-11-25T14:03:07.123456Z".
std::string WallTimeText(int64_t ns);
std::string WallTimeText(Time at);

}  // namespace urnic::control
