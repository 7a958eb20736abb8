#pragma once

// Receive work requests: the ring that they are posted to, which several queue
// pairs may share, and the request that a queue pair is filling.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "transport/base/fields.h"
#include "transport/work/sge_walk.h"
#include "transport/work/types.h"
#include "transport/work/work_queue.h"

namespace urnic {

// The posted requests, taken in order by one queue pair or by many. Thread: the
// holder of the engine's token.
class RecvRing {
 public:
  RecvRing() = default;
  // `pd`: the domain for XRC requests that name this ring.
  RecvRing(WorkQueueView view, uint32_t max_sge, uint32_t pd = 0)
      : view_(view), max_sge_(max_sge), pd_(pd) {}

  enum class Result : uint8_t { kTaken, kEmpty, kBroken };

  // Copies the oldest request and its list of `num_sge` entries (room for
  // max_sge()) out of the ring, and frees its slot. kBroken: the program wrote
  // an impossible index or count.
  Result Take(uint64_t& wr_id, uint32_t& num_sge, urnic_sge* sges) {
    const uint32_t posted = view_.entries() == 0 ? 0 : view_.Posted(head_);
    if (posted == 0) return Result::kEmpty;
    if (posted == UINT32_MAX) return Result::kBroken;
    const auto request = view_.Read<urnic_rq_wqe>(head_);
    if (request.num_sge > max_sge_) return Result::kBroken;
    for (uint32_t i = 0; i < request.num_sge; ++i) {
      sges[i] = view_.ReadSge<urnic_rq_wqe>(head_, i);
    }
    wr_id = request.wr_id;
    num_sge = request.num_sge;
    ++head_;
    if (posted - 1 < limit_) {
      limit_ = 0;
      limit_reached_ = true;
    }
    return Result::kTaken;
  }

  // The list of a request that is not taken yet, `ahead` after the oldest one.
  // Calls use(num_sge, read_sge), and returns what it returns; kTooShort: fewer
  // requests are posted. The program may change the list before it is taken.
  template <typename Use>
  WalkResult Peek(uint32_t ahead, Use&& use) const {
    const uint32_t posted = view_.entries() == 0 ? 0 : view_.Posted(head_);
    if (posted == UINT32_MAX || ahead >= posted) return WalkResult::kTooShort;
    const uint32_t index = head_ + ahead;
    const uint32_t num_sge = view_.Read<urnic_rq_wqe>(index).num_sge;
    if (num_sge > max_sge_) return WalkResult::kTooShort;
    return use(num_sge, [this, index](uint32_t i) {
      return view_.ReadSge<urnic_rq_wqe>(index, i);
    });
  }

  // The bytes of a request that is not taken yet, `ahead` after the oldest one;
  // empty: fewer are posted. The program may be writing.
  std::span<const uint8_t> BytesOf(uint32_t ahead) const {
    const uint32_t posted = view_.entries() == 0 ? 0 : view_.Posted(head_);
    if (posted == UINT32_MAX || ahead >= posted) return {};
    return view_.BytesOf(head_ + ahead);
  }

  // Publishes how many requests have been taken, so that the program may reuse
  // their slots. Once per burst is enough.
  void PublishConsumer() {
    if (published_ == head_) return;
    published_ = head_;
    view_.PublishConsumer(head_);
  }

  // Continues in another ring, which begins with the requests that have not
  // been taken.
  void ReplaceView(WorkQueueView view) {
    view_ = view;
    head_ = published_ = 0;
  }

  // Discards all posted requests (state RESET).
  void Forget() {
    if (view_.entries() == 0) return;
    const uint32_t posted = view_.Posted(head_);
    if (posted != UINT32_MAX) head_ += posted;
    PublishConsumer();
  }

  //= IBTA 10.2.9.1: when a shared receive queue has fewer requests than its
  //= limit, one event is raised, and the limit is disarmed
  void SetLimit(uint32_t limit) { limit_ = limit; }
  uint32_t limit() const { return limit_; }
  bool TakeLimitReached() { return std::exchange(limit_reached_, false); }

  uint32_t max_sge() const { return max_sge_; }
  uint32_t pd() const { return pd_; }
  // How many requests were taken in its life.
  uint32_t head() const { return head_; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  WorkQueueView view_;
  uint32_t max_sge_ = 0;
  uint32_t pd_ = 0;
  uint32_t head_ = 0;
  uint32_t published_ = 0;
  uint32_t limit_ = 0;  // 0: not armed
  bool limit_reached_ = false;
};

// One queue pair's end of a ring.
class RecvQueue {
 public:
  // `sges` has room for ring.max_sge() entries; both outlive the queue.
  // `shared`: other queue pairs take from the ring, too. A null `ring`: none
  // until Use().
  RecvQueue(RecvRing* ring, urnic_sge* sges, bool shared)
      : ring_(ring), sges_(sges), shared_(shared) {}

  using TakeResult = RecvRing::Result;

  // Sets the ring for the next request (XRC); `sges` must have room for its
  // lists, too. What was taken from the previous ring is published. REQUIRES:
  // no request is current.
  void Use(RecvRing* ring) {
    if (ring == ring_) return;
    PublishConsumer();
    ring_ = ring;
  }
  RecvRing* ring() const { return ring_; }

  // Makes the oldest posted request the current one, if none is current.
  TakeResult Take() {
    if (taken_) return TakeResult::kTaken;
    if (ring_ == nullptr) return TakeResult::kEmpty;
    const TakeResult result = ring_->Take(wr_id_, num_sge_, sges_);
    taken_ = result == TakeResult::kTaken;
    cursor_ = SgeCursor{};
    return result;
  }

  // Pieces of the current request's memory; see WalkSges.
  template <typename Emit>
  WalkResult Walk(uint64_t offset, uint32_t bytes, const mem::MrTable& mrs,
                  uint32_t pd, Emit&& emit) {
    return WalkSges(
        num_sge_, [this](uint32_t i) { return sges_[i]; }, cursor_, offset,
        bytes, mrs, pd, mem::kLocalWrite, emit);
  }

  // The same for the request that is `ahead` after the current one, or after
  // the oldest if none is current, because a later message may arrive first.
  // Also returns kTooShort if it is unknown which request that will be.
  template <typename Emit>
  WalkResult WalkAhead(uint32_t ahead, uint64_t offset, uint32_t bytes,
                       const mem::MrTable& mrs, uint32_t pd,
                       Emit&& emit) const {
    const auto walk = [&](uint32_t num_sge, auto&& read_sge) {
      SgeCursor cursor;
      return WalkSges(num_sge, read_sge, cursor, offset, bytes, mrs, pd,
                      mem::kLocalWrite, emit);
    };
    if (taken_ && ahead == 0) {
      return walk(num_sge_, [this](uint32_t i) { return sges_[i]; });
    }
    if (shared_ || ring_ == nullptr) return WalkResult::kTooShort;
    return ring_->Peek(ahead - (taken_ ? 1 : 0), walk);
  }

  // How many bytes the current request has room for.
  uint64_t Capacity() const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < num_sge_; ++i) bytes += sges_[i].length;
    return bytes;
  }

  // The current request is done; returns its wr_id.
  uint64_t Consume() {
    taken_ = false;
    return wr_id_;
  }

  bool taken() const { return taken_; }
  // The list of the current request.
  std::span<const urnic_sge> current() const {
    return {sges_, taken_ ? num_sge_ : 0};
  }
  // For queries and tests: the request that was taken last, and its list.
  uint64_t last_wr_id() const { return wr_id_; }
  std::span<const urnic_sge> last() const { return {sges_, num_sge_}; }
  bool shared() const { return shared_; }

  // Takes the next request to flush; false if there is none. From a shared
  // ring, that is only the current one: the others serve other queue pairs.
  bool TakeToFlush() {
    return taken_ || (!shared_ && Take() == TakeResult::kTaken);
  }

  void PublishConsumer() {
    if (ring_ != nullptr) ring_->PublishConsumer();
  }

  // State RESET: forgets the current request and, unless the ring is shared,
  // all others.
  void Reset() {
    taken_ = false;
    if (!shared_) ring_->Forget();
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  RecvRing* ring_;
  urnic_sge* sges_;
  // The current request, or the last one.
  uint64_t wr_id_ = 0;
  uint32_t num_sge_ = 0;
  bool taken_ = false;
  const bool shared_;
  SgeCursor cursor_;
};

}  // namespace urnic
