#pragma once

// The program's end of a completion queue: it reads entries and writes the
// consumer index. The RNIC's end is CompletionQueue.

#include <atomic>
#include <cstdint>

#include "verbs/abi/rnic_abi.h"

namespace urnic::control {

// One thread at a time (the caller's lock).
class CompletionRing {
 public:
  CompletionRing() = default;
  CompletionRing(urnic_cqe* ring, urnic_queue_indices* indices,
                 uint32_t entries)
      : ring_(ring), indices_(indices), mask_(entries - 1) {}

  // Calls take(const urnic_cqe&) for up to `max` completions, in order, and
  // frees their entries. Returns the number of completions.
  template <typename Take>
  uint32_t Poll(uint32_t max, Take&& take) {
    const uint32_t ready = Ready();
    const uint32_t count = ready < max ? ready : max;
    for (uint32_t i = 0; i < count; ++i) take(ring_[(consumer_ + i) & mask_]);
    if (count != 0) Release(count);
    return count;
  }

  // Copies the unread completions to another ring of `entries` entries, and
  // uses that one. False: they do not fit. REQUIRES: the RNIC writes nothing
  // meanwhile.
  bool MoveTo(urnic_cqe* ring, uint32_t entries) {
    const uint32_t ready = Ready();
    if (ready > entries) return false;
    for (uint32_t i = 0; i < ready; ++i) {
      ring[(consumer_ + i) & (entries - 1)] = ring_[(consumer_ + i) & mask_];
    }
    ring_ = ring;
    mask_ = entries - 1;
    return true;
  }

  // May be called while another thread polls. False: the queue was empty a
  // moment ago, or that thread is reading the last completions.
  bool MayHaveSome() const {
    return std::atomic_ref(indices_->producer)
               .load(std::memory_order_relaxed) !=
           std::atomic_ref(indices_->consumer).load(std::memory_order_relaxed);
  }

  // Removes the completions of queue pair `qpn`, and keeps the order of the
  // others. REQUIRES: the RNIC writes nothing meanwhile.
  void Forget(uint32_t qpn) {
    // From the newest to the oldest: the remaining entries move toward the
    // newest, so that only the consumer index changes.
    const uint32_t ready = Ready();
    uint32_t gone = 0;
    for (uint32_t i = ready; i-- > 0;) {
      const uint32_t at = consumer_ + i;
      if (ring_[at & mask_].qp_num == qpn) {
        ++gone;
      } else if (gone != 0) {
        ring_[(at + gone) & mask_] = ring_[at & mask_];
      }
    }
    if (gone != 0) Release(gone);
  }

  uint32_t Ready() const {
    return std::atomic_ref(indices_->producer).load(std::memory_order_acquire) -
           consumer_;
  }

 private:
  void Release(uint32_t count) {
    consumer_ += count;
    std::atomic_ref(indices_->consumer)
        .store(consumer_, std::memory_order_release);
  }

  urnic_cqe* ring_ = nullptr;
  urnic_queue_indices* indices_ = nullptr;
  uint32_t mask_ = 0;
  uint32_t consumer_ = 0;
};

}  // namespace urnic::control
