#pragma once

// What a thread does that waits for another one, which has perhaps lost its
// CPU to it.
//
// Not sched_yield(): Linux since 6.6 takes each call as the wish to come last,
// so that with other programs on the CPU the caller is away for up to a second
// (measured on 6.18 with three busy processes on one CPU: 960 ms at most, 22 ms
// on average; this way 36 ms and 0.3 ms), long enough for peers to give us up.
// Costs about 60 us when nobody else wants the CPU.

#include <ctime>

namespace urnic {

inline void GiveWay() {
  const timespec moment = {.tv_sec = 0, .tv_nsec = 1};
  nanosleep(&moment, nullptr);
}

}  // namespace urnic
