#pragma once

// A shared receive queue as the engine holds it.

#include <cstddef>
#include <cstdint>

#include "datapath/engine/completion_queue.h"
#include "transport/work/recv_queue.h"

namespace urnic {

struct SharedReceiveQueue;

// Events of a shared receive queue. The rules of EngineEvents
// (completion_queue.h) apply.
class SrqEvents {
 public:
  // The queue has fewer requests than its limit.
  virtual void OnSrqLimit(SharedReceiveQueue& srq) = 0;
  // XRC: its completion queue has lost an entry, so it accepts no more
  // messages.
  virtual void OnSrqError(SharedReceiveQueue& srq) = 0;

 protected:
  ~SrqEvents() = default;
};

// Created and destroyed through Network; belongs to the token holder.
struct SharedReceiveQueue {
  RecvRing ring;  // first: see Of()
  uint32_t number = 0;
  // XRC: the queue for completions of its receives, and the domain whose queue
  // pairs may use it.
  CompletionQueue* cq = nullptr;
  uint32_t xrc_domain = 0;
  bool failed = false;
  SrqEvents* events = nullptr;
  void* owner = nullptr;

  // Called after a burst: raises the event of the limit, if it is due.
  void ReportLimit() {
    if (__builtin_expect(!ring.TakeLimitReached(), 1)) return;
    if (events != nullptr) events->OnSrqLimit(*this);
  }

  // The queue that a ring is part of.
  static SharedReceiveQueue& Of(RecvRing& ring) {
    static_assert(offsetof(SharedReceiveQueue, ring) == 0);
    return reinterpret_cast<SharedReceiveQueue&>(ring);
  }
};

}  // namespace urnic
