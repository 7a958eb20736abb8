#pragma once

// How fuzzers decode their input.

#include <cstddef>
#include <cstdint>

namespace urnic::testing {

// The input, taken from the front; zeros after its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  uint32_t Word() {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word = word << 8 | Byte();
    return word;
  }
  uint32_t Below(uint32_t limit) {
    return limit <= 256 ? Byte() % limit : Word() % limit;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace urnic::testing
