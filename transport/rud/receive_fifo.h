#pragma once

// The receive FIFO of a window (verbs/abi/rud_abi.h), as the RNIC writes it.
// The program may write anything to it at any time: only the consumer index is
// read, and what the RNIC has given out is counted here.
//
// Thread: the holder of the engine's token.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "transport/base/check.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud {

class ReceiveFifo {
 public:
  // Memory of the rings; it outlives the FIFO. `slot_bytes`: the longest
  // payload. REQUIRES: entries is a power of two.
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
  // Entries that the program can see, since the beginning.
  uint32_t published() const { return published_; }

  // Adds an entry, which the program sees after Publish(): what was placed
  // before is then in memory. REQUIRES: payload.size() <= slot_bytes(). False:
  // it is full, or the program's index makes no sense.
  bool Push(const urnic_rud_receive& entry, std::span<const uint8_t> payload) {
    const uint32_t consumer =
        std::atomic_ref(indices_->consumer).load(std::memory_order_acquire);
    if (producer_ - consumer > mask_) return false;
    const uint32_t place = producer_++ & mask_;
    if (!payload.empty()) {
      std::memcpy(slots_ + size_t{place} * slot_bytes_, payload.data(),
                  payload.size());
    }
    urnic_rud_receive& to = entries_[place];
    // Document C: the first line of an entry, by which the program sees that
    // there is one, is written when all else is in memory
    constexpr size_t kFirst = sizeof(uint32_t);
    std::memcpy(reinterpret_cast<uint8_t*>(&to) + kFirst,
                reinterpret_cast<const uint8_t*>(&entry) + kFirst,
                sizeof(entry) - kFirst);
    std::memcpy(&firsts_[place], &entry, kFirst);
    return true;
  }
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
  urnic_rud_receive* const entries_;
  const uint32_t mask_;
  urnic_queue_indices* const indices_;
  uint8_t* const slots_;
  const uint32_t slot_bytes_;
  std::vector<uint32_t> firsts_;  // words of entries that are not published
  uint32_t producer_ = 0;
  uint32_t published_ = 0;
};

}  // namespace urnic::rud
