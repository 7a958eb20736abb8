#pragma once

#include <cstdint>

namespace urnic {

// Numbers that must not be mixed up. Each wraps the value as the program and
// the wire show it.

// A queue pair number: 24 bits.
struct Qpn {
  uint32_t value = 0;
  friend constexpr bool operator==(Qpn, Qpn) = default;
};

// A local or remote key of a memory region: NIC ordinal (3 bits), index
// (21 bits), variant (8 bits).
struct MrKey {
  uint32_t value = 0;
  friend constexpr bool operator==(MrKey, MrKey) = default;
};

}  // namespace urnic
