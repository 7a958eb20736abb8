#pragma once

// The time of day of what the engine's clock has timed. Threads: any.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "transport/base/time.h"

namespace urnic::control {

// How far the wall clock is ahead of the engine's. The same each time, so that
// something that happened once has one time of day and the order stays,
// although neither clock is exact and both are never read at once. Only a clock
// that was set, or has drifted that far, replaces it.
class ClockOffset {
 public:
  static constexpr int64_t kToleranceNs = 10'000'000;

  // `look` compares the clocks, in nanoseconds. A thread that is interrupted
  // meanwhile sees too little, never too much.
  int64_t Ns(const std::function<int64_t()>& look);

 private:
  static constexpr int64_t kNone = INT64_MIN;
  std::atomic<int64_t> ns_ = kNone;
};

// In nanoseconds since 1970. `at`: of the engine's clock.
int64_t WallTimeNow();
int64_t WallTimeOf(Time at);

// "2026-11-25T14:03:07.123456Z".
std::string WallTimeText(int64_t ns);
std::string WallTimeText(Time at);

}  // namespace urnic::control
