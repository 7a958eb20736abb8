#pragma once

// For tests of calls that must wait: waits until the caller does.

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <fstream>
#include <string>

namespace urnic {

// Returns when thread `tid` of this process sleeps in the kernel, or when
// `over` is set because the call returned without waiting.
inline void AwaitAsleep(pid_t tid, const std::atomic<bool>& over) {
  while (!over) {
    std::string stat;
    std::getline(
        std::ifstream("/proc/self/task/" + std::to_string(tid) + "/stat"),
        stat);
    const size_t state = stat.rfind(") ");
    if (state != std::string::npos && stat[state + 2] == 'S') return;
    sched_yield();
  }
}

}  // namespace urnic
