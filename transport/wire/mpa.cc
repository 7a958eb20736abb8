#include "transport/wire/mpa.h"

#include <isa-l/crc.h>

namespace urnic::wire {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected, without x^32

uint32_t Extend(uint32_t state, const uint8_t* p, size_t bytes) {
  // The library only reads.
  return crc32_iscsi(const_cast<unsigned char*>(p), static_cast<int>(bytes),
                     state);
}

}  // namespace

constexpr FoldingCrc kFoldingCrc32c = {Extend, CrcFoldBy(kPolynomial, 128),
                                       CrcFoldBy(kPolynomial, 256)};

Crc32c& Crc32c::Add(std::span<const uint8_t> bytes) {
  state_ = Extend(state_, bytes.data(), bytes.size());
  return *this;
}

}  // namespace urnic::wire
