#pragma once

// A second implementation of MPA's framing for the tests: it writes the stream
// byte by byte and puts a marker wherever one is due. It shares nothing with
// fpdu.h.

#include <cstdint>
#include <span>
#include <vector>

namespace urnic::mpa::testing {

using Bytes = std::vector<uint8_t>;

// CRC32c, one bit at a time.
inline uint32_t SlowCrc32c(std::span<const uint8_t> bytes) {
  uint32_t crc = 0xffffffff;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
  }
  return ~crc;
}

class ReferenceStream {
 public:
  // `phase`: where in the stream the first byte is, modulo 512.
  ReferenceStream(bool crc, bool markers, uint32_t phase = 0)
      : crc_(crc), markers_(markers), phase_(phase) {}

  void AddFpdu(std::span<const uint8_t> ulpdu) {
    begin_ = bytes_.size();
    length_at_ = SIZE_MAX;
    Put(static_cast<uint8_t>(ulpdu.size() >> 8));
    Put(static_cast<uint8_t>(ulpdu.size()));
    for (const uint8_t byte : ulpdu) Put(byte);
    for (size_t n = 2 + ulpdu.size(); n % 4 != 0; ++n) Put(0);
    PutMarkerIfDue();
    const uint32_t crc =
        crc_ ? SlowCrc32c(std::span(bytes_).subspan(begin_)) : 0;
    for (int shift = 0; shift < 32; shift += 8) {
      Put(static_cast<uint8_t>(crc >> shift));
    }
  }
  const Bytes& bytes() const { return bytes_; }
  // Where the last FPDU begins, with its marker if that comes first.
  size_t last_begin() const { return begin_; }
  // Where the markers are.
  const std::vector<size_t>& marker_positions() const { return positions_; }

 private:
  void Put(uint8_t byte) {
    PutMarkerIfDue();
    if (length_at_ == SIZE_MAX) length_at_ = bytes_.size();
    bytes_.push_back(byte);
  }
  void PutMarkerIfDue() {
    if (!markers_ || (phase_ + bytes_.size()) % 512 != 0) return;
    if (!positions_.empty() && positions_.back() == bytes_.size()) return;
    const size_t distance =
        length_at_ == SIZE_MAX ? 0 : bytes_.size() - length_at_;
    positions_.push_back(bytes_.size());
    bytes_.push_back(0);
    bytes_.push_back(0);
    bytes_.push_back(static_cast<uint8_t>(distance >> 8));
    bytes_.push_back(static_cast<uint8_t>(distance));
  }

  const bool crc_;
  const bool markers_;
  const uint32_t phase_;
  Bytes bytes_;
  std::vector<size_t> positions_;
  size_t begin_ = 0;
  size_t length_at_ = SIZE_MAX;
};

}  // namespace urnic::mpa::testing
