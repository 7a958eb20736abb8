#pragma once

// The memory of a program of iWARP: a part that its peer may use, whose earlier
// contents are known, and slots for what its own requests and receives name.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "tests/sim/world.h"
#include "tests/support/fake_host.h"

namespace urnic::sim {

class IwarpMemory {
 public:
  static constexpr uint32_t kPd = 1;
  // What the peer may use. It begins with words for atomics, which the program
  // leaves alone.
  static constexpr size_t kSharedBytes = 32 * 1024;
  static constexpr size_t kWordBytes = 128;
  static constexpr size_t kSlots = 64;
  static constexpr size_t kSlotBytes = 16 * 1024;

  explicit IwarpMemory(Random& random)
      : host_(kSharedBytes + kSlots * kSlotBytes),
        local_key_(
            host_.Register(kPd, kSharedBytes, kSlots * kSlotBytes, kLocal)),
        shared_key_(host_.Register(kPd, 0, kSharedBytes, kShared)),
        read_key_(host_.Register(kPd, 0, kSharedBytes, mem::kRemoteRead)) {
    for (uint8_t& byte : host_.bytes(0, kSharedBytes)) byte = random.Byte();
    for (size_t i = 0; i < kSlots; ++i) {
      free_.push_back(kSharedBytes + i * kSlotBytes);
    }
  }

  static constexpr uint32_t kLocal = mem::kLocalWrite;
  static constexpr uint32_t kShared = mem::kLocalWrite | mem::kRemoteWrite |
                                      mem::kRemoteRead | mem::kRemoteAtomic |
                                      mem::kBindWindow;

  testing::FakeHost& host() { return host_; }
  uint32_t local_key() const { return local_key_; }    // of the slots
  uint32_t shared_key() const { return shared_key_; }  // all rights
  uint32_t read_key() const { return read_key_; }      // only to read
  uint64_t at(size_t offset) const { return host_.address(offset); }
  size_t OffsetOf(uint64_t address) const {
    return static_cast<size_t>(address - at(0));
  }

  bool has_slot() const { return !free_.empty(); }
  // REQUIRES: has_slot()
  size_t TakeSlot(Random& random) {
    std::swap(free_[random.Below(free_.size())], free_.back());
    const size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  // Its bytes are others from now on, as if the program used it again.
  void ReleaseSlot(size_t slot) {
    const uint64_t salt = ++released_ * 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < kSlotBytes; i += 64) Xor(slot + i, salt);
    free_.push_back(slot);
  }

  // Writes, and remembers what was there.
  void Store(size_t offset, std::span<const uint8_t> bytes) {
    const auto target = host_.bytes(offset, bytes.size());
    if (offset < kSharedBytes) {
      changes_.push_back({next_++, offset, {target.begin(), target.end()}});
    }
    std::ranges::copy(bytes, target.begin());
  }
  // Changes that are made from now on have numbers from here on.
  uint64_t stamp() const { return next_; }
  // Nobody will ask about the past.
  void ForgetPast() { changes_.clear(); }
  // Whether each of these bytes was there at some moment since `since`.
  bool Held(size_t offset, std::span<const uint8_t> bytes, uint64_t since) {
    const auto now = host_.bytes(offset, bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != now[i] && !HeldBefore(offset + i, bytes[i], since)) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Change {
    uint64_t number;
    size_t offset;
    std::vector<uint8_t> before;
  };

  bool HeldBefore(size_t at, uint8_t byte, uint64_t since) const {
    return std::ranges::any_of(changes_, [&](const Change& change) {
      return change.number >= since && at >= change.offset &&
             at - change.offset < change.before.size() &&
             change.before[at - change.offset] == byte;
    });
  }
  void Xor(size_t offset, uint64_t salt) {
    uint64_t word;
    uint8_t* at = host_.bytes(offset, 8).data();
    std::memcpy(&word, at, 8);
    word ^= salt;
    std::memcpy(at, &word, 8);
  }

  testing::FakeHost host_;
  uint32_t local_key_;
  uint32_t shared_key_;
  uint32_t read_key_;
  std::vector<size_t> free_;
  std::vector<Change> changes_;
  uint64_t next_ = 0;
  uint64_t released_ = 0;
};

}  // namespace urnic::sim
