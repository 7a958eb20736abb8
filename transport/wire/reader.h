#pragma once

// The only place that checks bounds: Take<H>() is the only way to get a view of
// a header in received bytes.

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

// Reads bytes that the caller owns; they must outlive the views.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  // A view of the next header, or null (and nothing is consumed) when fewer
  // bytes than that are left.
  template <typename H>
  [[nodiscard]] const H* Take() {
    static_assert(alignof(H) == 1, "wire structs must be alignment-free");
    if (rest_.size() < sizeof(H)) return nullptr;
    const H* header = reinterpret_cast<const H*>(rest_.data());
    rest_ = rest_.subspan(sizeof(H));
    return header;
  }

  // Skips `bytes`. False (and nothing is consumed) if fewer are left.
  [[nodiscard]] bool Skip(size_t bytes) {
    if (rest_.size() < bytes) return false;
    rest_ = rest_.subspan(bytes);
    return true;
  }

  // Shortens the rest to `bytes`, to remove the padding of short frames. False
  // (and nothing changes) if fewer are left.
  [[nodiscard]] bool Limit(size_t bytes) {
    if (rest_.size() < bytes) return false;
    rest_ = rest_.first(bytes);
    return true;
  }

  std::span<const uint8_t> rest() const { return rest_; }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace urnic::wire
