#pragma once

// The opposite of Reader: appends headers.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace urnic::wire {

// Writes to bytes that the caller owns. It does not check bounds: the caller
// knows how much it will append and has checked once that there is room.
class Appender {
 public:
  explicit Appender(uint8_t* out) : out_(out) {}

  template <typename H>
  void Append(const H& header) {
    static_assert(alignof(H) == 1, "wire structs must be alignment-free");
    std::memcpy(out_ + size_, &header, sizeof(header));
    size_ += sizeof(header);
  }
  void AppendBytes(std::span<const uint8_t> bytes) {
    if (!bytes.empty()) std::memcpy(out_ + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void AppendZeros(size_t bytes) {
    std::memset(out_ + size_, 0, bytes);
    size_ += bytes;
  }
  size_t size() const { return size_; }

 private:
  uint8_t* out_;
  size_t size_ = 0;
};

}  // namespace urnic::wire
