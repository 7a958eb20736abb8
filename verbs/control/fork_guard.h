#pragma once

// After fork() the child has a copy of our memory but none of our threads, and
// the port belongs to the parent. Every call fails with EIO there, and nothing
// of ours is cleaned up (docs/design/0003-a-guest-in-the-program.md).

#include <atomic>

namespace urnic::control {

namespace internal {
extern std::atomic<bool> in_forked_child;
}

// Arms the guard; the first call counts. Any thread.
void InstallForkGuard();

// True in a child of the process that armed the guard. One load.
inline bool InForkedChild() {
  return internal::in_forked_child.load(std::memory_order_relaxed);
}

}  // namespace urnic::control
