#pragma once

// Time as a 64-bit count of nanoseconds. The pure folders never read a clock:
// `now` is always an argument (docs/design/0001-sans-io.md).

#include <compare>
#include <cstdint>

namespace urnic {

// A signed length of time in nanoseconds: +-292 years.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration Nanoseconds(int64_t n) { return Duration(n); }
  static constexpr Duration Microseconds(int64_t n) {
    return Duration(n * 1000);
  }
  static constexpr Duration Milliseconds(int64_t n) {
    return Duration(n * 1000000);
  }
  static constexpr Duration Seconds(int64_t n) {
    return Duration(n * 1000000000);
  }
  constexpr int64_t ns() const { return ns_; }
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) {
    return Duration(a.ns_ + b.ns_);
  }
  friend constexpr Duration operator-(Duration a, Duration b) {
    return Duration(a.ns_ - b.ns_);
  }
  friend constexpr Duration operator*(Duration a, int64_t k) {
    return Duration(a.ns_ * k);
  }

 private:
  constexpr explicit Duration(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

// A point on the caller's monotonic clock. Infinite() is "never".
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time FromNs(int64_t ns) { return Time(ns); }
  static constexpr Time Infinite() { return Time(INT64_MAX); }
  constexpr int64_t ns() const { return ns_; }
  constexpr bool IsInfinite() const { return ns_ == INT64_MAX; }
  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) {
    return Time(t.ns_ + d.ns());
  }
  friend constexpr Time operator-(Time t, Duration d) {
    return Time(t.ns_ - d.ns());
  }
  friend constexpr Duration operator-(Time a, Time b) {
    return Duration::Nanoseconds(a.ns_ - b.ns_);
  }

 private:
  constexpr explicit Time(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

}  // namespace urnic
