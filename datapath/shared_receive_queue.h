#pragma once

// A shared receive queue as the engine holds it.

#include <cstdint>

#include "transport/work/recv_queue.h"

namespace urnic {

struct SharedReceiveQueue;

// As EngineEvents (completion_queue.h).
class SrqEvents {
 public:
  // Fewer requests are left than the limit that was set.
  virtual void OnSrqLimit(SharedReceiveQueue& srq) = 0;

 protected:
  ~SrqEvents() = default;
};

// Created and destroyed through Engine; belongs to the token holder.
struct SharedReceiveQueue {
  RecvRing ring;
  SrqEvents* events = nullptr;
  void* owner = nullptr;
};

}  // namespace urnic
