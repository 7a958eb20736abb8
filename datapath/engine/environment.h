#pragma once

// The source of time and randomness for an engine, and its witness (witness.h).
// The build chooses one of the two classes below (docs/design/0005, point 9),
// so reading the clock is not a virtual call. `:engine` is compiled with the
// first class and `:engine_in_virtual_time` with the second, from the same
// sources. Nothing else in those sources reads a clock, draws a random number
// or waits.

#include <cstdint>

#include "datapath/engine/witness.h"
#include "transport/base/time.h"

#ifdef URNIC_VIRTUAL_TIME
#include "transport/base/random.h"
#endif

namespace urnic {

#ifndef URNIC_VIRTUAL_TIME

// For programs: the processor's cycle counter and the kernel's random numbers.
// Any thread. REQUIRES: EalUsable() (datapath/guest/eal.h).
class Environment {
 public:
  // Monotonic nanoseconds.
  static Time Now();
  // The wall-clock time at `then`, in nanoseconds since 1970. Wrong if the
  // clock has been set since.
  static int64_t WallClockNs(Time then);
  // 64 random bits.
  static uint64_t Draw();
  // Sleeps, so that other threads or processes can act. Call it without the
  // token.
  static void Sleep(Duration time);
  static Witness witness() { return {}; }
};

#else

// For simulators: a clock that the simulator moves, and a seed. One thread.
class Environment {
 public:
  Environment() = default;  // REQUIRES: no engine uses it
  // `now` outlives every engine that uses the environment or a copy of it.
  Environment(const Time* now, uint64_t seed, Witness witness = {})
      : now_(now), random_(seed), witness_(witness) {}

  Time Now() const { return *now_; }
  int64_t WallClockNs(Time then) const { return then.ns(); }
  uint64_t Draw() { return random_.Next(); }
  // Does nothing: time passes only between calls of the engine.
  static void Sleep(Duration) {}
  Witness witness() const { return witness_; }

 private:
  const Time* now_ = nullptr;
  Random random_{0};
  Witness witness_;
};

#endif

}  // namespace urnic
