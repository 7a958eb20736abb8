#pragma once

// A queue pair of any wire, as the verbs and the engine's control calls see it:
// its numbers, its completion queues, its state. RoceQp (roce_qp.h) adds what
// the packet path needs of a queue pair of RoCE. A queue pair of iWARP has no
// packets of its own: a connection, which is another flow, sends and receives
// for it (serving_flow()).

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "datapath/engine/completion_queue.h"
#include "datapath/engine/failures.h"
#include "datapath/engine/flow.h"
#include "datapath/engine/shared_receive_queue.h"
#include "ras/facts/facts.h"
#include "ras/memory/memory_tracker.h"
#include "ras/metrics/counters.h"
#include "ras/trace/trace.h"
#include "transport/work/recv_queue.h"
#include "transport/work/types.h"

namespace urnic {

class EngineQp;
struct RudWindowConfig;  // datapath/engine/rud_window.h
class InputLog;          // ras/inputs/input_log.h
class InputTap;          // datapath/engine/input_tap.h

// Asynchronous events of a queue pair. The rules of EngineEvents apply.
class QpEvents {
 public:
  virtual void OnQpEvent(EngineQp& qp, QpEvent event) = 0;
  // The queue pair, or its connection, has failed: appends a line of facts
  // about it, and about each object that it uses or that the failure names.
  // Called with the token held; must take no lock.
  virtual void DescribeFailed(const EngineQp&, const Failure&, std::string&) {}

 protected:
  ~QpEvents() = default;
};

// Memory for a queue pair. The owner provides it, and it outlives the queue
// pair. It is aligned to cache lines, and need not be initialized. Null: the
// queue pair allocates its own.
struct EngineQpPlace {
  void* qp = nullptr;
  void* sges = nullptr;
  void* records = nullptr;
};
// The sizes of that memory, in bytes.
struct EngineQpBytes {
  size_t qp = 0;
  size_t sges = 0;
  size_t records = 0;
};

struct EngineQpConfig {
  QpService service = QpService::kRc;
  QpLimits limits;
  WorkQueueView sq;
  WorkQueueView rq;  // not with `srq`
  SharedReceiveQueue* srq = nullptr;
  uint32_t xrc_domain = 0;  // kXrcTarget
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  QpEvents* events = nullptr;
  const RudWindowConfig* rud = nullptr;  // kRud
  EngineQpPlace place;
  // If the queue pair allocates its own memory: the tracker that records it,
  // and outlives the queue pair. Null: it is not recorded.
  MemoryTracker* memory = nullptr;
};

// An array of a queue pair, in given memory or in memory of its own. Given
// memory is not initialized, so each page stays untouched until one of its
// entries is used.
template <typename T>
class PlacedArray {
 public:
  PlacedArray(void* given, size_t count)
      : bits_(given != nullptr
                  ? reinterpret_cast<uintptr_t>(given)
                  : reinterpret_cast<uintptr_t>(new T[count]) | 1) {}
  ~PlacedArray() {
    if ((bits_ & 1) != 0) delete[] get();
  }
  PlacedArray(const PlacedArray&) = delete;
  PlacedArray& operator=(const PlacedArray&) = delete;
  T* get() const { return reinterpret_cast<T*>(bits_ & ~uintptr_t{1}); }

 private:
  static_assert(alignof(T) > 1);
  const uintptr_t bits_;  // bit 0: own memory. One word: objects stay small
};

// The receive requests of a queue pair: a ring of its own, or access to a
// shared one.
struct QpReceives {
  explicit QpReceives(const EngineQpConfig& config);
  QpReceives(const QpReceives&) = delete;
  QpReceives& operator=(const QpReceives&) = delete;

  PlacedArray<urnic_sge> sges;
  RecvRing own_ring;
  RecvQueue queue;
};

// Created and destroyed through QpTable. Only the token holder may touch it,
// except for qpn(), place and wants_recv_doorbell().
class EngineQp : public Flow, public Tracked<EngineQp> {
 public:
  ~EngineQp() override;

  QpService service() const { return service_; }
  uint32_t qpn() const { return qpn_; }
  // Its memory belongs to its owner (EngineQpPlace).
  bool is_placed() const { return is_placed_; }
  uint32_t pd() const { return pd_; }
  // True in state ERR, where posted receives must be flushed: the thread that
  // posts must then call Engine::Doorbell() for receives too.
  bool wants_recv_doorbell() const {
    return in_error_.load(std::memory_order_relaxed);
  }
  // The flow that must run when something has been posted: the queue pair
  // itself, or its connection while it has one.
  Flow& serving_flow() const { return *serving_flow_; }

  // Prefetches the whole object. In a program with thousands of queue pairs
  // none is cached, and each line that is touched in turn would cost a miss.
  // (20 000 queue pairs, lists of 32 writes, medians on a busy machine: 62 % of
  // the rate of one queue pair without, 69 % with it.) Any thread; reads
  // nothing.
  void Prefetch() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(this);
    for (size_t at = 0; at < kPrefetchBytes; at += 64) {
      __builtin_prefetch(bytes + at);
    }
  }

  virtual FlowResult Modify(QpState target, const QpConfig& config,
                            FlowSink& sink) = 0;
  // Changes attributes within a state. Completes nothing.
  virtual void Reconfigure(const QpConfig& config) = 0;
  virtual const QpConfig& config() const = 0;
  // The requester's counters; zero for services that do not count.
  virtual RequesterCounters counters() const = 0;
  // Adds facts for people: what the queue pair has sent and received.
  virtual void DescribeWork(Time now, FactWriter& facts) const = 0;
  // Fills in details for people: the peer, how far the queue pair came, and
  // which request or access has failed.
  virtual void DescribeFailure(Failure& failure) const = 0;
  // Appends its image (transport/work/image.h) to `out`.
  virtual void AppendImage(Time now, std::string& out) const = 0;
  // Starts to log its inputs; null: stops. False: inputs of this transport
  // cannot be logged.
  virtual bool LogInputs(std::shared_ptr<InputLog>, Time) { return false; }

  // Appends what its owner knows about it: see QpEvents.
  void DescribeFailed(const Failure& failure, std::string& lines) const {
    if (events_ != nullptr) events_->DescribeFailed(*this, failure, lines);
  }

  void OnEvent(QpEvent event) final {
    if (events_ != nullptr) events_->OnQpEvent(*this, event);
  }
  bool ShowFailed(bool failed) final { return in_error_.exchange(failed); }
  void OnFailed() final {
    //= IBTA 11.6.3.1: the event "last WQE reached" tells that a queue pair in
    //= ERR holds no request of its shared receive queue any more
    if (srq != nullptr) OnEvent(QpEvent::kLastWqeReached);
  }

 protected:
  // The largest size that a queue pair may have.
  static constexpr size_t kPrefetchBytes = 1152;

  EngineQp(Kind kind, const EngineQpConfig& config);

  // Starts to log through this tap; null: stops.
  void SetTap(std::unique_ptr<InputTap> tap);

  // These are still in the cache line of Flow, which each packet touches.
  // wire_service_ and pkey_ belong to RoceQp.
  const QpService service_;
  wire::Service wire_service_ = {};
  uint16_t pkey_ = 0;

 private:
  // The second cache line: posting and completing touch it.
  std::atomic<bool> in_error_{false};
  const bool is_placed_;

 public:
  uint32_t place = 0;  // in the engine's PendingSet; never changes

 private:
  const uint32_t qpn_;
  const uint32_t pd_;

 protected:
  // Set while is_logged_; its class is that for the transport. It is here
  // because this cache line has room.
  InputTap* tap_ = nullptr;

 public:
  CompletionQueue* const send_cq;
  CompletionQueue* const recv_cq;
  SharedReceiveQueue* const srq;

 private:
  QpEvents* const events_;

 protected:
  Flow* serving_flow_ = this;
};

// Destroys a queue pair that was made by PlaceQp().
struct QpDeleter {
  void operator()(EngineQp* qp) const {
    if (qp->is_placed()) {
      qp->~EngineQp();
    } else {
      delete qp;
    }
  }
};
template <typename Qp>
using QpPtr = std::unique_ptr<Qp, QpDeleter>;

// Makes a Qp in the place of its configuration, or in memory of its own.
template <typename Qp, typename... Args>
Qp* PlaceQp(const EngineQpConfig& config, Args&&... args) {
  if (config.place.qp == nullptr)
    return new (config.memory) Qp(config, args...);
  return ::new (config.place.qp) Qp(config, args...);
}

// The subject of an event of this queue pair, for the trace.
inline TraceSubject SubjectOf(const EngineQp& qp) {
  return {.qpn = qp.qpn(), .iwarp = qp.kind() == Flow::Kind::kIwarpQp};
}

}  // namespace urnic
