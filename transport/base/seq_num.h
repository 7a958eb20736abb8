#pragma once

#include <cstdint>

namespace urnic {

//= RFC 9293 3.4: sequence numbers are compared modulo 2^32
// A byte of a TCP stream: a point on a circle of 2^32. Like Psn, it has no
// operator<: write `a - b > 0` for "a comes after b".
class SeqNum {
 public:
  constexpr SeqNum() = default;
  constexpr explicit SeqNum(uint32_t v) : v_(v) {}
  constexpr uint32_t value() const { return v_; }
  // Signed distance a-b on the circle, in [-2^31, 2^31).
  friend constexpr int32_t operator-(SeqNum a, SeqNum b) {
    return static_cast<int32_t>(a.v_ - b.v_);
  }
  friend constexpr SeqNum operator+(SeqNum a, uint32_t n) {
    return SeqNum(a.v_ + n);
  }
  friend constexpr bool operator==(SeqNum, SeqNum) = default;

 private:
  uint32_t v_ = 0;
};
static_assert(SeqNum(0) - SeqNum(0xffffffff) == 1);

constexpr SeqNum Later(SeqNum a, SeqNum b) { return a - b > 0 ? a : b; }
constexpr SeqNum Earlier(SeqNum a, SeqNum b) { return a - b < 0 ? a : b; }

}  // namespace urnic
