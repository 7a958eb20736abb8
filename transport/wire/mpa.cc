#include "transport/wire/mpa.h"

#include <isa-l/crc.h>
#include <nmmintrin.h>

#include <cstring>

namespace urnic::wire {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected, without x^32

// Up to so many bytes. A word of crc32 instructions takes 3 cycles; the
// library's choice of an algorithm takes as long as some words, and its wide
// loads wait for what has just been stored: with it, an 8-byte write over RUD
// took 1.8 times as long.
constexpr size_t kShort = 128;

template <bool kCopies>
uint32_t ExtendShort(uint32_t state, const uint8_t* p, size_t bytes,
                     uint8_t* to) {
  const auto take = [&]<typename Word>(Word) {
    Word word;
    std::memcpy(&word, p, sizeof(word));
    if constexpr (kCopies) {
      std::memcpy(to, &word, sizeof(word));
      to += sizeof(word);
    }
    p += sizeof(word);
    bytes -= sizeof(word);
    return word;
  };
  uint64_t wide = state;
  while (bytes >= sizeof(uint64_t))
    wide = _mm_crc32_u64(wide, take(uint64_t{}));
  state = static_cast<uint32_t>(wide);
  if (bytes >= sizeof(uint32_t)) state = _mm_crc32_u32(state, take(uint32_t{}));
  while (bytes != 0) state = _mm_crc32_u8(state, take(uint8_t{}));
  return state;
}

uint32_t Extend(uint32_t state, const uint8_t* p, size_t bytes) {
  if (bytes <= kShort) return ExtendShort<false>(state, p, bytes, nullptr);
  // The library only reads.
  return crc32_iscsi(const_cast<unsigned char*>(p), static_cast<int>(bytes),
                     state);
}

}  // namespace

constexpr FoldingCrc kFoldingCrc32c = {Extend, CrcFoldBy(kPolynomial, 128),
                                       CrcFoldBy(kPolynomial, 256)};

Crc32c& Crc32c::AddCopied(uint8_t* to, std::span<const uint8_t> bytes) {
  if (bytes.size() <= kShort) {
    state_ = ExtendShort<true>(state_, bytes.data(), bytes.size(), to);
    return *this;
  }
  std::memcpy(to, bytes.data(), bytes.size());
  return Add(bytes);
}

Crc32c& Crc32c::Add(std::span<const uint8_t> bytes) {
  state_ = Extend(state_, bytes.data(), bytes.size());
  return *this;
}

}  // namespace urnic::wire
