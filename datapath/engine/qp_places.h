#pragma once

// Gives each queue pair of an engine its place in the PendingSet. Places are as
// low as possible, so that marking and draining touch little memory.

#include <cstdint>
#include <deque>

#include "datapath/engine/engine_qp.h"

namespace urnic {

// The caller owns the queue pairs. Thread: the holder of the engine's token.
class QpPlaces {
 public:
  uint32_t size() const { return count_; }

  // One past the highest place ever used.
  uint32_t end() const { return static_cast<uint32_t>(places_.size()); }
  // Null: the place is free.
  EngineQp* At(uint32_t place) const {
    return place < places_.size() ? places_[place].qp : nullptr;
  }

  // Gives a queue pair a place for its whole life.
  void Add(EngineQp& qp) {
    if (first_free_ == kNone) {
      first_free_ = static_cast<uint32_t>(places_.size());
      places_.emplace_back();
    }
    qp.place = first_free_;
    Place& place = places_[qp.place];
    first_free_ = place.next_free;
    place.qp = &qp;
    ++count_;
  }
  void Remove(EngineQp& qp) {
    places_[qp.place] = {nullptr, first_free_};
    first_free_ = qp.place;
    --count_;
  }

  // Calls `f(qp)` for each queue pair.
  template <typename F>
  void ForEach(F&& f) const {
    for (const Place& place : places_) {
      if (place.qp != nullptr) f(*place.qp);
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    EngineQp* qp = nullptr;
    uint32_t next_free = kNone;
  };

  std::deque<Place> places_;  // elements do not move when it grows
  uint32_t first_free_ = kNone;
  uint32_t count_ = 0;
};

}  // namespace urnic
