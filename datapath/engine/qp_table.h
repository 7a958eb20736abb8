#pragma once

// The queue pairs of an engine: which number each has, and which place in the
// pending set. Numbers are drawn from 2^21 (transport/base/numbers.h); places
// are as low as can be, so that marking and looking touches little.

#include <deque>
#include <optional>
#include <utility>

#include "datapath/engine/engine_qp.h"
#include "datapath/engine/number_table.h"

namespace urnic {

// Queue pairs are the caller's. Thread: the holder of the engine's token.
class QpTable {
 public:
  // `max`: at most kMaxQueuePairs. `key`: random per incarnation.
  QpTable(uint32_t max, uint32_t ordinal, const NumberKey& key)
      : numbers_(max, ordinal, key) {}

  uint32_t size() const { return numbers_.size(); }
  uint32_t max() const { return numbers_.max(); }

  EngineQp* Find(uint32_t qpn) const { return numbers_.Find(qpn); }
  // Null: the place is free.
  EngineQp* AtPlace(uint32_t place) const {
    return place < places_.size() ? places_[place].qp : nullptr;
  }

  // As NumberTable::Draw().
  template <typename IsBusy>
  std::optional<uint32_t> DrawQpn(IsBusy&& is_busy) {
    return numbers_.Draw(std::forward<IsBusy>(is_busy));
  }
  // REQUIRES: its number is the last that was drawn. Gives it a place.
  void Add(EngineQp& qp) {
    numbers_.Add(qp.qpn(), &qp);
    if (first_free_ == kNone) {
      first_free_ = static_cast<uint32_t>(places_.size());
      places_.emplace_back();
    }
    qp.place = first_free_;
    Place& place = places_[qp.place];
    first_free_ = place.next_free;
    place.qp = &qp;
  }
  void Remove(EngineQp& qp) {
    numbers_.Remove(qp.qpn());
    places_[qp.place] = {nullptr, first_free_};
    first_free_ = qp.place;
  }

  // `f(qp)` for each.
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

  NumberTable<EngineQp> numbers_;
  std::deque<Place> places_;  // grows without moving what is there
  uint32_t first_free_ = kNone;
};

}  // namespace urnic
