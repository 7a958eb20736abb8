#include "transport/iwarp/tcp/out_of_order.h"

#include <utility>

#include "transport/base/check.h"

namespace urnic::tcp {

RangePool::RangePool(uint32_t ranges) : ranges_(ranges) {
  for (uint32_t i = ranges; i-- > 0;) Return(i);
}

uint32_t RangePool::Take() {
  URNIC_CHECK(free_ != kNone);
  --free_count_;
  return std::exchange(free_, ranges_[free_].next);
}

void RangePool::Return(uint32_t index) {
  ranges_[index] = Range{};
  ranges_[index].next = std::exchange(free_, index);
  ++free_count_;
}

OutOfOrder::OutOfOrder(RangePool* pool, FrameKeeper* keeper,
                       uint32_t max_ranges, uint32_t max_frames)
    : pool_(pool),
      keeper_(keeper),
      holder_{.limit = max_frames},
      max_ranges_(max_ranges) {}

OutOfOrder::Overlap OutOfOrder::Examine(SeqNum begin, SeqNum end) const {
  Overlap overlap;
  SeqNum at = begin;
  const auto uncovered = [&](SeqNum until) {
    if (until - at <= 0) return;
    ++overlap.new_parts;
    overlap.new_bytes += static_cast<uint32_t>(until - at);
  };
  const bool behind_all = !empty() && begin - this->end() >= 0;
  overlap.after = behind_all ? tail_ : kNone;
  for (uint32_t i = behind_all ? kNone : head_; i != kNone; i = At(i).next) {
    const Range& range = At(i);
    if (range.begin - end >= 0) break;
    if (range.begin - begin < 0) overlap.after = i;
    if (range.end() - begin <= 0) continue;
    uncovered(range.begin);
    if (!overlap.has_duplicate()) {
      overlap.duplicate = {Later(range.begin, begin),
                           Earlier(range.end(), end)};
    } else if (overlap.duplicate.end == range.begin) {
      overlap.duplicate.end = Earlier(range.end(), end);
    }
    at = range.end();
  }
  uncovered(end);
  return overlap;
}

bool OutOfOrder::HasRoom(uint32_t parts) const {
  return count_ + parts <= max_ranges_ && parts <= pool_->free_count_;
}

bool OutOfOrder::Insert(const Overlap& overlap, SeqNum begin,
                        std::span<const uint8_t> data,
                        const ReceivedFrame& frame) {
  if (keeper_ == nullptr || holder_.kept >= holder_.limit) return false;
  const uint32_t number = keeper_->Keep(frame, holder_);
  if (number == FrameKeeper::kRefused) return false;
  const SeqNum end = begin + static_cast<uint32_t>(data.size());
  const bool behind_all = overlap.after == tail_;
  uint32_t after = overlap.after;
  uint32_t last = kNone;
  for (SeqNum at = begin; at - end < 0;) {
    // Skip covered parts: the earlier bytes stay.
    if (after != kNone && At(after).end() - at > 0) {
      at = At(after).end();
      continue;
    }
    const uint32_t next = Next(after);
    const SeqNum until = next == kNone ? end : Earlier(At(next).begin, end);
    if (until - at > 0) {
      Range range;
      range.begin = at;
      range.bytes = static_cast<uint32_t>(until - at);
      range.data = data.data() + (at - begin);
      range.buffer = frame.buffer;
      last = after = Link(after, range);
      at = until;
    } else {
      after = next;
    }
  }
  URNIC_CHECK(last != kNone);
  At(last).frame = number;
  if (!behind_all) FindTailBlock();
  return true;
}

void OutOfOrder::InsertEarly(const Overlap& overlap, SeqNum begin,
                             uint32_t bytes) {
  const auto is_early = [&](uint32_t index) {
    return index != kNone && At(index).data == nullptr;
  };
  const bool behind_all = overlap.after == tail_;
  uint32_t at = overlap.after;
  if (is_early(at) && At(at).end() == begin) {
    At(at).bytes += bytes;
  } else {
    Range range;
    range.begin = begin;
    range.bytes = bytes;
    at = Link(at, range);
  }
  const uint32_t next = At(at).next;
  if (is_early(next) && At(next).begin == At(at).end()) {
    At(at).bytes += At(next).bytes;
    At(at).next = At(next).next;
    if (tail_ == next) tail_ = at;
    pool_->Return(next);
    --count_;
  }
  if (!behind_all) FindTailBlock();
}

uint32_t OutOfOrder::Link(uint32_t after, const Range& range) {
  const uint32_t index = pool_->Take();
  uint32_t& link = after == kNone ? head_ : At(after).next;
  At(index) = range;
  At(index).next = std::exchange(link, index);
  if (tail_ == after) {
    const bool joins = tail_ != kNone && At(tail_).end() == range.begin;
    if (!joins) tail_block_begin_ = range.begin;
    tail_ = index;
  }
  ++count_;
  return index;
}

void OutOfOrder::FindTailBlock() {
  SeqNum end = begin();
  tail_block_begin_ = end;
  for (uint32_t i = head_; i != kNone; i = At(i).next) {
    if (At(i).begin != end) tail_block_begin_ = At(i).begin;
    end = At(i).end();
  }
}

wire::SackBlock OutOfOrder::BlockOf(SeqNum at) const {
  if (at - tail_block_begin_ >= 0) return {tail_block_begin_, end()};
  wire::SackBlock block = {begin(), begin()};
  for (uint32_t i = head_; i != kNone; i = At(i).next) {
    if (At(i).begin != block.end) {
      if (block.end - at > 0) break;
      block.begin = At(i).begin;
    }
    block.end = At(i).end();
  }
  return block;
}

OutOfOrder::Front OutOfOrder::front() const {
  const Range& range = At(head_);
  return {range.bytes, range.data, range.buffer};
}

void OutOfOrder::TrimFront(uint32_t bytes) {
  Range& range = At(head_);
  URNIC_CHECK(bytes < range.bytes);
  range.begin = range.begin + bytes;
  range.bytes -= bytes;
  if (range.data != nullptr) range.data += bytes;
  if (head_ == tail_) tail_block_begin_ = Later(tail_block_begin_, range.begin);
}

void OutOfOrder::PopFront() {
  const uint32_t index = head_;
  head_ = At(index).next;
  if (head_ == kNone) tail_ = kNone;
  --count_;
  if (At(index).frame == kNone) {
    pool_->Return(index);
  } else {
    At(index).next = std::exchange(taken_, index);
  }
}

void OutOfOrder::ReleaseTaken() {
  while (taken_ != kNone) {
    const uint32_t index = std::exchange(taken_, At(taken_).next);
    keeper_->Release(At(index).frame, holder_);
    pool_->Return(index);
  }
}

void OutOfOrder::Clear() {
  while (!empty()) PopFront();
  ReleaseTaken();
}

}  // namespace urnic::tcp
