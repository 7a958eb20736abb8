#pragma once

// Writes completions into the rings of completion queues. It also lists the
// queues whose events moderation holds back, and remembers whether any queue
// has lost an entry. Token holder only.

#include <algorithm>
#include <utility>

#include "datapath/engine/completion_queue.h"
#include "transport/base/time.h"

namespace urnic {

class CompletionWriter {
 public:
  void Push(CompletionQueue& cq, const urnic_cqe& cqe, Time now) {
    if (__builtin_expect(!cq.Push(cqe), 0)) OnPushed(cq, now);
    wrote_ = true;
  }

  // Whether anything was pushed since BeginIteration().
  bool wrote() const { return wrote_; }
  void BeginIteration() { wrote_ = false; }

  // A queue has overflowed: the queue pairs that use it must fail.
  bool lost() const { return lost_; }
  void ClearLost() { lost_ = false; }

  // When ReleaseHeldEvents() is due.
  Time held_deadline() const { return held_deadline_; }
  // Raises all events that are held back. So an event may be raised before its
  // period has passed, but never after it.
  void ReleaseHeldEvents() {
    held_deadline_ = Time::Infinite();
    while (held_ != nullptr) {
      CompletionQueue& cq = *held_;
      held_ = cq.next_held;
      cq.listed = false;
      cq.Release();
    }
  }

  // The writer does not touch the queue afterwards, and a held event is not
  // raised.
  void Forget(CompletionQueue& cq) {
    if (!cq.listed) return;
    CompletionQueue** at = &held_;
    while (*at != &cq) at = &(*at)->next_held;
    *at = cq.next_held;
    cq.listed = false;
  }

 private:
  // The entry was lost, or its event is held back.
  [[gnu::cold]] void OnPushed(CompletionQueue& cq, Time now) {
    if (cq.overflowed()) {
      lost_ = true;
    } else if (cq.holding_back()) {
      if (!cq.listed) cq.next_held = std::exchange(held_, &cq);
      cq.listed = true;
      held_deadline_ = std::min(held_deadline_, now + cq.period());
    }
  }

  bool wrote_ = false;
  bool lost_ = false;
  CompletionQueue* held_ = nullptr;  // queues whose events wait
  Time held_deadline_ = Time::Infinite();
};

}  // namespace urnic
