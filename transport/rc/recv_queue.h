#pragma once

// Receive work requests as a responder consumes them. An object of its own
// because several queue pairs may share one.

#include <algorithm>
#include <cstdint>

#include "transport/rc/sge_walk.h"
#include "transport/rc/types.h"
#include "transport/rc/work_queue.h"

namespace urnic::rc {

class RecvQueue {
 public:
  RecvQueue() = default;
  RecvQueue(WorkQueueView view, uint32_t max_sge)
      : view_(view), max_sge_(max_sge) {}

  enum class TakeResult : uint8_t { kTaken, kEmpty, kBroken };

  // Makes the oldest posted request the current one, if none is current.
  // kBroken: the program wrote an index or a count that cannot be.
  TakeResult Take() {
    if (taken_) return TakeResult::kTaken;
    const uint32_t posted = view_.entries() == 0 ? 0 : view_.Posted(head_);
    if (posted == 0) return TakeResult::kEmpty;
    if (posted == UINT32_MAX) return TakeResult::kBroken;
    current_ = view_.Read<urnic_rq_wqe>(head_);
    if (current_.num_sge > max_sge_) return TakeResult::kBroken;
    taken_ = true;
    cursor_ = SgeCursor{};
    return TakeResult::kTaken;
  }

  // Pieces of the current request's memory; see WalkSges.
  template <typename Emit>
  WalkResult Walk(uint64_t offset, uint32_t bytes, const mem::MrTable& mrs,
                  uint32_t pd, Emit&& emit) {
    return WalkSges<urnic_rq_wqe>(view_, head_, current_.num_sge, cursor_,
                                  offset, bytes, mrs, pd, mem::kLocalWrite,
                                  emit);
  }

  // The current request is done; returns its wr_id.
  uint64_t Consume() {
    taken_ = false;
    ++head_;
    return current_.wr_id;
  }

  bool taken() const { return taken_; }

  // Publishes how far requests have been consumed, so that the program may
  // post into their place. Once per burst is enough.
  void PublishConsumer() {
    if (published_ == head_) return;
    published_ = head_;
    view_.PublishConsumer(head_);
  }

  // Forgets what was posted (state RESET).
  void Reset() {
    if (view_.entries() == 0) return;
    const uint32_t posted = view_.Posted(head_);
    if (posted != UINT32_MAX) head_ += posted;
    taken_ = false;
    PublishConsumer();
  }

 private:
  WorkQueueView view_;
  uint32_t max_sge_ = 0;
  uint32_t head_ = 0;
  uint32_t published_ = 0;
  bool taken_ = false;
  urnic_rq_wqe current_ = {};
  SgeCursor cursor_;
};

}  // namespace urnic::rc
