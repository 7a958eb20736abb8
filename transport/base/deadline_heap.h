#pragma once

// The deadlines of many items, soonest first: a binary heap that knows where
// each item is, so that a deadline can be moved. Only Grow() allocates.

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/base/time.h"

namespace urnic {

class DeadlineHeap {
 public:
  // Makes room for items below `items`.
  void Grow(uint32_t items) {
    if (items <= place_.size()) return;
    place_.resize(items, kNowhere);
    heap_.reserve(place_.capacity());
  }
  void Set(uint32_t item, Time when) {
    if (place_[item] == kNowhere) {
      place_[item] = static_cast<uint32_t>(heap_.size());
      heap_.push_back({when, item});
    } else {
      heap_[place_[item]].when = when;
    }
    Down(Up(place_[item]));
  }
  void Clear(uint32_t item) {
    const uint32_t at = place_[item];
    if (at == kNowhere) return;
    place_[item] = kNowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    heap_[at] = last;
    place_[last.item] = at;
    Down(Up(at));
  }
  bool Has(uint32_t item) const { return place_[item] != kNowhere; }
  Time next() const {
    return heap_.empty() ? Time::Infinite() : heap_.front().when;
  }
  // REQUIRES: next() is not infinite
  uint32_t next_item() const { return heap_.front().item; }

 private:
  struct Entry {
    Time when;
    uint32_t item = 0;
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;

  void Swap(uint32_t a, uint32_t b) {
    std::swap(heap_[a], heap_[b]);
    place_[heap_[a].item] = a;
    place_[heap_[b].item] = b;
  }
  uint32_t Up(uint32_t at) {
    while (at > 0 && heap_[at].when < heap_[(at - 1) / 2].when) {
      Swap(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
    return at;
  }
  void Down(uint32_t at) {
    for (;;) {
      uint32_t least = at;
      for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; ++child) {
        if (child < heap_.size() && heap_[child].when < heap_[least].when) {
          least = child;
        }
      }
      if (least == at) return;
      Swap(at, least);
      at = least;
    }
  }

  std::vector<Entry> heap_;
  std::vector<uint32_t> place_;
};

}  // namespace urnic
