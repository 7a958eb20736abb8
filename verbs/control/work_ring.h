#pragma once

// The program's end of a send or receive queue: it writes entries and the
// producer index. The RNIC's end is WorkQueueView.

#include <atomic>
#include <cstdint>
#include <cstring>

#include "verbs/abi/rnic_abi.h"

namespace urnic::control {

// One posting thread at a time (the caller's lock). Copying it makes a second
// producer, which only the owner of the queue may do.
class WorkRing {
 public:
  WorkRing() = default;
  WorkRing(uint8_t* base, urnic_queue_indices* indices, uint32_t entries,
           uint32_t stride)
      : base_(base), indices_(indices), entries_(entries), stride_(stride) {}

  // The next free entry, or nullptr when the queue is full. Publish() hands
  // entries to the RNIC, in order.
  uint8_t* Next() {
    if (producer_ - consumer_seen_ >= entries_ && !RefreshConsumer()) {
      return nullptr;
    }
    return base_ + static_cast<size_t>(producer_ & (entries_ - 1)) * stride_;
  }
  void Advance() { ++producer_; }
  // Discards the entries since the last Publish(): `producer` is the value that
  // producer() had then.
  void Rewind(uint32_t producer) { producer_ = producer; }

  // Hands the entries since the last call to the RNIC.
  void Publish() {
    std::atomic_ref(indices_->producer)
        .store(producer_, std::memory_order_release);
  }

  uint32_t producer() const { return producer_; }
  // The number of entries that are posted and that the RNIC has not taken.
  uint32_t waiting() const {
    return producer_ -
           std::atomic_ref(indices_->consumer).load(std::memory_order_acquire);
  }
  // Copies the waiting entries to the beginning of `to`, which is empty, has
  // room for them, and has entries of the same size. REQUIRES: the RNIC takes
  // nothing meanwhile.
  void MoveTo(WorkRing& to) const {
    for (uint32_t i = producer_ - waiting(); i != producer_; ++i) {
      std::memcpy(to.Next(),
                  base_ + static_cast<size_t>(i & (entries_ - 1)) * stride_,
                  stride_);
      to.Advance();
    }
    to.Publish();
  }
  uint32_t entries() const { return entries_; }

 private:
  bool RefreshConsumer() {
    consumer_seen_ =
        std::atomic_ref(indices_->consumer).load(std::memory_order_acquire);
    return producer_ - consumer_seen_ < entries_;
  }

  uint8_t* base_ = nullptr;
  urnic_queue_indices* indices_ = nullptr;
  uint32_t entries_ = 0;
  uint32_t stride_ = 0;
  uint32_t producer_ = 0;
  uint32_t consumer_seen_ = 0;
};

}  // namespace urnic::control
