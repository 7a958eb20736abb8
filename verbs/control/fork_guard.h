#pragma once

// After fork() the child has a copy of our memory but none of our threads, and
// the port belongs to the parent. In the child, every call fails with EIO, and
// no object of ours is cleaned up (docs/design/0003-a-guest-in-the-program.md).

#include <atomic>

namespace urnic::control {

namespace internal {
extern std::atomic<bool> in_forked_child;
}

// Arms the guard; later calls have no effect. Any thread.
void InstallForkGuard();

// True in a child of the process that armed the guard. One load.
inline bool InForkedChild() {
  return internal::in_forked_child.load(std::memory_order_relaxed);
}

}  // namespace urnic::control
