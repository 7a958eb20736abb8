#pragma once

// Who is due: nodes (queue pairs) hang in a ring of slots, 8.2 us apart.
// Rescheduling to a later time costs nothing: the node stays where it is and
// is moved when its old slot comes up. One thread (the token holder).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic {

// A node's place in the wheel. The wheel's own.
template <typename Node>
struct TimerLink {
  Node* next = nullptr;
  Node* prev = nullptr;
  int32_t slot = -1;
  int64_t tick = 0;
};

// Node has a member `TimerLink<Node> timer` and a function NextDeadline().
template <typename Node>
class TimerWheel {
 public:
  explicit TimerWheel(Time now) : tick_(TickOf(now)) {}

  // Makes sure that Fire() visits `node` at its NextDeadline().
  void Schedule(Node& node) {
    const Time deadline = node.NextDeadline();
    if (deadline.IsInfinite()) return;
    // Rounded up: nothing fires before its time.
    int64_t tick = TickOf(deadline) + 1;
    if (tick <= tick_) tick = tick_ + 1;
    if (tick > tick_ + kSlots - 1) tick = tick_ + kSlots - 1;
    if (node.timer.slot >= 0) {
      if (node.timer.tick <= tick) return;
      Remove(node);
    }
    Insert(node, tick);
  }

  void Remove(Node& node) {
    if (node.timer.slot < 0) return;
    const auto slot = static_cast<size_t>(node.timer.slot);
    if (node.timer.prev != nullptr) {
      node.timer.prev->timer.next = node.timer.next;
    } else {
      slots_[slot] = node.timer.next;
    }
    if (node.timer.next != nullptr)
      node.timer.next->timer.prev = node.timer.prev;
    if (slots_[slot] == nullptr) {
      occupied_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    }
    node.timer.next = node.timer.prev = nullptr;
    node.timer.slot = -1;
  }

  bool Due(Time now) const { return TickOf(now) >= earliest_; }

  // Calls on_due(node) for each node whose deadline has passed and
  // schedules it anew.
  template <typename OnDue>
  void Fire(Time now, OnDue&& on_due) {
    const int64_t last = TickOf(now);
    // After a long sleep every slot is looked at once.
    if (last - tick_ > kSlots) tick_ = last - kSlots;
    while (tick_ < last) {
      ++tick_;
      FireSlot(static_cast<size_t>(tick_ & (kSlots - 1)), now, on_due);
    }
    earliest_ = FindEarliest();
  }

  // Not later than the next time that Fire() has something to do.
  Time NextDeadline() const {
    return earliest_ == INT64_MAX ? Time::Infinite()
                                  : Time::FromNs(earliest_ << kTickShift);
  }

 private:
  static constexpr int kTickShift = 13;
  static constexpr int64_t kSlots = 4096;  // 33.5 ms; later ones are re-hung

  static int64_t TickOf(Time t) { return t.ns() >> kTickShift; }

  void Insert(Node& node, int64_t tick) {
    const auto slot = static_cast<size_t>(tick & (kSlots - 1));
    node.timer.slot = static_cast<int32_t>(slot);
    node.timer.tick = tick;
    node.timer.prev = nullptr;
    node.timer.next = slots_[slot];
    if (node.timer.next != nullptr) node.timer.next->timer.prev = &node;
    slots_[slot] = &node;
    occupied_[slot / 64] |= uint64_t{1} << (slot % 64);
    if (tick < earliest_) earliest_ = tick;
  }

  template <typename OnDue>
  void FireSlot(size_t slot, Time now, OnDue&& on_due) {
    while (Node* node = slots_[slot]) {
      Remove(*node);
      if (node->NextDeadline() <= now) on_due(*node);
      Schedule(*node);  // never into the slot of this very tick
    }
  }

  int64_t FindEarliest() const {
    for (int64_t i = 1; i <= kSlots;) {
      const auto slot = static_cast<size_t>((tick_ + i) & (kSlots - 1));
      const uint64_t word = occupied_[slot / 64] >> (slot % 64);
      if (word != 0) return tick_ + i + std::countr_zero(word);
      i += static_cast<int64_t>(64 - slot % 64);
    }
    return INT64_MAX;
  }

  int64_t tick_;  // the last one that was fired
  int64_t earliest_ = INT64_MAX;
  std::array<Node*, kSlots> slots_ = {};
  std::array<uint64_t, kSlots / 64> occupied_ = {};
};

}  // namespace urnic
