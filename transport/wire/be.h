#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace urnic::wire {

// An unsigned integer stored in network byte order. Alignment 1, no implicit
// conversion: a Be<> becomes a number only through value(). This header is the
// one place where bytes are swapped. (memcpy + bswap: one load and one bswap
// in GCC and Clang; a shift loop stays a loop in GCC 12.)
template <typename T>
class Be {
  static_assert(std::is_unsigned_v<T>);

 public:
  Be() = default;
  explicit Be(T host) {
    const T wire = Swap(host);
    std::memcpy(bytes_, &wire, sizeof(T));
  }
  T value() const {
    T wire;
    std::memcpy(&wire, bytes_, sizeof(T));
    return Swap(wire);
  }
  // The highest bit, without the swap.
  bool top_bit() const { return (bytes_[0] & 0x80) != 0; }

 private:
  static T Swap(T v) {
    static_assert(std::endian::native == std::endian::little);
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(v);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(v);
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(v);
  }
  uint8_t bytes_[sizeof(T)] = {};
};
static_assert(sizeof(Be<uint64_t>) == 8 && alignof(Be<uint64_t>) == 1);

}  // namespace urnic::wire
