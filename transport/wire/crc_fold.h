#pragma once

// For code that computes a CRC while it copies. It keeps the message so far as
// a few 16-byte accumulators. It multiplies each of them and adds it to the
// bytes that many positions later. To start, add the running state to the first
// four bytes. At the end, `extend(0, ..)` of the accumulators, in memory order,
// is the state.

#include <cstddef>
#include <cstdint>

namespace urnic::wire {

// The state after one more zero bit. `polynomial`: reflected, without x^32.
constexpr uint32_t CrcStepBit(uint32_t polynomial, uint32_t state) {
  return state >> 1 ^ ((state & 1) != 0 ? polynomial : 0);
}

// What moves an accumulator.
struct alignas(16) CrcFold {
  uint64_t first;   // for its first eight bytes
  uint64_t second;  // for the others
};

// The product of a 64-bit word and a 33-bit multiplier has powers of x that are
// 32 lower than its position says.
constexpr uint64_t CrcFoldMultiplier(uint32_t polynomial, int bits) {
  uint32_t power = 0x80000000;  // x^0
  for (int bit = 0; bit < bits; ++bit) power = CrcStepBit(polynomial, power);
  return static_cast<uint64_t>(power) << 1;
}

constexpr CrcFold CrcFoldBy(uint32_t polynomial, int bytes) {
  return {CrcFoldMultiplier(polynomial, 8 * bytes + 32),
          CrcFoldMultiplier(polynomial, 8 * bytes - 32)};
}

// A CRC that can be computed so.
struct FoldingCrc {
  // The running state after `bytes` more. Those of the ICRC are a multiple of
  // four, and 16 bytes at `p` are readable.
  uint32_t (*extend)(uint32_t state, const uint8_t* p, size_t bytes);
  CrcFold by128;  // bytes
  CrcFold by256;
};

}  // namespace urnic::wire
