#include "verbs/control/queue_memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "ras/marks/marked_block.h"

namespace urnic::control {

namespace {

uint32_t Entries(uint32_t wanted) {
  return wanted == 0 ? 0 : std::bit_ceil(wanted);
}

}  // namespace

absl::StatusOr<QueueMemory> QueueMemory::Make(
    MemoryTracker* tracker, size_t bytes, QueueAllocator* allocator,
    QueueAllocator::Use use, const QueueKind& kind, TracePlace place) {
  QueueMemory memory;
  memory.bytes_ = bytes;
  void* at = QueueAllocator::UseDefault();
  if (allocator != nullptr) {
    constexpr size_t kPage = 4096;  // the alignment that providers request
    at = allocator->Allocate(bytes, kPage, use);
    if (at == nullptr) {
      return Refusal(
          ErrorCode::kNoMemory,
          absl::StrCat("the program's allocator has no ", bytes, " bytes"));
    }
  }
  if (at != QueueAllocator::UseDefault()) {
    if (reinterpret_cast<uintptr_t>(at) % kind.alignment != 0) {
      allocator->Free(at, use);
      return Refusal(
          ErrorCode::kBadAttribute,
          "the program's allocator returned memory that is not aligned");
    }
    memory.allocator_ = allocator;
    memory.use_ = use;
  } else {
    // Queues have no mapping of their own, because a process may have only
    // 65530. (The kernel merges adjacent mappings, but unmapping one in the
    // middle adds one.)
    at = MemoryTracker::Allocate(tracker, bytes, kind.alignment, kind.type,
                                 place);
    if (at == nullptr) {
      return Refusal(
          ErrorCode::kNoMemory,
          absl::StrCat("no memory for a queue of ", bytes, " bytes"));
    }
  }
  memory.base_ = static_cast<uint8_t*>(at);
  // Only the indices are zeroed, so unused entries need no physical memory.
  std::memset(memory.base_, 0, std::min(bytes, QpLayout::kSqRing));
  return memory;
}

QueueMemory::~QueueMemory() {
  if (base_ == nullptr) return;
  if (allocator_ != nullptr) {
    allocator_->Free(base_, use_);
  } else {
    MemoryTracker::Free(base_, bytes_);
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
  // Whole cache lines: an entry is written by one core and read by another.
  layout.sq_stride = static_cast<uint32_t>(
      RoundUp(sizeof(urnic_sq_wqe) + send_data, URNIC_ABI_LINE));
  // Receive entries with one SGE are so small that two share a line.
  layout.rq_stride = sizeof(urnic_rq_wqe) + std::max(max_recv_sge, 1u) * kSge;
  return layout;
}

}  // namespace urnic::control
