#pragma once

#include <cstdint>

namespace urnic {

// A packet sequence number: a point on a circle of 2^24. There is no operator<,
// because order is only defined within half the circle: write `a - b > 0` for
// "a is newer than b".
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t v) : v_(v & 0x00ffffff) {}
  constexpr uint32_t value() const { return v_; }
  constexpr Psn Next() const { return Psn(v_ + 1); }
  // Signed distance a-b on the circle, in [-2^23, 2^23).
  friend constexpr int32_t operator-(Psn a, Psn b) {
    return static_cast<int32_t>((a.v_ - b.v_) << 8) >> 8;
  }
  friend constexpr Psn operator+(Psn a, int32_t n) {
    return Psn(a.v_ + static_cast<uint32_t>(n));
  }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t v_ = 0;
};
static_assert(Psn(0x000000) - Psn(0xffffff) == 1);
static_assert(sizeof(Psn) == 4);

}  // namespace urnic
