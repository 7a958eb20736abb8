#pragma once

// A queue pair of any service, as the engine and the verbs see it: a flow of
// RoCE packets, with a path and completion queues. The object itself has a
// class for its service (qp_of.h). Only the engine sees that class, so a change
// to a transport does not recompile the verbs.

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "datapath/engine/completion_queue.h"
#include "datapath/engine/flow.h"
#include "datapath/engine/roce_path.h"
#include "datapath/engine/shared_receive_queue.h"
#include "ras/metrics/counters.h"
#include "transport/mem/mr_table.h"
#include "transport/work/image.h"
#include "transport/work/recv_queue.h"
#include "transport/work/types.h"

namespace urnic {

class EngineQp;

// Asynchronous events of a queue pair. The rules are those of EngineEvents.
class QpEvents {
 public:
  virtual void OnQpEvent(EngineQp& qp, QpEvent event) = 0;

 protected:
  ~QpEvents() = default;
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
  void* owner = nullptr;
};

// Created and destroyed through QpTable. Only the token holder may touch it,
// except for owner(), qpn(), place and wants_recv_doorbell().
class EngineQp : public Flow {
 public:
  // Creates a queue pair of the service that `config` names.
  static std::unique_ptr<EngineQp> Create(const EngineQpConfig& config,
                                          mem::MrTable* mrs);

  // REQUIRES: the flow is a queue pair. So far all flows are.
  static EngineQp& Of(Flow& flow) { return static_cast<EngineQp&>(flow); }

  QpService service() const { return service_; }
  // The transport service of its packets.
  wire::Service wire_service() const { return wire_service_; }
  // The P_Key that its packets bear.
  uint16_t pkey() const { return pkey_; }
  uint32_t qpn() const { return qpn_; }
  uint32_t pd() const { return pd_; }
  uint32_t xrc_domain() const { return xrc_domain_; }
  void* owner() const { return owner_; }
  // In state ERR a posted receive must be flushed: while this is set, the
  // poster calls Engine::Doorbell() for receives too.
  bool wants_recv_doorbell() const {
    return in_error_.load(std::memory_order_relaxed);
  }

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

  // --- The transport's calls: see rc::Qp ----------------------------------

  // Processes packets of one burst, in order, and executes their effects.
  virtual FlowResult OnBurst(std::span<const RxPacket> packets, Time now,
                             FlowSink& sink) = 0;
  // A packet that OnBurst() will get is marked "congestion experienced".
  // Datagram queue pairs ignore it: they have no sender to notify.
  virtual void OnMarked(const RxPacket& packet, Time now) = 0;
  // Handles a congestion notification packet of the peer; returns its verdict.
  virtual RxVerdict OnCnp(Time now) = 0;
  virtual FlowResult Modify(QpState target, const QpConfig& config,
                            FlowSink& sink) = 0;
  // Changes attributes within a state. Completes nothing.
  virtual void Reconfigure(const QpConfig& config) = 0;
  virtual bool OwesResponses() const = 0;
  virtual uint32_t TransmitResponses(std::span<TxSlot> slots) = 0;
  // The address handle of a datagram from Transmit() does not exist.
  virtual void OnNoPath(const TxSlot& slot) = 0;

  virtual const QpConfig& config() const = 0;
  // recv_psn() is valid from RTR on, send_psn() from RTS on.
  virtual Psn recv_psn() const = 0;
  virtual Psn send_psn() const = 0;
  virtual bool sq_draining() const = 0;
  // The requester's counters; zero for services that do not count.
  virtual RequesterCounters counters() const = 0;
  // Appends its image (transport/work/image.h) to `out`.
  virtual void AppendImage(Time now, std::string& out) const = 0;
  // Restores a new queue pair from an image. If the image is refused, the queue
  // pair must be destroyed.
  virtual ImageRefusal BecomeImage(std::span<const uint8_t> image,
                                   Time now) = 0;

  const net::Path* common_path() const final {
    return service_ == QpService::kUd ? nullptr : &path;
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
  // XRC targets, before BecomeImage(): sets the ring of the current receive.
  void TakeFrom(RecvRing& ring) { recv_queue_.Use(&ring); }
  // XRC: the ring is about to be destroyed; stops using it.
  void LetGoOf(const RecvRing& ring) {
    if (recv_queue_.ring() != &ring) return;
    recv_queue_.Reset();
    recv_queue_.Use(nullptr);
  }
  // The completion queue for flushed receives.
  CompletionQueue& flush_cq() const {
    return service_ != QpService::kXrcTarget
               ? *recv_cq
               : *SharedReceiveQueue::Of(*recv_queue_.ring()).cq;
  }

 protected:
  // The largest size that the object of a service may have.
  static constexpr size_t kPrefetchBytes = 1024;

  EngineQp(Kind kind, const EngineQpConfig& config);

  // These are still in Flow's cache line.
  const QpService service_;
  const wire::Service wire_service_;
  uint16_t pkey_ = 0;

 private:
  // The second cache line: posting and completing touch it.
  std::atomic<bool> in_error_{false};

 public:
  uint32_t place = 0;  // in the engine's PendingSet; never changes

 private:
  const uint32_t qpn_;
  const uint32_t pd_;
  const uint32_t xrc_domain_;

 public:
  CompletionQueue* const send_cq;
  CompletionQueue* const recv_cq;
  SharedReceiveQueue* const srq;

 private:
  QpEvents* const events_;
  void* const owner_;

 public:
  RocePath path;

 private:
  std::unique_ptr<urnic_sge[]> recv_sges_;
  RecvRing own_ring_;

 protected:
  RecvQueue recv_queue_;
};

}  // namespace urnic
