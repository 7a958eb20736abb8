#pragma once

// Numbers that a peer or a neighbour should not guess by counting: ports,
// packet sequence numbers, communication ids. Nothing here keeps a secret.

#include <cstdint>

namespace urnic::rdmacm {

// The next number of the sequence that `state` stands for (splitmix64).
inline uint64_t NextRandom(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A state that no other process starts from.
uint64_t RandomSeed();

}  // namespace urnic::rdmacm
