#pragma once

// One direction of a wire with the frames that are under way on it: an
// Impairer, and room for what it holds back.
//
// All memory is taken at construction (and touched when it is used). A frame
// that finds no room is lost and counted. One thread at a time; the counts and
// under_way() may be read by any.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/base/time.h"
#include "transport/impair/impairer.h"

namespace urnic::impair {

class Line {
 public:
  // At most `frames` under way, each of at most `frame_bytes`.
  Line(const Config& config, uint64_t seed, Time start, uint32_t frames,
       uint32_t frame_bytes);

  // A frame enters. True: pass on `frame`, which may have been changed, now;
  // then call OnDelivered(). False: it is lost, or a copy of it is kept; drop
  // `frame`. REQUIRES: frame.size() <= frame_bytes
  bool Enter(Time now, std::span<uint8_t> frame);

  // Takes back a frame because the far side is full: it is the next to be due.
  // If there is no room here, it is lost and counted.
  void TakeBack(Time now, std::span<const uint8_t> frame);

  // The first frame that is due; empty: none is. Pop() removes it.
  std::span<const uint8_t> Due(Time now) const;
  // REQUIRES: there is a frame under way.
  void Pop();
  // Counts frames that were passed on, or could not be passed on.
  void OnDelivered(uint64_t frames) {
    counts().Add(Count::k_delivered, frames);
  }
  void OnFailed(uint64_t frames) { counts().Add(Count::k_failed, frames); }

  // When the first frame under way is due; never: there is none.
  Time NextDue() const {
    return waiting_.empty() ? Time::Infinite() : waiting_.front().when;
  }
  uint32_t under_way() const {
    return under_way_.load(std::memory_order_relaxed);
  }
  CountValues Read() const { return impairer_.counts().Read(); }

 private:
  struct Waiting {
    Time when;
    uint64_t order = 0;  // of frames that are due together
    uint32_t slot = 0;
    uint32_t bytes = 0;
    // The heap's top is its largest.
    bool operator<(const Waiting& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  Counts& counts() { return impairer_.counts(); }
  uint8_t* Slot(uint32_t slot) const {
    return memory_.get() + size_t{slot} * frame_bytes_;
  }
  void Keep(Time when, std::span<const uint8_t> frame);

  Impairer impairer_;
  const uint32_t frame_bytes_;
  std::unique_ptr<uint8_t[]> memory_;
  std::vector<uint32_t> free_;    // slots; the last freed is used next
  std::vector<Waiting> waiting_;  // a heap
  uint64_t next_order_ = 0;
  std::atomic<uint32_t> under_way_{0};
};

}  // namespace urnic::impair
