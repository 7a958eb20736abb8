#include "verbs/control/queue_memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace urnic::control {

namespace {

template <typename T>
T RoundUp(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint32_t Entries(uint32_t wanted) {
  return wanted == 0 ? 0 : std::bit_ceil(wanted);
}

}  // namespace

absl::StatusOr<QueueMemory> QueueMemory::Make(size_t bytes,
                                              QueueAllocator* allocator,
                                              QueueAllocator::Use use) {
  if (allocator != nullptr) {
    constexpr size_t kAlignment = 4096;
    void* at = allocator->Allocate(bytes, kAlignment, use);
    if (at == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the program's allocator has no ", bytes, " bytes"));
    }
    if (at != QueueAllocator::UseDefault()) {
      if (reinterpret_cast<uintptr_t>(at) % URNIC_ABI_LINE != 0) {
        allocator->Free(at, use);
        return absl::InvalidArgumentError(
            "the program's allocator gave memory that is not aligned");
      }
      std::memset(at, 0, bytes);
      QueueMemory memory;
      memory.block_ = at;
      memory.base_ = static_cast<uint8_t*>(at);
      memory.bytes_ = bytes;
      memory.allocator_ = allocator;
      memory.use_ = use;
      return memory;
    }
  }
  // Not pages of their own: a process may have 65530 mappings, and to free one
  // between two others takes one more. A large block is fresh from the kernel,
  // and zeroed without being touched.
  void* block = std::calloc(1, bytes + URNIC_ABI_LINE - 1);
  if (block == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a queue of ", bytes, " bytes"));
  }
  QueueMemory memory;
  memory.block_ = block;
  memory.base_ = reinterpret_cast<uint8_t*>(
      RoundUp<uintptr_t>(reinterpret_cast<uintptr_t>(block), URNIC_ABI_LINE));
  memory.bytes_ = bytes;
  return memory;
}

QueueMemory::~QueueMemory() {
  if (block_ == nullptr) return;
  if (allocator_ != nullptr) {
    allocator_->Free(block_, use_);
  } else {
    std::free(block_);
  }
}

QpLayout MakeQpLayout(uint32_t max_send_wr, uint32_t max_send_sge,
                      uint32_t max_inline, uint32_t max_recv_wr,
                      uint32_t max_recv_sge) {
  constexpr uint32_t kSge = sizeof(urnic_sge);
  const uint32_t send_data = std::max({max_send_sge * kSge, max_inline, kSge});
  QpLayout layout;
  layout.sq_entries = Entries(max_send_wr);
  layout.rq_entries = Entries(max_recv_wr);
  // Whole lines: an entry is written by one core and read by another.
  layout.sq_stride =
      RoundUp<uint32_t>(sizeof(urnic_sq_wqe) + send_data, URNIC_ABI_LINE);
  // Receives of one entry are so small that two share a line.
  layout.rq_stride = sizeof(urnic_rq_wqe) + std::max(max_recv_sge, 1u) * kSge;
  return layout;
}

}  // namespace urnic::control
