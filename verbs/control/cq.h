#pragma once

// A completion queue: its memory, the RNIC's end of it, and its events.

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "datapath/engine/completion_queue.h"
#include "verbs/control/completion_ring.h"
#include "verbs/control/device.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/queue_memory.h"
#include "verbs/control/spin_lock.h"

namespace urnic::control {

struct CqRequest {
  uint32_t entries = 0;  // at least
  uint32_t comp_vector = 0;
  // The program polls from one thread only, or does its own locking.
  bool single_threaded = false;
  // The program promises that the queue never overflows. If it does, entries
  // are lost without an error.
  bool ignore_overrun = false;
  QueueAllocator* allocator = nullptr;  // outlives the queue
  EventSink* events = nullptr;
  void* user = nullptr;
};

// The device must outlive it. `polling` holds the fields that one polling
// thread at a time owns. It is public for the caller's inner loop.
class Cq final : public Tracked<Cq>, private EngineEvents {
 public:
  // INVALID_ARGUMENT: entries 0 or more than kMaxCqe, or no such vector.
  // RESOURCE_EXHAUSTED: memory or the device's limit.
  static absl::StatusOr<std::unique_ptr<Cq>> Create(Device& device,
                                                    const CqRequest& request);
  // REQUIRES: !in_use()
  ~Cq();
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  // The capacity in completions: a power of two.
  uint32_t entries() const { return entries_; }

  // Makes room for at least `entries` completions; the contents stay. Any
  // thread, also while others poll (except for single_threaded queues).
  // INVALID_ARGUMENT: 0, more than kMaxCqe, or fewer than are in the queue.
  // RESOURCE_EXHAUSTED: memory.
  absl::Status Resize(uint32_t entries);

  // Raises an event after `count` completions, or `period_us` after the first
  // of them. If both are 0, or the count is 1, each completion raises an event.
  // INVALID_ARGUMENT: a count without a period, because events might then wait
  // forever.
  absl::Status Moderate(uint16_t count, uint16_t period_us);

  //= IBTA 11.4.2.2: a program asks for an event at the next completion, or only
  //= at the next solicited one or error
  // An unread completion in the queue raises the event immediately, unless the
  // last event has already reported it (CompletionQueue::ArmFor()). When this
  // returns, each completion either raises an event or is visible to Poll(). So
  // the caller must poll once more before it sleeps.
  void RequestEvent(bool solicited_only);

  // The first step of destruction: afterwards no event is raised, not even one
  // that moderation has delayed. REQUIRES: !in_use()
  void StopEvents();

  struct Polling {
    CompletionRing ring;
    SpinLock lock_storage;
    SpinLock* lock = nullptr;  // null: single_threaded
    const urnic_mailbox* mailbox = nullptr;
    // Approximate: several threads count without a lock.
    std::atomic<uint32_t> polls_since_progress{0};
  };
  Polling& polling() { return polling_; }

  // Removes the completions of a queue pair. REQUIRES: inside a ControlScope.
  void Forget(uint32_t qpn);

  void Ref() { ++users_; }
  void Unref() { --users_; }
  bool in_use() const { return users_ != 0; }
  int users() const { return users_; }
  // A number for people; peers and programs do not see it.
  uint64_t number() const { return serial_; }

  Device& device() const { return device_; }
  CompletionQueue* engine_end() { return &engine_end_; }
  const CompletionQueue* engine_end() const { return &engine_end_; }
  void* user() const { return user_; }
  const Owner& owner() const { return owner_; }

 private:
  Cq(Device& device, const CqRequest& request, QueueMemory indices,
     QueueMemory ring, uint32_t entries);

  void OnCompletionEvent(CompletionQueue& cq) override;
  void OnCqOverflow(CompletionQueue& cq) override;

  Polling polling_;
  Device& device_;
  QueueAllocator* const allocator_;
  // The indices never move, because pollers read them without the lock.
  QueueMemory indices_;
  QueueMemory ring_;
  uint32_t entries_;
  EventSink* const events_;
  void* const user_;
  const Owner owner_;
  std::atomic<int> users_{0};
  CompletionQueue engine_end_;
  uint64_t serial_ = 0;
};

}  // namespace urnic::control
