#pragma once

// The queue of answers, which are completions and notices, that a window will
// send to its peers. An answer that finds the queue full is dropped: the peer
// asks again.

#include <cstdint>

#include "transport/rud/context_pool.h"
#include "transport/wire/rud.h"

namespace urnic::rud {

struct Answer {
  bool is_notice = false;
  bool marked = false;
  uint8_t path = 0;
  wire::RudReason reason = {};
  Party to;
  ContextId local = {};
  uint64_t tid = 0;
  uint64_t arrived = 0;
  uint64_t pvo = 0;
};

class Answers {
 public:
  static constexpr uint32_t kMax = 256;

  bool empty() const { return first_ == end_; }
  // False: the queue is full.
  bool Add(const Answer& answer) {
    if (end_ - first_ == kMax) return false;
    ring_[end_++ % kMax] = answer;
    return true;
  }
  // REQUIRES: !empty()
  const Answer& Front() const { return ring_[first_ % kMax]; }
  void Pop() { ++first_; }
  void Clear() { first_ = end_; }

 private:
  uint32_t first_ = 0;
  uint32_t end_ = 0;
  Answer ring_[kMax];
};

}  // namespace urnic::rud
