#pragma once

// Management datagrams: the header of every message on QP0 and QP1.

#include <cstddef>
#include <cstdint>

#include "transport/wire/be.h"

namespace urnic::wire {

//= IBTA 13.4.2: a MAD has 256 bytes
inline constexpr size_t kMadBytes = 256;

//= IBTA 13.5.1: QP1 is the general services interface
inline constexpr uint32_t kGsiQpn = 1;
//= IBTA 10.2.5: QP1 has the well-known Q_Key 0x80010000
inline constexpr uint32_t kQp1Qkey = 0x80010000;

//= IBTA 13.4.3: the format of the common MAD header
struct MadHeader {
  uint8_t base_version = 0;
  uint8_t management_class = 0;
  uint8_t class_version = 0;
  uint8_t method = 0;
  Be<uint16_t> status;
  Be<uint16_t> class_specific;
  Be<uint64_t> transaction_id;
  Be<uint16_t> attribute_id;
  Be<uint16_t> reserved;
  Be<uint32_t> attribute_modifier;
};
static_assert(sizeof(MadHeader) == 24 && alignof(MadHeader) == 1);
static_assert(offsetof(MadHeader, status) == 4);
static_assert(offsetof(MadHeader, transaction_id) == 8);
static_assert(offsetof(MadHeader, attribute_id) == 16);
static_assert(offsetof(MadHeader, attribute_modifier) == 20);

inline constexpr uint8_t kMadBaseVersion = 1;
//= IBTA 13.4.4: communication management is management class 0x07
inline constexpr uint8_t kMadClassCm = 0x07;
//= IBTA 13.4.5: the method "send" asks for no response
inline constexpr uint8_t kMadMethodSend = 0x03;

// A bit field: `kWidth` bits, the lowest of which is bit `kShift` of the word
// that several fields share.
template <unsigned kShift, unsigned kWidth, typename T>
T GetBits(const Be<T>& word) {
  return static_cast<T>(word.value() >> kShift & ((T{1} << kWidth) - 1));
}
template <unsigned kShift, unsigned kWidth, typename T>
void SetBits(Be<T>& word, T value) {
  const T mask = static_cast<T>(((T{1} << kWidth) - 1) << kShift);
  word = Be<T>(static_cast<T>((word.value() & ~mask) |
                              (static_cast<T>(value << kShift) & mask)));
}
template <unsigned kShift, unsigned kWidth>
uint8_t GetBits(uint8_t byte) {
  return static_cast<uint8_t>(byte >> kShift & ((1u << kWidth) - 1));
}
template <unsigned kShift, unsigned kWidth>
void SetBits(uint8_t& byte, uint8_t value) {
  const unsigned mask = ((1u << kWidth) - 1) << kShift;
  byte = static_cast<uint8_t>((byte & ~mask) |
                              (static_cast<unsigned>(value) << kShift & mask));
}

}  // namespace urnic::wire
