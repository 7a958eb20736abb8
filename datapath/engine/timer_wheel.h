#pragma once

// A timer wheel of seven rings of 256 slots. A slot of the first ring is 8.2 us
// wide, a slot of the next ring 256 times as wide, and so on up to the end of
// time. When its slot begins, a node moves to a lower ring. So a deadline costs
// at most six moves however far away it is, and 64 K idle connections with
// keepalive timers cost nothing in between.
//
// Rescheduling to a later time costs nothing: the node stays in its slot, and
// its deadline is checked when that slot begins. One thread (the token holder).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/base/time.h"

namespace urnic {

// A node's place in the wheel. Only the wheel touches it.
template <typename Node>
struct TimerLink {
  Node* next = nullptr;
  Node* prev = nullptr;
  Time deadline = Time::Infinite();
  int64_t tick = 0;   // when its slot begins
  int16_t slot = -1;  // 256 * ring + slot in the ring; -1: not in the wheel
};

// Node has a member `TimerLink<Node> timer`.
template <typename Node>
class TimerWheel {
 public:
  explicit TimerWheel(Time now) : tick_(TickOf(now)) {}

  // Fire() will visit `node` at `deadline`; Infinite(): never. A node has one
  // deadline, the last that was set.
  void Schedule(Node& node, Time deadline) {
    node.timer.deadline = deadline;
    if (deadline.IsInfinite()) return;
    const int64_t tick = FireTickOf(deadline);
    if (node.timer.slot >= 0) {
      if (node.timer.tick <= tick) return;
      Unhang(node);
    }
    Hang(node, tick);
  }

  void Remove(Node& node) {
    node.timer.deadline = Time::Infinite();
    if (node.timer.slot >= 0) Unhang(node);
  }

  bool Due(Time now) const { return TickOf(now) >= earliest_; }

  // Calls on_due(node) for each node whose deadline has passed. The deadline is
  // cleared first, and on_due() may set a new one.
  template <typename OnDue>
  void Fire(Time now, OnDue&& on_due) {
    const int64_t last = TickOf(now);
    // Between two events there is nothing to do, so the clock may jump from one
    // to the next.
    for (int64_t at = FindEarliest(); at <= last; at = FindEarliest()) {
      tick_ = at;
      for (int ring = kRings - 1; ring > 0; --ring) {
        if (Digit(at, ring - 1) == 0) MoveDown(ring, Digit(at, ring));
      }
      FireSlot(Digit(at, 0), now, on_due);
    }
    if (last > tick_) tick_ = last;
    earliest_ = FindEarliest();
  }

  // Fire() has nothing to do before this time.
  Time NextDeadline() const {
    return earliest_ == kNever ? Time::Infinite()
                               : Time::FromNs(earliest_ << kTickShift);
  }

 private:
  static constexpr int kTickShift = 13;
  static constexpr int kDigitBits = 8;
  static constexpr int kSlots = 1 << kDigitBits;
  // 7 digits of 8 bits hold every tick of a 63-bit clock.
  static constexpr int kRings = 7;
  static constexpr int64_t kNever = INT64_MAX;

  static int64_t TickOf(Time t) { return t.ns() >> kTickShift; }
  static int Digit(int64_t tick, int ring) {
    return static_cast<int>(tick >> (kDigitBits * ring)) & (kSlots - 1);
  }

  // Rounds up, and to a later tick than the current one: nothing fires early.
  int64_t FireTickOf(Time deadline) const {
    const int64_t tick = TickOf(deadline) + 1;
    return tick > tick_ ? tick : tick_ + 1;
  }

  // The ring of the highest digit in which `tick` differs from the current
  // tick. In that ring its slot lies ahead; in all higher rings it is the
  // current slot.
  int RingOf(int64_t tick) const {
    const auto differs = static_cast<uint64_t>(tick ^ tick_);
    return differs == 0 ? 0 : (std::bit_width(differs) - 1) / kDigitBits;
  }

  void Hang(Node& node, int64_t tick) {
    const int ring = RingOf(tick);
    const int digit = Digit(tick, ring);
    const auto slot = static_cast<size_t>(kSlots * ring + digit);
    node.timer.slot = static_cast<int16_t>(slot);
    node.timer.tick = tick;
    node.timer.prev = nullptr;
    node.timer.next = slots_[slot];
    if (node.timer.next != nullptr) node.timer.next->timer.prev = &node;
    slots_[slot] = &node;
    occupied_[slot / 64] |= uint64_t{1} << (slot % 64);
    const int shift = kDigitBits * ring;
    const int64_t begins = tick >> shift << shift;
    if (begins < earliest_) earliest_ = begins;
  }

  void Unhang(Node& node) {
    const auto slot = static_cast<size_t>(node.timer.slot);
    if (node.timer.prev != nullptr) {
      node.timer.prev->timer.next = node.timer.next;
    } else {
      slots_[slot] = node.timer.next;
    }
    if (node.timer.next != nullptr) {
      node.timer.next->timer.prev = node.timer.prev;
    }
    if (slots_[slot] == nullptr) {
      occupied_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    }
    node.timer.next = node.timer.prev = nullptr;
    node.timer.slot = -1;
  }

  // A slot begins: its nodes move to lower rings, as their current deadlines
  // require. Nodes without a deadline leave the wheel.
  void MoveDown(int ring, int digit) {
    const auto slot = static_cast<size_t>(kSlots * ring + digit);
    while (Node* node = slots_[slot]) {
      Unhang(*node);
      if (node->timer.deadline.IsInfinite()) continue;
      const int64_t tick = TickOf(node->timer.deadline) + 1;
      Hang(*node, tick > tick_ ? tick : tick_);
    }
  }

  template <typename OnDue>
  void FireSlot(int digit, Time now, OnDue&& on_due) {
    while (Node* node = slots_[static_cast<size_t>(digit)]) {
      Unhang(*node);
      const Time deadline = node->timer.deadline;
      if (deadline > now) {
        // The deadline was moved to a later time. Unless it is infinite, the
        // node goes back into the wheel, after this tick.
        Schedule(*node, deadline);
        continue;
      }
      node->timer.deadline = Time::Infinite();
      on_due(*node);
    }
  }

  // The tick of the next event: a slot of the first ring, or the beginning of a
  // slot in a higher ring. All nodes of a ring come before those of higher
  // rings.
  int64_t FindEarliest() const {
    for (int ring = 0; ring < kRings; ++ring) {
      const int digit = NextOccupied(ring, Digit(tick_, ring) + 1);
      if (digit == kSlots) continue;
      const int shift = kDigitBits * ring;
      const int64_t above = tick_ >> shift >> kDigitBits << kDigitBits;
      return (above | digit) << shift;
    }
    return kNever;
  }

  // The first slot with nodes, from `digit` on; kSlots: there is none.
  int NextOccupied(int ring, int digit) const {
    while (digit < kSlots) {
      const auto slot = static_cast<size_t>(kSlots * ring + digit);
      const uint64_t word = occupied_[slot / 64] >> (slot % 64);
      if (word != 0) return digit + std::countr_zero(word);
      digit += static_cast<int>(64 - slot % 64);
    }
    return kSlots;
  }

  int64_t tick_;  // the last tick that was fired
  int64_t earliest_ = kNever;
  std::array<Node*, kRings* kSlots> slots_ = {};
  std::array<uint64_t, kRings* kSlots / 64> occupied_ = {};
};

}  // namespace urnic
