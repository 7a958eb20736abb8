#pragma once

// The RNIC's end of a completion queue. The queue is a ring in ABI memory: the
// RNIC writes entries, and the program reads them. If the ring is full, the
// queue fails; an unread entry is never overwritten.

#include <atomic>
#include <cstdint>

#include "transport/base/time.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

class CompletionQueue;

// Events for the owner of a completion queue. The holder of the engine's token
// calls these functions in the middle of a burst, so an implementation must not
// wait or call the engine.
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
  // `events`, outlives the queue. `owner` is only stored, for owner().
  CompletionQueue(urnic_cqe* ring, urnic_queue_indices* indices,
                  uint32_t entries, EngineEvents* events, void* owner)
      : ring_(ring),
        indices_(indices),
        mask_(entries - 1),
        events_(events),
        owner_(owner) {}

  // Token holder. Writes one entry and, if the queue is armed for it, raises
  // the event. Returns false in two cases. The entry is lost, because the queue
  // is full or has overflowed before (then overflowed(), unless IgnoreOverrun()
  // was called). Or moderation begins to hold back an event (holding_back()):
  // the caller must call Release() after period().
  bool Push(const urnic_cqe& cqe) {
    if (producer_ - consumer_seen_ > mask_ && !RefreshConsumer()) return false;
    ring_[producer_ & mask_] = cqe;
    ++producer_;
    std::atomic_ref(indices_->producer)
        .store(producer_, std::memory_order_release);
    if (armed_ == kNotArmed) return true;
    return Notify(cqe);
  }

  // Continues in another ring of `entries` entries. The caller has copied the
  // unread entries to it, each to the place that its index gives. REQUIRES:
  // they fit.
  void ReplaceRing(urnic_cqe* ring, uint32_t entries) {
    ring_ = ring;
    mask_ = entries - 1;
  }

  // Sets the moderation: an event waits for `count` completions, but at most
  // for `period`. With a count of 0 or 1 it does not wait.
  void Moderate(uint32_t count, Duration period) {
    moderate_count_ = count;
    period_ = period;
  }
  Duration period() const { return period_; }
  bool holding_back() const { return held_ != 0; }
  // Raises the event, if one is still held back.
  void Release() {
    if (held_ != 0) Raise();
  }

  // The owner promises that the queue is never full. If it is full all the
  // same, entries are lost without an error.
  void IgnoreOverrun() { ignore_overrun_ = true; }

  // Token holder. Requests an event for the next completion, or for the next
  // solicited one or error. Stays armed if it was already armed for more.
  //
  // A completion that the program has not read yet raises the event
  // immediately. The standard does not require that, but NICs do it (their
  // doorbell carries the consumer index). Programs that find the queue empty,
  // arm it and sleep, as UCX does, would otherwise miss what arrives in
  // between. The event is not raised again if both indices are the same as at
  // the last event, because most programs arm first and then read.
  void ArmFor(Arm what) {
    if (armed_ < what) armed_ = what;
    const uint32_t consumer = LoadConsumer();
    if (consumer == told_consumer_ && producer_ == told_producer_) return;
    if (HasUnread(what, consumer)) Raise();
  }

  // Links of CompletionWriter's list of queues with a held event. Token holder
  // only.
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

  // If a broken program has written an index outside of the ring, nothing
  // counts as unread.
  bool HasUnread(Arm what, uint32_t consumer) const {
    if (producer_ - consumer > mask_ + 1) return false;
    if (what == kArmedAny) return producer_ != consumer;
    for (uint32_t at = consumer; at != producer_; ++at) {
      if (IsSolicited(ring_[at & mask_])) return true;
    }
    return false;
  }

  bool RefreshConsumer() {
    // After a lost entry nothing more is written, so `consumer_seen_` stays as
    // it is.
    if (overflowed_) return false;
    const uint32_t consumer = LoadConsumer();
    // If a broken program has written a consumer index outside of the ring, the
    // queue counts as full.
    if (producer_ - consumer <= mask_ + 1) consumer_seen_ = consumer;
    if (producer_ - consumer_seen_ <= mask_) return true;
    if (ignore_overrun_) return false;
    overflowed_ = true;
    events_->OnCqOverflow(*this);
    return false;
  }

  // False: the event is held back, and no other one was held before it.
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
  uint32_t held_ = 0;  // completions whose event is held back
  Duration period_;
  Arm armed_ = kNotArmed;
  // The indices when the last event was raised.
  uint32_t told_producer_ = 0;
  uint32_t told_consumer_ = 0;
  EngineEvents* events_;
  void* owner_;
};

}  // namespace urnic
