#pragma once

// For tests of calls that must wait: when the caller does.

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <fstream>
#include <string>

namespace urnic {

// Returns once thread `tid` of this process sleeps in the kernel, or `over`
// is set: by a call that did not wait, as it should have.
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
