#pragma once

// Counts the program's allocations, for tests of the packet path: link
// //tests/support:alloc_guard. It counts calls of malloc and its relatives,
// therefore also new, and mmap.

#include <cstdint>

namespace urnic::testing {

// Under a sanitizer mmap is not counted.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kGuardSeesMappings = false;
#else
inline constexpr bool kGuardSeesMappings = true;
#endif

// Allocations made by this thread so far.
uint64_t AllocationCount();

// Counts this thread's allocations since it was made.
class AllocGuard {
 public:
  AllocGuard() : begin_(AllocationCount()) {}
  uint64_t count() const { return AllocationCount() - begin_; }

 private:
  uint64_t begin_;
};

}  // namespace urnic::testing
