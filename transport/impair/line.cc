#include "transport/impair/line.h"

#include <algorithm>
#include <cstring>

#include "transport/base/check.h"
#include "transport/impair/ecn.h"

namespace urnic::impair {

Line::Line(const Config& config, uint64_t seed, Time start, uint32_t frames,
           uint32_t frame_bytes)
    : impairer_(config, seed, start),
      frame_bytes_(frame_bytes),
      memory_(std::make_unique_for_overwrite<uint8_t[]>(size_t{frames} *
                                                        frame_bytes)) {
  waiting_.reserve(frames);
  free_.reserve(frames);
  for (uint32_t i = frames; i-- > 0;) free_.push_back(i);
}

bool Line::Enter(Time now, std::span<uint8_t> frame) {
  URNIC_CHECK(frame.size() <= frame_bytes_);
  const Fate fate = impairer_.Offer(now, frame.size(), IsEct(frame));
  if (fate.mark) MarkCe(frame);
  if (!fate.copy_leaves.IsInfinite()) Keep(fate.copy_leaves, frame);
  if (fate.leaves.IsInfinite()) return false;
  if (fate.corrupt && !frame.empty()) impairer_.Corrupt(frame);
  // Frames that are already due go first; the frame's own copy goes after it.
  const bool is_next = waiting_.empty() || NextDue() > now ||
                       (waiting_.size() == 1 && !fate.copy_leaves.IsInfinite());
  if (fate.leaves <= now && is_next) return true;
  Keep(fate.leaves, frame);
  return false;
}

void Line::TakeBack(Time now, std::span<const uint8_t> frame) {
  Keep(now, frame);
}

void Line::Keep(Time when, std::span<const uint8_t> frame) {
  if (free_.empty()) {
    counts().Add(Count::k_no_room);
    return;
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  std::memcpy(Slot(slot), frame.data(), frame.size());
  waiting_.push_back({.when = when,
                      .order = next_order_++,
                      .slot = slot,
                      .bytes = static_cast<uint32_t>(frame.size())});
  std::push_heap(waiting_.begin(), waiting_.end());
  under_way_.store(static_cast<uint32_t>(waiting_.size()),
                   std::memory_order_relaxed);
}

std::span<const uint8_t> Line::Due(Time now) const {
  if (NextDue() > now) return {};
  return {Slot(waiting_.front().slot), waiting_.front().bytes};
}

void Line::Pop() {
  URNIC_CHECK(!waiting_.empty());
  std::pop_heap(waiting_.begin(), waiting_.end());
  free_.push_back(waiting_.back().slot);
  waiting_.pop_back();
  under_way_.store(static_cast<uint32_t>(waiting_.size()),
                   std::memory_order_relaxed);
}

}  // namespace urnic::impair
