#pragma once

// Ranges of addresses, and the units of the cache.

#include <cstdint>

namespace urnic::regcache {

constexpr unsigned kFragmentBits = 24;  // 16 MB
constexpr unsigned kSegmentBits = 32;   // 4 GB
constexpr uint64_t kFragmentBytes = uint64_t{1} << kFragmentBits;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kAddressEnd = uint64_t{1} << 63;

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;  // behind the last byte

  uint64_t bytes() const { return end - begin; }
  bool Covers(Range other) const {
    return begin <= other.begin && other.end <= end;
  }
  bool Overlaps(Range other) const {
    return begin < other.end && other.begin < end;
  }
  bool operator==(const Range&) const = default;

  Range RoundedOut(uint64_t unit) const {
    return {begin & ~(unit - 1), (end + unit - 1) & ~(unit - 1)};
  }
  // What of it is in front of, or behind, a range that it overlaps: the part
  // that has `keep`, which lies within and does not overlap `without`. If it
  // does, `keep`.
  Range Without(Range without, Range keep) const {
    if (!Overlaps(without)) return *this;
    if (without.end <= keep.begin) return {without.end, end};
    if (keep.end <= without.begin) return {begin, without.begin};
    return keep;
  }
};

inline Range RangeOf(const void* address, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  // An end that would overflow: to the end of the address space.
  return {begin, begin + bytes < begin ? UINT64_MAX : begin + bytes};
}

}  // namespace urnic::regcache
