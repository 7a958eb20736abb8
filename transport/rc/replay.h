#pragma once

// Reads and atomics that a responder has accepted: the responses it still
// owes, and what it must remember to answer a duplicate. IBTA 9.7.5.1.

#include <cstdint>

#include "transport/work/types.h"

namespace urnic::rc {

// How many reads and atomics a responder can replay (max_dest_rd_atomic).
inline constexpr uint32_t kReplaySlots = URNIC_MAX_RD_ATOMIC;

struct ReplaySlot {
  // kEmpty: an atomic write or a flush, answered like a read of no bytes.
  enum class Kind : uint8_t { kFree, kRead, kAtomic, kEmpty };
  Kind kind = Kind::kFree;
  bool pending = false;   // a response is owed
  bool answered = false;  // once in full, at least
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
  // Atomics: the value before, written by the placement.
  uint64_t original = 0;
};

// A ring of the last `limit` reads and atomics in PSN order. A slot is reused
// oldest first, and only when it does not owe its first answer: a requester
// that sends a new request has the old answer, even if a duplicate has asked
// for it again.
class ReplayRing {
 public:
  // `storage` holds kReplaySlots and is the caller's.
  explicit ReplayRing(ReplaySlot* storage) : slots_(storage) {}

  void Reset(uint32_t limit) {
    limit_ = limit;
    count_ = 0;
    newest_ = 0;
    pending_ = 0;
    for (uint32_t i = 0; i < kReplaySlots; ++i) slots_[i] = ReplaySlot{};
  }

  // Takes effect with the next request: what is owed stays owed.
  void SetLimit(uint32_t limit) { limit_ = limit; }

  // The slot for a new request, or nullptr when the requester has more
  // outstanding than max_dest_rd_atomic allows.
  ReplaySlot* Add() {
    if (limit_ == 0) return nullptr;
    while (count_ >= limit_) {
      ReplaySlot& oldest = At(0);
      if (oldest.pending && !oldest.answered) return nullptr;
      if (oldest.pending) --pending_;
      --count_;
    }
    newest_ = (newest_ + 1) % kReplaySlots;
    ++count_;
    slots_[newest_] = ReplaySlot{};
    return &slots_[newest_];
  }

  void MarkPending(ReplaySlot& slot) {
    if (!slot.pending) ++pending_;
    slot.pending = true;
  }
  void MarkAnswered(ReplaySlot& slot) {
    slot.pending = false;
    slot.answered = true;
    --pending_;
  }

  bool AnyPending() const { return pending_ != 0; }

  // REQUIRES: AnyPending().
  ReplaySlot& OldestPending() {
    uint32_t age = 0;
    while (!At(age).pending) ++age;
    return At(age);
  }

  // Forgets the requests from `psn` on: they failed.
  void DropFrom(Psn psn) {
    while (count_ > 0 && At(count_ - 1).first_psn - psn >= 0) {
      if (At(count_ - 1).pending) --pending_;
      At(count_ - 1) = ReplaySlot{};
      --count_;
      newest_ = (newest_ + kReplaySlots - 1) % kReplaySlots;
    }
  }

  // The remembered request whose PSNs include `psn`, the newest first.
  ReplaySlot* Find(Psn psn) {
    for (uint32_t age = count_; age-- > 0;) {
      ReplaySlot& slot = At(age);
      const int32_t offset = psn - slot.first_psn;
      if (offset >= 0 && offset < static_cast<int32_t>(slot.packets)) {
        return &slot;
      }
    }
    return nullptr;
  }

 private:
  // age 0 is the oldest.
  ReplaySlot& At(uint32_t age) {
    return slots_[(newest_ + kReplaySlots + 1 - count_ + age) % kReplaySlots];
  }

  uint32_t limit_ = 0;
  uint32_t count_ = 0;
  uint32_t newest_ = 0;
  uint32_t pending_ = 0;
  ReplaySlot* slots_;
};

}  // namespace urnic::rc
