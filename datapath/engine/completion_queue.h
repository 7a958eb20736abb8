#pragma once

// The RNIC's end of a completion queue in ABI memory: it writes entries, the
// program reads them. Overflow is an error of the queue, never an overwritten
// entry.

#include <atomic>
#include <cstdint>

#include "transport/base/time.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

class CompletionQueue;

// What the datapath tells the owner of a completion queue or queue pair.
// Called by the holder of the engine's token, in the middle of a burst: an
// implementation neither waits nor calls back into the engine.
class EngineEvents {
 public:
  // The queue was armed and a completion that it waits for has been written.
  virtual void OnCompletionEvent(CompletionQueue& cq) = 0;
  // The queue was full: entries were lost, and the queue takes no more.
  virtual void OnCqOverflow(CompletionQueue& cq) = 0;

 protected:
  ~EngineEvents() = default;
};

class CompletionQueue {
 public:
  enum Arm : uint32_t { kNotArmed = 0, kArmedSolicited = 1, kArmedAny = 2 };

  // `ring` has `entries` (a power of two) entries and, like `indices` and
  // `events`, outlives the queue. `owner` is the owner's own.
  CompletionQueue(urnic_cqe* ring, urnic_queue_indices* indices,
                  uint32_t entries, EngineEvents* events, void* owner)
      : ring_(ring),
        indices_(indices),
        mask_(entries - 1),
        events_(events),
        owner_(owner) {}

  // Token holder. Writes one entry and, if the queue is armed for it, raises
  // the event. False: the entry is lost, because the queue is full or once was
  // (overflowed(), unless IgnoreOverrun() was called); or the first event is
  // held back (holding_back()), and Release() is due after period().
  bool Push(const urnic_cqe& cqe) {
    if (producer_ - consumer_seen_ > mask_ && !RefreshConsumer()) return false;
    ring_[producer_ & mask_] = cqe;
    ++producer_;
    std::atomic_ref(indices_->producer)
        .store(producer_, std::memory_order_release);
    if (armed_ == kNotArmed) return true;
    return Notify(cqe);
  }

  // Continues in another ring of `entries`, which holds the unread entries,
  // each at the place that its index gives. REQUIRES: they fit.
  void ReplaceRing(urnic_cqe* ring, uint32_t entries) {
    ring_ = ring;
    mask_ = entries - 1;
  }

  // An event waits for `count` completions, but at most for `period`. With a
  // count of 0 or 1 it does not wait.
  void Moderate(uint32_t count, Duration period) {
    moderate_count_ = count;
    period_ = period;
  }
  Duration period() const { return period_; }
  bool holding_back() const { return held_ != 0; }
  // Raises the event that was held back, if it still is.
  void Release() {
    if (held_ != 0) Raise();
  }

  // A full queue loses entries silently: the owner promises that it never is.
  void IgnoreOverrun() { ignore_overrun_ = true; }

  // Token holder. Requests an event for the next completion, or for the next
  // solicited one or error. Stays armed if it was already armed for more.
  //
  // A completion that the program has not read yet raises the event
  // immediately. The standard does not require that, but NICs do it (their
  // doorbell carries the consumer index). Programs that find the queue empty,
  // arm it and sleep, as UCX does, would otherwise lose what arrives in
  // between. If both indices are still what they were at the last event, it is
  // not raised again: most programs arm first and then read.
  void ArmFor(Arm what) {
    if (armed_ < what) armed_ = what;
    const uint32_t consumer = LoadConsumer();
    if (consumer == told_consumer_ && producer_ == told_producer_) return;
    if (HasUnread(what, consumer)) Raise();
  }

  // Engine's links, token holder only: the list of those held back.
  bool listed = false;
  CompletionQueue* next_held = nullptr;

  void* owner() const { return owner_; }
  bool overflowed() const { return overflowed_; }
  // Completions that the program has not read.
  uint32_t unread() const { return producer_ - LoadConsumer(); }
  Arm armed() const { return armed_; }

 private:
  // An error counts as solicited.
  static bool IsSolicited(const urnic_cqe& cqe) {
    return cqe.solicited != 0 || cqe.status != 0;
  }

  uint32_t LoadConsumer() const {
    return std::atomic_ref(indices_->consumer).load(std::memory_order_acquire);
  }

  // An index outside of the ring (a broken program's) leaves nothing unread.
  bool HasUnread(Arm what, uint32_t consumer) const {
    if (producer_ - consumer > mask_ + 1) return false;
    if (what == kArmedAny) return producer_ != consumer;
    for (uint32_t at = consumer; at != producer_; ++at) {
      if (IsSolicited(ring_[at & mask_])) return true;
    }
    return false;
  }

  bool RefreshConsumer() {
    // After a lost entry nothing is written: `consumer_seen_` stays as it is.
    if (overflowed_) return false;
    const uint32_t consumer = LoadConsumer();
    // With a consumer index outside of the ring (a broken program's) the queue
    // counts as full.
    if (producer_ - consumer <= mask_ + 1) consumer_seen_ = consumer;
    if (producer_ - consumer_seen_ <= mask_) return true;
    if (ignore_overrun_) return false;
    overflowed_ = true;
    events_->OnCqOverflow(*this);
    return false;
  }

  // False: the event is held back, and it is the first.
  bool Notify(const urnic_cqe& cqe) {
    const bool solicited = IsSolicited(cqe);
    if (armed_ == kArmedSolicited && !solicited) return true;
    if (moderate_count_ > 1 && held_ + 1 < moderate_count_) {
      return held_++ != 0;
    }
    Raise();
    return true;
  }

  void Raise() {
    held_ = 0;
    armed_ = kNotArmed;
    told_producer_ = producer_;
    told_consumer_ = LoadConsumer();
    events_->OnCompletionEvent(*this);
  }

  urnic_cqe* ring_;
  urnic_queue_indices* indices_;
  uint32_t mask_;
  uint32_t producer_ = 0;
  uint32_t consumer_seen_ = 0;
  bool overflowed_ = false;
  bool ignore_overrun_ = false;
  uint32_t moderate_count_ = 0;
  uint32_t held_ = 0;  // completions since the first whose event is held back
  Duration period_;
  Arm armed_ = kNotArmed;
  // The indices when the last event was raised.
  uint32_t told_producer_ = 0;
  uint32_t told_consumer_ = 0;
  EngineEvents* events_;
  void* owner_;
};

}  // namespace urnic
