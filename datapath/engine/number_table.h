#pragma once

// Finds objects by their number (transport/base/numbers.h). The table grows by
// segments. So a table of few objects is small (16 KB), and growing never needs
// a pause to move all entries: an Add() moves at most two pointers.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "transport/base/leased_sequence.h"
#include "transport/base/numbers.h"

namespace urnic {

// The caller owns the objects. Thread: one at a time.
template <typename T>
class NumberTable {
 public:
  // Leases numbers of the space as needed. REQUIRES: `max` <= kMaxQueuePairs;
  // the lessor outlives the table.
  NumberTable(uint32_t max, Lessor* lessor, NumberSpace space,
              const NumberKey& key)
      : max_(max),
        sequence_(lessor, space, key),
        slots_(kSegment, std::min(std::bit_ceil(std::max(2 * max, kSegment)),
                                  kIndexCount)),
        segments_(new std::unique_ptr<Entry[]>[slots_.most() / kSegment]) {
    URNIC_CHECK(max <= kMaxQueuePairs);
    segments_[0].reset(new Entry[kSegment]);
  }

  // Null: no object has the number.
  T* Find(uint32_t number) const {
    const Entry& entry = At(slots_.Of(number));
    return entry.number == number ? entry.object : nullptr;
  }

  // Draws an unused number for which `is_busy(number)` is false. None: there
  // are `max` objects, or all numbers that are or could be leased are busy.
  template <typename IsBusy>
  std::optional<uint32_t> Draw(IsBusy&& is_busy) {
    if (size_ == max_) return std::nullopt;
    while (slots_.count() < slots_.most() && slots_.count() < 2 * (size_ + 1)) {
      Grow();
    }
    uint64_t tries = 0;
    do {
      const auto draw = sequence_.Next();
      if (!draw.has_value()) break;
      const uint32_t number = draw->number;
      if (IsReservedIndex(IndexOf(number))) continue;
      if (At(slots_.Of(number)).object == nullptr && !is_busy(number)) {
        return number;
      }
    } while (++tries <= sequence_.held());
    return std::nullopt;
  }

  // Makes a place for a number that Draw() has not returned. False: the number
  // is in use, there are `max` objects, or another number has the same place
  // even in the largest table.
  bool MakeRoomFor(uint32_t number) {
    if (size_ == max_) return false;
    const auto taken = [&] { return At(slots_.Of(number)).object != nullptr; };
    while (slots_.count() < slots_.most() &&
           (slots_.count() < 2 * (size_ + 1) || taken())) {
      if (taken() && ((At(slots_.Of(number)).number ^ number) &
                      (slots_.most() - 1)) == 0) {
        return false;
      }
      Grow();
    }
    return !taken();
  }

  // REQUIRES: `number` is the last number drawn, or MakeRoomFor(number) was
  // true.
  void Add(uint32_t number, T* object) {
    Entry& entry = At(slots_.Of(number));
    URNIC_CHECK(entry.object == nullptr && object != nullptr);
    entry = {object, number};
    ++size_;
  }
  // REQUIRES: the object is in the table.
  void Remove(uint32_t number) {
    Entry& entry = At(slots_.Of(number));
    URNIC_CHECK(entry.object != nullptr && entry.number == number);
    entry = {};
    --size_;
  }

  uint32_t size() const { return size_; }
  uint32_t max() const { return max_; }

  // Calls `f(object)` for each object; `f` may remove that object.
  template <typename F>
  void ForEach(F&& f) const {
    uint32_t left = size_;
    for (uint32_t i = 0; i < slots_.count() && left > 0; ++i) {
      if (T* const object = At(i).object) {
        --left;
        f(*object);
      }
    }
  }

 private:
  static constexpr uint32_t kSegment = 1024;
  struct Entry {
    T* object = nullptr;
    uint32_t number = 0;
  };
  Entry& At(uint32_t slot) const {
    return segments_[slot / kSegment][slot % kSegment];
  }
  void Grow() {
    const GrowingSlots::Split split = slots_.Grow();
    auto& segment = segments_[split.to / kSegment];
    if (segment == nullptr) segment.reset(new Entry[kSegment]);
    Entry& from = At(split.from);
    if (from.object == nullptr || slots_.Of(from.number) != split.to) return;
    At(split.to) = std::exchange(from, {});
  }

  const uint32_t max_;
  LeasedSequence sequence_;
  GrowingSlots slots_;
  std::unique_ptr<std::unique_ptr<Entry[]>[]> segments_;
  uint32_t size_ = 0;
};

}  // namespace urnic
