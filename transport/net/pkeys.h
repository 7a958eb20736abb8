#pragma once

// Partitions: which P_Keys may talk to each other.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace urnic::net {

inline constexpr uint16_t kFullMember = 0x8000;

//= IBTA 10.9.3: two P_Keys match if they name the same partition and at least
//= one is that of a full member
constexpr bool PkeyMatches(uint16_t theirs, uint16_t ours) {
  return ((theirs ^ ours) & ~kFullMember) == 0 &&
         ((theirs | ours) & kFullMember) != 0;
}

// The index of the entry of our table that matches; of several, one with full
// membership, as in Linux.
inline std::optional<uint16_t> FindPkey(std::span<const uint16_t> table,
                                        uint16_t theirs) {
  std::optional<uint16_t> found;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!PkeyMatches(theirs, table[i])) continue;
    if ((table[i] & kFullMember) != 0) return static_cast<uint16_t>(i);
    if (!found.has_value()) found = static_cast<uint16_t>(i);
  }
  return found;
}

}  // namespace urnic::net
