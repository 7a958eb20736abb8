#pragma once

// Bounds live here and only here: Take<H>() is the one way to get a view of a
// header in received bytes.

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

// Walks over bytes that someone else owns; they must outlive the views.
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

  // Passes over `bytes`; false (and nothing is consumed) when fewer are left.
  [[nodiscard]] bool Skip(size_t bytes) {
    if (rest_.size() < bytes) return false;
    rest_ = rest_.subspan(bytes);
    return true;
  }

  // Shortens what is left to `bytes`: padding of short frames lies behind.
  // False (and nothing changes) when fewer are left.
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
