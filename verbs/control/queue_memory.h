#pragma once

// The memory of queues in the layout of verbs/abi, on cache lines of its own.
// The first 256 bytes, where most have their indices, are zeroed. The entries
// of a ring are written before they are read. Positions inside are offsets, so
// that memory with the same layout can later be shared with another process.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "ras/memory/memory_tracker.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic::control {

// The program's allocator for the memory of its queues (of a parent domain).
// The thread that creates, resizes or destroys a queue calls it, and holds no
// lock of ours.
class QueueAllocator {
 public:
  enum class Use : uint8_t { kQp, kCq, kSrq };
  // nullptr: no memory; UseDefault(): take it from the heap.
  virtual void* Allocate(size_t bytes, size_t alignment, Use use) = 0;
  virtual void Free(void* memory, Use use) = 0;
  static void* UseDefault() { return reinterpret_cast<void*>(-1); }

 protected:
  ~QueueAllocator() = default;
};

struct QueueKind {
  const char* type = "queue";         // for the tracker
  size_t alignment = URNIC_ABI_LINE;  // a power of two, a cache line at least
};

// Memory from the heap or the allocator, freed with the object. Thread: the
// owner's. The allocator outlives it.
class QueueMemory {
 public:
  // RESOURCE_EXHAUSTED: the heap or the allocator has no memory.
  // INVALID_ARGUMENT: the allocator's memory is not aligned.
  // `tracker`: records memory from the heap, and outlives it; may be null.
  static absl::StatusOr<QueueMemory> Make(
      MemoryTracker* tracker, size_t bytes, QueueAllocator* allocator = nullptr,
      QueueAllocator::Use use = QueueAllocator::Use::kQp,
      const QueueKind& kind = {}, TracePlace place = TracePlace::Here());

  QueueMemory() = default;
  ~QueueMemory();
  QueueMemory(QueueMemory&& other) noexcept { *this = std::move(other); }
  QueueMemory& operator=(QueueMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(allocator_, other.allocator_);
    std::swap(use_, other.use_);
    return *this;
  }

  uint8_t* at(size_t offset) const { return base_ + offset; }
  urnic_queue_indices* indices_at(size_t offset) const {
    return reinterpret_cast<urnic_queue_indices*>(base_ + offset);
  }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
  QueueAllocator* allocator_ = nullptr;  // null: the heap
  QueueAllocator::Use use_ = QueueAllocator::Use::kQp;
};

// The layout of a queue pair's queues: the indices of both, then the rings,
// each part on its own cache lines.
struct QpLayout {
  uint32_t sq_entries = 0;  // powers of two, or 0: no such queue
  uint32_t rq_entries = 0;
  uint32_t sq_stride = 0;  // bytes from one entry to the next
  uint32_t rq_stride = 0;

  static constexpr size_t kSqIndices = 0;
  static constexpr size_t kRqIndices = sizeof(urnic_queue_indices);
  static constexpr size_t kSqRing = 2 * sizeof(urnic_queue_indices);
  size_t rq_ring() const { return kSqRing + size_t{sq_entries} * sq_stride; }
  size_t bytes() const { return rq_ring() + size_t{rq_entries} * rq_stride; }

  // Room for the inline bytes of a send request.
  uint32_t inline_bytes() const {
    return sq_stride - static_cast<uint32_t>(sizeof(urnic_sq_wqe));
  }
};

// REQUIRES: all within the device's limits.
QpLayout MakeQpLayout(uint32_t max_send_wr, uint32_t max_send_sge,
                      uint32_t max_inline, uint32_t max_recv_wr,
                      uint32_t max_recv_sge);

}  // namespace urnic::control
