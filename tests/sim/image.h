#pragma once

// The oracle's second copy of a host's memory: what every byte must be. The
// memory is cut into slots with guard bytes between them. A slot is lent to one
// work request at a time, so what it must hold is always known.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/program_memory.h"
#include "tests/sim/world.h"

namespace urnic::sim {

class Image {
 public:
  Image(ProgramMemory& host, Random& random) : host_(host), want_(host.size()) {
    for (size_t i = 0; i + 8 <= want_.size(); i += 8) {
      const uint64_t word = random.Next();
      std::memcpy(&want_[i], &word, 8);
    }
    std::memcpy(host_.bytes(0, want_.size()).data(), want_.data(),
                want_.size());
  }

  ProgramMemory& host() { return host_; }
  std::span<const uint8_t> want(size_t offset, size_t bytes) const {
    return {want_.data() + offset, bytes};
  }

  // The program writes these bytes.
  void Fill(size_t offset, size_t bytes, Random& random) {
    for (size_t i = 0; i < bytes; ++i) want_[offset + i] = random.Byte();
    std::memcpy(host_.bytes(offset, bytes).data(), &want_[offset], bytes);
  }
  void Store(size_t offset, std::span<const uint8_t> bytes) {
    Expect(offset, bytes);
    std::memcpy(host_.bytes(offset, bytes.size()).data(), bytes.data(),
                bytes.size());
  }

  // The RNIC must have written these bytes by now.
  void Expect(size_t offset, std::span<const uint8_t> bytes) {
    if (!bytes.empty()) {
      std::memcpy(&want_[offset], bytes.data(), bytes.size());
    }
  }

  // The contents of these bytes are unknown (a request failed).
  void Forget(size_t offset, size_t bytes) {
    unknown_.push_back({offset, bytes});
  }
  // The program has filled them again.
  void Remember(size_t offset) {
    std::erase_if(unknown_, [&](const auto& u) { return u.first == offset; });
  }

  void Check(size_t offset, size_t bytes, const std::string& what) const {
    const uint8_t* have = host_.bytes(offset, bytes).data();
    if (std::memcmp(have, &want_[offset], bytes) == 0) return;
    size_t i = 0;
    while (have[i] == want_[offset + i]) ++i;
    Violate(what + ": byte " + std::to_string(i) + " of " +
            std::to_string(bytes) + " is wrong");
  }

  // Checks everything that is known.
  void CheckAll(const std::string& what) {
    for (const auto& [offset, bytes] : unknown_) {
      std::memcpy(&want_[offset], host_.bytes(offset, bytes).data(), bytes);
    }
    Check(0, want_.size(), what);
  }

 private:
  ProgramMemory& host_;
  std::vector<uint8_t> want_;
  std::vector<std::pair<size_t, size_t>> unknown_;
};

// Slots of one size in a row.
class SlotPool {
 public:
  static constexpr size_t kGuardBytes = 64;

  SlotPool(Image& image, size_t begin, uint32_t count, size_t slot_bytes)
      : image_(image), begin_(begin), slot_bytes_(slot_bytes) {
    for (uint32_t i = 0; i < count; ++i) free_.push_back(i);
  }
  static size_t BytesFor(uint32_t count, size_t slot_bytes) {
    return count * (slot_bytes + kGuardBytes) + kGuardBytes;
  }

  bool empty() const { return free_.empty(); }
  size_t begin() const { return begin_; }
  size_t slot_bytes() const { return slot_bytes_; }
  Image& image() { return image_; }

  // Returns the slot's offset; its bytes are new and random.
  // REQUIRES: !empty()
  size_t Take(Random& random) {
    const size_t at = random.Below(free_.size());
    const uint32_t slot = free_[at];
    free_[at] = free_.back();
    free_.pop_back();
    const size_t offset = OffsetOf(slot);
    // Detects a write since the last owner.
    Check(offset, "a slot that nobody owns");
    image_.Fill(offset, slot_bytes_, random);
    return offset;
  }

  // The slot with its guards holds what it must.
  void Check(size_t offset, const std::string& what) const {
    image_.Check(offset - kGuardBytes, slot_bytes_ + 2 * kGuardBytes, what);
  }
  void Release(size_t offset, Random& random) {
    image_.Fill(offset, slot_bytes_, random);
    free_.push_back(
        static_cast<uint32_t>((offset - begin_) / (slot_bytes_ + kGuardBytes)));
  }
  // The contents of the slot are unknown, and may still change.
  void Lose(size_t offset) {
    image_.Forget(offset, slot_bytes_);
    lost_.push_back(offset);
  }
  // Lost slots can no longer be written.
  void Reclaim(Random& random) {
    for (const size_t offset : lost_) {
      image_.Remember(offset);
      Release(offset, random);
    }
    lost_.clear();
  }

 private:
  size_t OffsetOf(uint32_t slot) const {
    return begin_ + kGuardBytes + slot * (slot_bytes_ + kGuardBytes);
  }

  Image& image_;
  size_t begin_;
  size_t slot_bytes_;
  std::vector<uint32_t> free_;
  std::vector<size_t> lost_;
};

}  // namespace urnic::sim
