#pragma once

// The send FIFO of a window (verbs/abi/rud_abi.h), from the RNIC's side. The
// program may change an entry at any time, so the RNIC copies it once and uses
// only the copy.
//
// Thread: the holder of the engine's token.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/base/check.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud {

class SendFifo {
 public:
  // The memory of the rings outlives the FIFO. `slot_bytes`: the longest
  // payload of a packet. REQUIRES: count is a power of two.
  SendFifo(urnic_rud_send* entries, uint32_t count,
           urnic_queue_indices* indices, const uint8_t* slots,
           uint32_t slot_bytes)
      : entries_(entries),
        mask_(count - 1),
        indices_(indices),
        slots_(slots),
        slot_bytes_(slot_bytes),
        statuses_(count) {
    URNIC_CHECK(count != 0 && (count & mask_) == 0);
  }

  uint32_t slot_bytes() const { return slot_bytes_; }
  uint32_t count() const { return mask_ + 1; }

  // How many entries wait; 0 if the program's index is invalid. Even if the
  // program posts all the time, no more than one ring of entries is read before
  // Publish().
  uint32_t Waiting() const {
    const uint32_t producer =
        std::atomic_ref(indices_->producer).load(std::memory_order_acquire);
    const uint32_t held = producer - published_;
    const uint32_t done = consumer_ - published_;
    return held <= mask_ + 1 && held > done ? held - done : 0;
  }
  // REQUIRES: Waiting() != 0
  void Read(urnic_rud_send& entry) const {
    std::memcpy(&entry, &Entry(), sizeof(entry));
  }
  // The slot of the first entry.
  uint64_t SlotAddress() const {
    return reinterpret_cast<uint64_t>(slots_ +
                                      size_t{consumer_ & mask_} * slot_bytes_);
  }
  // The first entry is done.
  void Finish(urnic_rud_status status) {
    statuses_[consumer_++ & mask_] = static_cast<uint8_t>(status);
  }
  // Call this when the payload of the finished entries has been copied: the
  // program gets them and their slots back.
  void Publish() {
    if (published_ == consumer_) return;
    for (; published_ != consumer_; ++published_) {
      const uint32_t place = published_ & mask_;
      std::atomic_ref(entries_[place].status)
          .store(statuses_[place], std::memory_order_release);
    }
    std::atomic_ref(indices_->consumer)
        .store(consumer_, std::memory_order_release);
  }

 private:
  const urnic_rud_send& Entry() const { return entries_[consumer_ & mask_]; }

  urnic_rud_send* const entries_;
  const uint32_t mask_;
  urnic_queue_indices* const indices_;
  const uint8_t* const slots_;
  const uint32_t slot_bytes_;
  std::vector<uint8_t> statuses_;  // of finished, unpublished entries
  uint32_t consumer_ = 0;
  uint32_t published_ = 0;
};

}  // namespace urnic::rud
