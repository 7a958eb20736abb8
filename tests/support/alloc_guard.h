#pragma once

// Counts what the program allocates, for tests of the packet path: link
// //tests/support:alloc_guard and the counter watches malloc and its kin, and
// so new.

#include <cstdint>

namespace urnic::testing {

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
