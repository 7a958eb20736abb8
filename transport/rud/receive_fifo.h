#pragma once

// The receive FIFO of a window (verbs/abi/rud_abi.h), from the RNIC's side. The
// program may write anything to its memory at any time. So the RNIC reads
// nothing but the consumer index, and keeps its own count of what it has handed
// out.
//
// Thread: the holder of the engine's token.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "transport/base/check.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud {

class ReceiveFifo {
 public:
  // The memory of the rings outlives the FIFO. `slot_bytes`: the longest
  // payload. REQUIRES: count is a power of two.
  ReceiveFifo(urnic_rud_receive* entries, uint32_t count,
              urnic_queue_indices* indices, uint8_t* slots, uint32_t slot_bytes)
      : entries_(entries),
        mask_(count - 1),
        indices_(indices),
        slots_(slots),
        slot_bytes_(slot_bytes),
        firsts_(count) {
    URNIC_CHECK(count != 0 && (count & mask_) == 0);
  }

  uint32_t slot_bytes() const { return slot_bytes_; }
  uint32_t count() const { return mask_ + 1; }
  // Entries that the program has not returned; count() if its index is invalid.
  // And entries that were discarded because the FIFO was full.
  uint32_t unread() const {
    return std::min(
        published_ -
            std::atomic_ref(indices_->consumer).load(std::memory_order_relaxed),
        count());
  }
  uint64_t discarded() const { return discarded_; }
  // Entries that the program could see so far.
  uint32_t published() const { return published_; }

  // Adds an entry. The program sees it after Publish(), when everything that
  // was placed before is in memory. False: the FIFO is full, or the program's
  // index is invalid. REQUIRES: payload.size() <= slot_bytes()
  bool Push(const urnic_rud_receive& entry, std::span<const uint8_t> payload) {
    urnic_rud_receive* const to = Next();
    if (to == nullptr) return false;
    if (!payload.empty()) {
      const uint32_t place = producer_ & mask_;
      std::memcpy(slots_ + size_t{place} * slot_bytes_, payload.data(),
                  payload.size());
    }
    std::memcpy(reinterpret_cast<uint8_t*>(to) + kFirstBytes,
                reinterpret_cast<const uint8_t*>(&entry) + kFirstBytes,
                sizeof(entry) - kFirstBytes);
    PushNext({entry.type, entry.flags, entry.path, entry.number});
    return true;
  }

  // The same in two steps. Next() returns the entry, or null; the caller fills
  // it from the field `bytes` on. PushNext() adds it with its first word.
  urnic_rud_receive* Next() {
    const uint32_t consumer =
        std::atomic_ref(indices_->consumer).load(std::memory_order_acquire);
    if (producer_ - consumer <= mask_) return &entries_[producer_ & mask_];
    ++discarded_;
    return nullptr;
  }
  // Document C: the first line of an entry, which tells the program that the
  // entry is there, is written when everything else is in memory.
  struct First {
    uint8_t type;
    uint8_t flags;
    uint8_t path;
    uint8_t number;
  };
  // REQUIRES: Next() != null
  void PushNext(First first) { firsts_[producer_++ & mask_] = Word(first); }

  void Publish() {
    if (published_ == producer_) return;
    for (; published_ != producer_; ++published_) {
      const uint32_t place = published_ & mask_;
      std::atomic_ref(*reinterpret_cast<uint32_t*>(&entries_[place]))
          .store(firsts_[place], std::memory_order_release);
    }
    std::atomic_ref(indices_->producer)
        .store(producer_, std::memory_order_release);
  }

 private:
  static constexpr size_t kFirstBytes = sizeof(First);
  static_assert(offsetof(urnic_rud_receive, bytes) == kFirstBytes);

  static uint32_t Word(First first) {
    return uint32_t{first.number} << 24 | uint32_t{first.path} << 16 |
           uint32_t{first.flags} << 8 | first.type;
  }

  urnic_rud_receive* const entries_;
  const uint32_t mask_;
  urnic_queue_indices* const indices_;
  uint8_t* const slots_;
  const uint32_t slot_bytes_;
  std::vector<uint32_t> firsts_;  // first words of unpublished entries
  uint32_t producer_ = 0;
  uint32_t published_ = 0;
  uint64_t discarded_ = 0;
};

}  // namespace urnic::rud
