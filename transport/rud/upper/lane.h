#pragma once

// A lane: one of our contexts and one of the peer's, between two windows. It
// carries one unit at a time: a part of a write, of a read or of a message. It
// counts the tids, {transfer, attempt}, for both contexts. Nothing else uses
// these contexts.

#include <cstdint>
#include <vector>

#include "transport/base/time.h"
#include "transport/rud/context_pool.h"

namespace urnic::rud::upper {

struct Pair;
struct Path;

constexpr uint64_t kAttempts = 256;  // of a transfer
inline constexpr ContextId kNoContext = {UINT32_MAX, UINT32_MAX};

enum class LaneState : uint8_t {
  kFree,     // in the list of its pair
  kBusy,     // in the list of its last command's path
  kParked,   // has a unit, but no path lives; in a list of its peer
  kFencing,  // the peer must release its context; in a list of its peer
  kUseless,  // a context is missing, or the window has failed
};

enum class UnitKind : uint8_t { kWrite, kRead, kMessage, kProbe };

// A part of an operation: its index in the operation. A list, that is, several
// small writes that share a packet, is represented by the first of them:
// Operation::next links the others, and Lane::writes is their number.
struct Unit {
  uint32_t operation = 0;
  uint32_t index = 0;
};

struct Lane {
  Lane* previous = nullptr;  // in its list
  Lane* next = nullptr;
  Pair* pair = nullptr;
  Path* path = nullptr;  // of the last command
  ContextId own = kNoContext;
  ContextId theirs = kNoContext;
  uint64_t tid = 0;      // the last one that was used
  uint64_t missing = 0;  // packets that may not have arrived
  Time sent;             // time of the last command
  uint64_t order = 0;    // of the last command on its path
  Unit unit;
  uint32_t bytes = 0;  // of the unit
  uint32_t slot = 0;   // at the peer's window
  uint32_t generation = 0;
  uint16_t stride = 0;
  uint8_t packets = 0;    // of the unit
  uint8_t under_way = 0;  // packets that the path counts
  uint8_t tries = 0;      // time-outs of the unit
  uint8_t writes = 1;     // operations of the unit; more than 1: a list
  UnitKind kind = UnitKind::kWrite;
  LaneState state = LaneState::kFree;
  bool asks = false;     // the last command was a state request
  bool is_first = true;  // it was the first one of this unit
};

// A list of lanes. A lane is in at most one list.
class LaneList {
 public:
  bool empty() const { return first_ == nullptr; }
  Lane* front() const { return first_; }
  void Append(Lane& lane) {
    lane.previous = last_;
    lane.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &lane;
    last_ = &lane;
  }
  // For the next use: this lane is still in the cache.
  void Prepend(Lane& lane) {
    lane.previous = nullptr;
    lane.next = first_;
    (first_ == nullptr ? last_ : first_->previous) = &lane;
    first_ = &lane;
  }
  void Remove(Lane& lane) {
    (lane.previous == nullptr ? first_ : lane.previous->next) = lane.next;
    (lane.next == nullptr ? last_ : lane.next->previous) = lane.previous;
  }
  // Null: there is none.
  Lane* PopFront() {
    Lane* const lane = first_;
    if (lane != nullptr) Remove(*lane);
    return lane;
  }
  // A copy of the list, which may then change.
  std::vector<Lane*> All() const {
    std::vector<Lane*> all;
    for (Lane* lane = first_; lane != nullptr; lane = lane->next)
      all.push_back(lane);
    return all;
  }

 private:
  Lane* first_ = nullptr;
  Lane* last_ = nullptr;
};

}  // namespace urnic::rud::upper
