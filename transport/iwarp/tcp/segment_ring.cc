#include "transport/iwarp/tcp/segment_ring.h"

#include <algorithm>

#include "transport/base/check.h"

namespace urnic::tcp {

SegmentSlab::SegmentSlab(uint32_t blocks)
    : records_(uint64_t{blocks} * kBlockRecords), blocks_(blocks) {
  free_.fill(kNone);
  for (uint32_t block = 0; block < blocks;) {
    uint8_t order = 0;
    while (order < kMaxOrder && block % (2u << order) == 0 &&
           block + (2u << order) <= blocks) {
      ++order;
    }
    Push(block, order);
    block += 1u << order;
  }
}

void SegmentSlab::Push(uint32_t block, uint8_t order) {
  blocks_[block] = {free_[order], kNone, order};
  if (free_[order] != kNone) blocks_[free_[order]].prev = block;
  free_[order] = block;
  free_blocks_ += 1u << order;
}

void SegmentSlab::Unlink(uint32_t block) {
  Block& b = blocks_[block];
  (b.prev == kNone ? free_[b.free_order] : blocks_[b.prev].next) = b.next;
  if (b.next != kNone) blocks_[b.next].prev = b.prev;
  free_blocks_ -= 1u << b.free_order;
  b.free_order = kNotFree;
}

uint32_t SegmentSlab::TakeJoined(uint8_t order) {
  uint8_t from = order;
  while (from <= kMaxOrder && free_[from] == kNone) ++from;
  if (from > kMaxOrder) {
    if (at_hand_count_ == 0) {
      ++refused_;
      return kNone;
    }
    while (at_hand_count_ != 0) Join(at_hand_[--at_hand_count_], 0);
    return TakeJoined(order);
  }
  const uint32_t block = free_[from];
  Unlink(block);
  while (from > order) {
    --from;
    Push(block + (1u << from), from);
  }
  return block;
}

void SegmentSlab::Join(uint32_t block, uint8_t order) {
  URNIC_CHECK(block < blocks_.size());
  for (; order < kMaxOrder; ++order) {
    const uint32_t buddy = block ^ (1u << order);
    if (buddy >= blocks_.size() || blocks_[buddy].free_order != order) break;
    Unlink(buddy);
    block = std::min(block, buddy);
  }
  Push(block, order);
}

void SegmentRing::Start(SegmentSlab* slab, uint8_t max_order) {
  URNIC_CHECK(max_order <= SegmentSlab::kMaxOrder);
  Clear();
  slab_ = slab;
  max_order_ = max_order;
}

void SegmentRing::Clear() {
  if (block_ != SegmentSlab::kNone) slab_->Release(block_, order_);
  block_ = SegmentSlab::kNone;
  records_ = nullptr;
  mask_ = capacity_ = 0;
  first_ = end_;
}

bool SegmentRing::Grow() {
  if (capacity_ != 0 && order_ == max_order_) return false;
  const uint8_t order = capacity_ == 0 ? 0 : order_ + 1;
  const uint32_t block = slab_->Take(order);
  if (block == SegmentSlab::kNone) return false;
  SegmentRecord* records = slab_->records(block);
  const uint32_t capacity = SegmentSlab::kBlockRecords << order;
  for (uint32_t number = first_; number != end_; ++number) {
    records[number & (capacity - 1)] = at(number);
  }
  if (block_ != SegmentSlab::kNone) slab_->Release(block_, order_);
  block_ = block;
  order_ = order;
  records_ = records;
  capacity_ = capacity;
  mask_ = capacity - 1;
  return true;
}

uint32_t SegmentRing::Find(SeqNum seq) const {
  uint32_t low = 0;
  uint32_t high = size() - 1;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (at(first_ + middle).seq - seq <= 0) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return first_ + low;
}

}  // namespace urnic::tcp
