#pragma once

#include <cstdint>

namespace urnic {

// Numbers that must not be mixed up. Each wraps the value as the program and
// the wire show it.

// A queue pair number: 24 bits. numbers.h says what they and those of a key
// mean, and how they are drawn.
struct Qpn {
  uint32_t value = 0;
  friend constexpr bool operator==(Qpn, Qpn) = default;
};

// A local or remote key of a memory region.
struct MrKey {
  uint32_t value = 0;
  friend constexpr bool operator==(MrKey, MrKey) = default;
};

}  // namespace urnic
