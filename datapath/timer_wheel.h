#pragma once

// Who is due: queue pairs hang in a ring of slots, 8.2 us apart. Rescheduling
// to a later time costs nothing: the queue pair stays where it is and is moved
// when its old slot comes up. One thread (the token holder).

#include <array>
#include <bit>
#include <cstdint>

#include "datapath/engine_qp.h"
#include "transport/base/time.h"

namespace urnic {

class TimerWheel {
 public:
  explicit TimerWheel(Time now) : tick_(TickOf(now)) {}

  // Makes sure that Fire() visits `qp` at its rc.NextDeadline().
  void Schedule(EngineQp& qp) {
    const Time deadline = qp.rc.NextDeadline();
    if (deadline.IsInfinite()) return;
    // Rounded up: nothing fires before its time.
    int64_t tick = TickOf(deadline) + 1;
    if (tick <= tick_) tick = tick_ + 1;
    if (tick > tick_ + kSlots - 1) tick = tick_ + kSlots - 1;
    if (qp.timer_slot >= 0) {
      if (qp.timer_tick <= tick) return;
      Remove(qp);
    }
    Insert(qp, tick);
  }

  void Remove(EngineQp& qp) {
    if (qp.timer_slot < 0) return;
    const auto slot = static_cast<size_t>(qp.timer_slot);
    if (qp.timer_prev != nullptr) {
      qp.timer_prev->timer_next = qp.timer_next;
    } else {
      slots_[slot] = qp.timer_next;
    }
    if (qp.timer_next != nullptr) qp.timer_next->timer_prev = qp.timer_prev;
    if (slots_[slot] == nullptr) {
      occupied_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    }
    qp.timer_next = qp.timer_prev = nullptr;
    qp.timer_slot = -1;
  }

  bool Due(Time now) const { return TickOf(now) >= earliest_; }

  // Calls on_due(qp) for each queue pair whose deadline has passed and
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

  void Insert(EngineQp& qp, int64_t tick) {
    const auto slot = static_cast<size_t>(tick & (kSlots - 1));
    qp.timer_slot = static_cast<int32_t>(slot);
    qp.timer_tick = tick;
    qp.timer_prev = nullptr;
    qp.timer_next = slots_[slot];
    if (qp.timer_next != nullptr) qp.timer_next->timer_prev = &qp;
    slots_[slot] = &qp;
    occupied_[slot / 64] |= uint64_t{1} << (slot % 64);
    if (tick < earliest_) earliest_ = tick;
  }

  template <typename OnDue>
  void FireSlot(size_t slot, Time now, OnDue&& on_due) {
    while (EngineQp* qp = slots_[slot]) {
      Remove(*qp);
      if (qp->rc.NextDeadline() <= now) on_due(*qp);
      Schedule(*qp);  // never into the slot of this very tick
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
  std::array<EngineQp*, kSlots> slots_ = {};
  std::array<uint64_t, kSlots / 64> occupied_ = {};
};

}  // namespace urnic
