#pragma once

// The engine's view of the rings in the ABI memory. The other side may be
// hostile: every entry and index is copied once and only the copy is used.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "verbs/abi/rnic_abi.h"

namespace urnic {

// A ring of work requests; `base` and `indices` belong to the program's
// memory and outlive the view.
class WorkQueueView {
 public:
  WorkQueueView() = default;
  // REQUIRES: entries is a power of two (or 0: no queue), stride a multiple
  // of 16 that holds the largest entry.
  WorkQueueView(const uint8_t* base, urnic_queue_indices* indices,
                uint32_t entries, uint32_t stride)
      : base_(base), indices_(indices), mask_(entries - 1), stride_(stride) {}

  uint32_t entries() const { return mask_ + 1; }
  // The place of entry `index` in the ring.
  uint32_t PlaceOf(uint32_t index) const { return index & mask_; }

  // The number of entries posted from `consumer` on. UINT32_MAX: the program's
  // index is out of range (only a broken program writes such an index).
  uint32_t Posted(uint32_t consumer) const {
    const uint32_t producer =
        std::atomic_ref(indices_->producer).load(std::memory_order_acquire);
    const uint32_t count = producer - consumer;
    return count <= entries() ? count : UINT32_MAX;
  }

  template <typename Wqe>
  Wqe Read(uint32_t index) const {
    Wqe wqe;
    std::memcpy(&wqe, Entry(index), sizeof(wqe));
    return wqe;
  }
  template <typename Wqe>
  urnic_sge ReadSge(uint32_t index, uint32_t sge) const {
    urnic_sge copy;
    std::memcpy(&copy, Entry(index) + sizeof(Wqe) + sge * sizeof(copy),
                sizeof(copy));
    return copy;
  }
  // Loads eight bytes of an entry once, so that the checked value is the used
  // one.
  uint64_t ReadWord(uint32_t index, uint32_t offset) const {
    return __atomic_load_n(
        reinterpret_cast<const uint64_t*>(Entry(index) + offset),
        __ATOMIC_RELAXED);
  }
  // The bytes of an entry, with room behind it. The other side may be writing.
  std::span<const uint8_t> BytesOf(uint32_t index) const {
    return {Entry(index), stride_};
  }
  // The address of a send request's inline bytes.
  uint64_t InlineAddress(uint32_t index) const {
    return reinterpret_cast<uint64_t>(Entry(index) + sizeof(urnic_sq_wqe));
  }

  // Tells the program that entries before `consumer` may be reused.
  void PublishConsumer(uint32_t consumer) {
    std::atomic_ref(indices_->consumer)
        .store(consumer, std::memory_order_release);
  }

 private:
  const uint8_t* Entry(uint32_t index) const {
    return base_ + static_cast<size_t>(PlaceOf(index)) * stride_;
  }

  const uint8_t* base_ = nullptr;
  urnic_queue_indices* indices_ = nullptr;
  uint32_t mask_ = UINT32_MAX;  // entries() == 0
  uint32_t stride_ = 0;
};

}  // namespace urnic
