#pragma once

// The headers of FPDUs whose payload was placed when they arrived behind a hole
// of the stream. They are kept until the hole closes.
//
// The records of all connections of an engine come from one pool. Nothing is
// allocated after the pool's construction.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/base/seq_num.h"
#include "transport/iwarp/ddp/received_segment.h"
#include "transport/wire/ddp.h"

namespace urnic::iwarp {

struct EarlyFpdu {
  SeqNum end;  // of the FPDU in the stream
  uint32_t payload_bytes = 0;
  uint32_t next = 0;  // in its connection, or in the free list
  uint8_t header_bytes = 0;
  uint8_t header_copy[sizeof(wire::DdpUntagged)] = {};

  std::span<const uint8_t> header() const {
    return std::span(header_copy).first(header_bytes);
  }
};
static_assert(sizeof(EarlyFpdu) == 32);

class EarlyPool {
 public:
  explicit EarlyPool(uint32_t records) : records_(records) {
    for (uint32_t i = records; i-- > 0;) Return(i);
  }
  EarlyPool(const EarlyPool&) = delete;
  EarlyPool& operator=(const EarlyPool&) = delete;

  uint32_t free_count() const { return free_count_; }
  // For replays: leaves `count` records free, as if others had all the rest.
  // REQUIRES: at least as many are free.
  void SetFree(uint32_t count) { free_count_ = count; }

 private:
  friend class EarlyFpdus;
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t Take() {
    URNIC_CHECK(free_ != kNone);
    --free_count_;
    return std::exchange(free_, records_[free_].next);
  }
  void Return(uint32_t index) {
    records_[index].next = std::exchange(free_, index);
    ++free_count_;
  }

  std::vector<EarlyFpdu> records_;
  uint32_t free_ = kNone;
  uint32_t free_count_ = 0;
};

// Those of one connection, in the order of the stream.
class EarlyFpdus {
 public:
  static constexpr uint32_t kMax = 1024;

  // The pool outlives this object. Null: there is never room.
  explicit EarlyFpdus(EarlyPool* pool) : pool_(pool) {}
  ~EarlyFpdus() { Clear(); }
  EarlyFpdus(const EarlyFpdus&) = delete;
  EarlyFpdus& operator=(const EarlyFpdus&) = delete;

  bool empty() const { return count_ == 0; }
  bool HasRoom(uint32_t records) const {
    return pool_ != nullptr && count_ + records <= kMax &&
           records <= pool_->free_count_;
  }
  // The payload of this segment is placed; its FPDU ends at `end`.
  // REQUIRES: HasRoom(1)
  void Insert(SeqNum end, const ddp::ReceivedSegment& segment) {
    URNIC_CHECK(HasRoom(1));
    const uint32_t index = pool_->Take();
    EarlyFpdu& record = At(index);
    record.end = end;
    record.payload_bytes = segment.payload_bytes;
    record.header_bytes = static_cast<uint8_t>(segment.header_bytes);
    segment.CopyUlpdu(record.header_copy, segment.header_bytes);
    // Usually it is the last one.
    uint32_t before = tail_;
    if (before != kNone && At(before).end - end > 0) {
      before = kNone;
      for (uint32_t i = head_; At(i).end - end < 0; i = At(i).next) before = i;
    }
    record.next =
        std::exchange(before == kNone ? head_ : At(before).next, index);
    if (record.next == kNone) tail_ = index;
    ++count_;
  }
  // The first one; null: none ends at or before `until`.
  const EarlyFpdu* First(SeqNum until) const {
    return head_ == kNone || At(head_).end - until > 0 ? nullptr : &At(head_);
  }
  // REQUIRES: there is one.
  void PopFirst() {
    const uint32_t index = std::exchange(head_, At(head_).next);
    if (head_ == kNone) tail_ = kNone;
    --count_;
    pool_->Return(index);
  }
  void Clear() {
    while (head_ != kNone) PopFirst();
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;
  static constexpr uint32_t kNone = EarlyPool::kNone;

  EarlyFpdu& At(uint32_t index) { return pool_->records_[index]; }
  const EarlyFpdu& At(uint32_t index) const { return pool_->records_[index]; }

  EarlyPool* const pool_;
  uint32_t head_ = kNone;
  uint32_t tail_ = kNone;
  uint32_t count_ = 0;
};

}  // namespace urnic::iwarp
