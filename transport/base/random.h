#pragma once

// SplitMix64: small, the same on every machine, for what must replay from a
// seed. Its numbers are predictable: they are not for secrets.

#include <cstdint>

namespace urnic {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, limit). REQUIRES: limit > 0
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  uint8_t Byte() { return static_cast<uint8_t>(Next() >> 56); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace urnic
