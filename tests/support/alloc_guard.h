#pragma once

// Counts what the program allocates, for tests of the packet path: link
// //tests/support:alloc_guard and the counter watches malloc and its kin, and
// so new, and mmap.

#include <cstdint>

namespace urnic::testing {

// Under a sanitizer mmap is not watched.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kGuardSeesMappings = false;
#else
inline constexpr bool kGuardSeesMappings = true;
#endif

// Allocations made by this thread so far.
uint64_t AllocationCount();

// Allocations while it lives.
class AllocGuard {
 public:
  AllocGuard() : begin_(AllocationCount()) {}
  uint64_t count() const { return AllocationCount() - begin_; }

 private:
  uint64_t begin_;
};

}  // namespace urnic::testing
