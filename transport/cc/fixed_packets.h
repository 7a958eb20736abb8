#pragma once

// Windows with a fraction of a packet, as integers.
//
// Integers and not doubles, for three reasons. The engine runs in the program's
// threads, and the program may have changed their rounding, or asked for a
// signal when a result is inexact. A simulation with one seed must give the
// same packets on every machine. And an image holds integers.

#include <algorithm>
#include <cstdint>

namespace urnic::cc {

// Packets * 2^32.
using FixedPackets = uint64_t;

inline constexpr FixedPackets kOnePacket = FixedPackets{1} << 32;
// The largest window. With the smallest MSS it is 8 GB, and a TCP window is at
// most 1 GB. Sums, and products with small numbers, do not overflow.
inline constexpr uint32_t kWindowMax = 1u << 24;

constexpr FixedPackets FromPackets(uint32_t packets) {
  return FixedPackets{packets} << 32;
}
// As parts of a packet of `mss` bytes.
constexpr FixedPackets FromBytes(uint32_t bytes, uint32_t mss) {
  return (FixedPackets{bytes} << 32) / mss;
}
constexpr uint64_t ToBytes(FixedPackets packets, uint32_t mss) {
  return (packets >> 16) * mss >> 16;
}

// part / whole in units of 2^-32, at most 1. REQUIRES: whole != 0
constexpr uint64_t Share(uint32_t part, uint64_t whole) {
  if (part >= whole) return kOnePacket;
  return (uint64_t{part} << 32) / whole;
}
// whole * share, where a share of 2^32 is all.
constexpr FixedPackets Times(FixedPackets whole, uint64_t share) {
  return static_cast<FixedPackets>(
      static_cast<unsigned __int128>(whole) * share >> 32);
}

// The largest number whose cube is not larger. REQUIRES: cube < 2^96
constexpr uint64_t CubeRoot(unsigned __int128 cube) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 31; bit != 0; bit >>= 1) {
    const unsigned __int128 candidate = root | bit;
    if (candidate * candidate * candidate <= cube) root |= bit;
  }
  return root;
}
static_assert(CubeRoot(26) == 2 && CubeRoot(27) == 3);

}  // namespace urnic::cc
