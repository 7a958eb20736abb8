#pragma once

// The reads and atomics that a responder has accepted: the responses that it
// still owes, and the data that it needs to answer a duplicate.
//= IBTA 9.7.5.1.3: a duplicate read request may ask for the rest of the read
//= IBTA 9.7.5.1.4: a duplicate atomic request is answered with the saved result
//= of the first

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/base/mutation.h"
#include "transport/work/types.h"

namespace urnic::rc {

// The most reads and atomics that a responder can replay (the limit of
// max_dest_rd_atomic).
inline constexpr uint32_t kReplaySlots = URNIC_MAX_RD_ATOMIC;

struct ReplaySlot {
  // kEmpty: an atomic write or a flush, answered like an empty read.
  enum class Kind : uint8_t { kFree, kRead, kAtomic, kEmpty };
  Kind kind = Kind::kFree;
  bool pending = false;   // a response is owed
  bool answered = false;  // in full, at least once
  bool marked = false;    // the request was: the responses are, too
  uint32_t msn = 0;
  Psn first_psn;
  uint32_t packets = 0;
  // Reads: the address and length of the original request, and the part of it
  // that is being answered, as byte offsets.
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t pd = 0;
  uint32_t length = 0;
  uint32_t answer_begin = 0;
  uint32_t answer_next = 0;
  uint32_t answer_end = 0;
  // Atomics: the original value, written by the placement.
  uint64_t original = 0;
};

// A ring of the last `limit` reads and atomics in PSN order. The oldest slot is
// reused first, and only after it has been answered. A requester that sends a
// new request already has the old answer, even if a duplicate has requested it
// again.
class ReplayRing {
 public:
  // `storage` is the caller's; its size is a power of two, or 0.
  explicit ReplayRing(std::span<ReplaySlot> storage) { Use(storage); }

  void Reset(uint32_t limit) {
    SetLimit(limit);
    begin_ = end_ = 0;
    pending_ = 0;
    std::fill_n(slots_, capacity(), ReplaySlot{});
  }

  // At most the capacity. Takes effect with the next request: responses that
  // are owed stay owed.
  void SetLimit(uint32_t limit) { limit_ = std::min(limit, capacity()); }

  uint32_t capacity() const { return mask_ + 1; }

  // Moves to `storage`, which is empty and larger than the old one.
  void MoveTo(std::span<ReplaySlot> storage) {
    URNIC_CHECK(storage.size() > capacity());
    const ReplaySlot* const old = slots_;
    const uint32_t old_mask = mask_;
    Use(storage);
    for (uint32_t i = begin_; i != end_; ++i) {
      slots_[i & mask_] = old[i & old_mask];
    }
  }

  // The slot for a new request, or nullptr if the requester has more
  // outstanding than max_dest_rd_atomic allows.
  ReplaySlot* Add() {
    if (limit_ == 0) return nullptr;
    while (end_ - begin_ >= limit_) {
      ReplaySlot& oldest = At(begin_);
      if (oldest.pending &&
          MUTATION(refuses_after_duplicate_read, !oldest.answered, true))
        return nullptr;
      if (oldest.pending) --pending_;
      ++begin_;
    }
    ReplaySlot& slot = At(end_++);
    slot = ReplaySlot{};
    return &slot;
  }

  void MarkPending(ReplaySlot& slot) {
    const auto place = static_cast<uint32_t>(&slot - slots_);
    const uint32_t number = end_ - 1 - ((end_ - 1 - place) & mask_);
    if (pending_ == 0 || Before(number, first_pending_)) {
      first_pending_ = number;
    }
    if (!slot.pending) ++pending_;
    slot.pending = true;
  }
  void MarkAnswered(ReplaySlot& slot) {
    slot.pending = false;
    slot.answered = true;
    --pending_;
  }

  bool AnyPending() const { return pending_ != 0; }
  // Calls see(key) for the keys of all recorded reads.
  template <typename See>
  void VisitKeys(See&& see) const {
    for (uint32_t i = begin_; i != end_; ++i)
      see(MrKey{slots_[i & mask_].rkey});
  }

  // REQUIRES: AnyPending().
  ReplaySlot& OldestPending() {
    if (Before(first_pending_, begin_)) first_pending_ = begin_;
    while (!At(first_pending_).pending) ++first_pending_;
    return At(first_pending_);
  }

  // Forgets the requests from `psn` on: they failed.
  void DropFrom(Psn psn) {
    while (begin_ != end_ && At(end_ - 1).first_psn - psn >= 0) {
      --end_;
      if (At(end_).pending) --pending_;
      At(end_) = ReplaySlot{};
    }
  }

  // The newest remembered request whose PSNs include `psn`, or nullptr.
  ReplaySlot* Find(Psn psn) {
    for (uint32_t i = end_; i != begin_;) {
      ReplaySlot& slot = At(--i);
      const int32_t offset = psn - slot.first_psn;
      if (offset >= 0 && offset < static_cast<int32_t>(slot.packets)) {
        return &slot;
      }
    }
    return nullptr;
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  static bool Before(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a - b) < 0;
  }

  void Use(std::span<ReplaySlot> storage) {
    URNIC_CHECK(storage.empty() || std::has_single_bit(storage.size()));
    slots_ = storage.data();
    mask_ = static_cast<uint32_t>(storage.size()) - 1;
  }

  ReplaySlot& At(uint32_t number) { return slots_[number & mask_]; }

  // Requests are numbered in order of arrival. [begin_, end_) are recorded, and
  // those before first_pending_ are all answered.
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  uint32_t first_pending_ = 0;
  uint32_t pending_ = 0;
  uint32_t limit_ = 0;
  uint32_t mask_ = 0;  // UINT32_MAX: no slots
  ReplaySlot* slots_ = nullptr;
};

}  // namespace urnic::rc
