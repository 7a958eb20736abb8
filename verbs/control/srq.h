#pragma once

// A shared receive queue: its memory, and the limit of requests below which its
// owner gets an event.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/shared_receive_queue.h"
#include "verbs/control/cq.h"
#include "verbs/control/event_sink.h"
#include "verbs/control/pd.h"
#include "verbs/control/queue_memory.h"
#include "verbs/control/spin_lock.h"
#include "verbs/control/work_ring.h"

namespace urnic::control {

struct SrqRequest {
  uint32_t max_wr = 0;  // at least
  uint32_t max_sge = 0;
  // XRC: both, or neither.
  uint32_t xrc_domain = 0;
  Cq* cq = nullptr;
  // The posting thread is always the same one (a thread domain).
  bool single_threaded = false;
  QueueAllocator* allocator = nullptr;  // outlives the queue
  EventSink* events = nullptr;
  void* user = nullptr;
};

// Any thread, except for `posting`, which one posting thread at a time owns.
// The domain must outlive it.
class Srq final : public Tracked<Srq>, private SrqEvents {
 public:
  // INVALID_ARGUMENT: sizes 0 or beyond the device's limits.
  // RESOURCE_EXHAUSTED: memory or the device's limit.
  static absl::StatusOr<std::unique_ptr<Srq>> Create(Pd& pd,
                                                     const SrqRequest& request);
  // REQUIRES: !in_use()
  ~Srq();
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  // Changes the values that are given. `max_wr`: room for at least that many
  // requests; posted requests stay. `limit`: the queue raises an event when it
  // has fewer requests; 0: no event. On failure nothing changes.
  // INVALID_ARGUMENT: room for 0 requests, for more than the device's limit, or
  // for fewer than are posted; a limit above the queue's size.
  // RESOURCE_EXHAUSTED: memory.
  absl::Status Modify(std::optional<uint32_t> max_wr,
                      std::optional<uint32_t> limit);
  // Reads both values at the same moment.
  struct Sizes {
    uint32_t max_wr;
    uint32_t limit;
  };
  Sizes Query() const;

  bool is_xrc() const { return cq_ != nullptr; }
  // The number by which XRC peers address it.
  uint32_t number() const { return engine_end_->number; }
  uint32_t max_sge() const { return posting_.max_sge; }

  struct Posting {
    WorkRing ring;
    SpinLock* lock = nullptr;  // null: single_threaded
    const urnic_mailbox* mailbox = nullptr;
    uint32_t max_sge = 0;
    SpinLock lock_storage;
  };
  Posting& posting() { return posting_; }

  void Ref() { ++users_; }
  void Unref() { --users_; }
  bool in_use() const { return users_ != 0; }
  int users() const { return users_; }
  Cq* cq() const { return cq_; }

  Pd& pd() const { return pd_; }
  SharedReceiveQueue* engine_end() const { return engine_end_; }
  void* user() const { return user_; }
  const Owner& owner() const { return owner_; }

 private:
  Srq(Pd& pd, const SrqRequest& request, const QpLayout& layout,
      QueueMemory memory);
  void CreateInEngine(uint32_t xrc_domain, const QpLayout& layout);
  absl::Status Resize(uint32_t max_wr, std::optional<uint32_t> limit);
  void OnSrqLimit(SharedReceiveQueue& srq) override;
  void OnSrqError(SharedReceiveQueue& srq) override;

  Posting posting_;
  Pd& pd_;
  QueueAllocator* const allocator_;
  QueueMemory memory_;
  Cq* const cq_;
  EventSink* const events_;
  void* const user_;
  const Owner owner_;
  std::atomic<int> users_{0};
  SharedReceiveQueue* engine_end_ = nullptr;  // null: Create() failed
  uint64_t serial_ = 0;
};

}  // namespace urnic::control
