#pragma once

// A queue pair as the engine holds it: the transport's state, the path of its
// packets, its completion queues, and the engine's own links.

#include <memory>

#include "datapath/completion_queue.h"
#include "datapath/path.h"
#include "datapath/timer_wheel.h"
#include "transport/rc/qp.h"

namespace urnic {

class EngineQp;

// What becomes of a queue pair without its owner asking. As EngineEvents.
class QpEvents {
 public:
  virtual void OnQpEvent(EngineQp& qp, QpEvent event) = 0;

 protected:
  ~QpEvents() = default;
};

struct EngineQpConfig {
  QpLimits limits;
  WorkQueueView sq;
  WorkQueueView rq;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  QpEvents* events = nullptr;
  void* owner = nullptr;
};

// Created and destroyed through Engine; everything but owner() and qpn()
// belongs to the token holder.
class EngineQp {
 public:
  EngineQp(const EngineQpConfig& config, mem::MrTable* mrs)
      : records_(new rc::SendRecord[config.sq.entries()]),
        replay_(new rc::ReplaySlot[rc::kReplaySlots]),
        recv_sges_(new urnic_sge[config.limits.max_sge_recv]),
        recv_ring_(config.rq, config.limits.max_sge_recv),
        recv_queue(&recv_ring_, recv_sges_.get(), /*shared=*/false),
        rc(config.limits, config.sq, {records_.get(), config.sq.entries()},
           replay_.get(), &recv_queue, mrs),
        send_cq(config.send_cq),
        recv_cq(config.recv_cq),
        events_(config.events),
        owner_(config.owner) {}

  uint32_t qpn() const { return rc.limits().qpn; }
  void* owner() const { return owner_; }
  QpEvents* events() const { return events_; }
  Time NextDeadline() const { return rc.NextDeadline(); }
  // In state ERR a posted receive must be flushed: the poster calls
  // Engine::Doorbell() for receives too while this is set.
  bool wants_recv_doorbell() const {
    return in_error.load(std::memory_order_relaxed);
  }

 private:
  std::unique_ptr<rc::SendRecord[]> records_;
  std::unique_ptr<rc::ReplaySlot[]> replay_;
  std::unique_ptr<urnic_sge[]> recv_sges_;
  RecvRing recv_ring_;

 public:
  RecvQueue recv_queue;
  rc::Qp rc;
  Path path;
  CompletionQueue* send_cq;
  CompletionQueue* recv_cq;
  std::atomic<bool> in_error{false};

  // Engine's links, token holder only.
  EngineQp* ready_next = nullptr;  // FIFO of queue pairs with work
  bool ready = false;
  TimerLink<EngineQp> timer;

 private:
  QpEvents* events_;
  void* owner_;
};

}  // namespace urnic
