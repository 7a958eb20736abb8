#pragma once

// Sums of what the runs of a simulator have counted.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace urnic::testing {

// Adds each member of `from`. REQUIRES: all members are uint64_t, or arrays of
// them.
template <typename Counts>
void AddCounts(Counts& to, const Counts& from) {
  static_assert(std::is_trivially_copyable_v<Counts> &&
                sizeof(Counts) % sizeof(uint64_t) == 0 &&
                alignof(Counts) == alignof(uint64_t));
  constexpr size_t kCounts = sizeof(Counts) / sizeof(uint64_t);
  uint64_t sums[kCounts];
  uint64_t more[kCounts];
  std::memcpy(sums, &to, sizeof(to));
  std::memcpy(more, &from, sizeof(from));
  for (size_t i = 0; i < kCounts; ++i) sums[i] += more[i];
  std::memcpy(&to, sums, sizeof(to));
}

}  // namespace urnic::testing
