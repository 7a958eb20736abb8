#pragma once

// What an engine takes from outside: the time, and randomness. Which of the
// two below it is, is a matter of the build (docs/design/0005, point 9), so
// that reading the clock is no virtual call: `:engine` is compiled with the
// first, `:engine_in_virtual_time` with the second, from the same sources.
// Nothing else in them reads a clock, draws a number or waits.

#include <cstdint>

#include "transport/base/time.h"

#ifdef URNIC_VIRTUAL_TIME
#include "transport/base/random.h"
#endif

namespace urnic {

#ifndef URNIC_VIRTUAL_TIME

// Of programs: the processor's cycle counter and the kernel's random numbers.
// Any thread. REQUIRES: EalUsable() (datapath/guest/eal.h).
class Environment {
 public:
  // Monotonic nanoseconds.
  static Time Now();
  // The wall clock's time at that moment, in nanoseconds since 1970, provided
  // that nobody has set the clock since.
  static int64_t WallClockNs(Time then);
  // 64 random bits.
  static uint64_t Draw();
  // Waits outside of the token, for other threads or processes.
  static void Sleep(Duration time);
};

#else

// Of simulators: a clock that somebody else moves, and a seed. One thread.
class Environment {
 public:
  Environment() = default;  // REQUIRES: no engine uses it
  // `now` outlives every engine that uses the environment or a copy of it.
  Environment(const Time* now, uint64_t seed) : now_(now), random_(seed) {}

  Time Now() const { return *now_; }
  uint64_t Draw() { return random_.Next(); }
  // Nobody is there to wait for: time passes between calls of the engine only.
  static void Sleep(Duration) {}

 private:
  const Time* now_ = nullptr;
  Random random_{0};
};

#endif

}  // namespace urnic
