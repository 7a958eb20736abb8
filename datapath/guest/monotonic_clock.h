#pragma once

// The kernel's clock, for time-outs of poll(), timer descriptors and other
// threads. The engine has its own clock (datapath/engine/environment.h). Any
// thread.

#include <cstdint>
#include <ctime>

#include "transport/base/time.h"

namespace urnic {

// CLOCK_MONOTONIC.
inline Time MonotonicNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Time::FromNs(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

}  // namespace urnic
