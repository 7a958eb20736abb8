#pragma once

// The send FIFO of a window (verbs/abi/rud_abi.h), as the RNIC reads it. An
// entry is copied once, and only the copy is used.
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
  // Memory of the rings; it outlives the FIFO. `slot_bytes`: the longest
  // payload of a packet. REQUIRES: entries is a power of two.
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

  // How many entries wait; 0 if the program's index makes no sense. A program
  // that posts while the RNIC reads gets no more than a ring of entries read
  // before Publish().
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
  // Where the payload of the first entry is.
  uint64_t SlotAddress() const {
    return reinterpret_cast<uint64_t>(slots_ +
                                      size_t{consumer_ & mask_} * slot_bytes_);
  }
  // The first entry is done.
  void Finish(urnic_rud_status status) {
    statuses_[consumer_++ & mask_] = static_cast<uint8_t>(status);
  }
  // The payload of what is done has been copied: the program may use the
  // entries and slots again.
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
  std::vector<uint8_t> statuses_;  // of entries that are not published
  uint32_t consumer_ = 0;
  uint32_t published_ = 0;
};

}  // namespace urnic::rud
