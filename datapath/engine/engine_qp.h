#pragma once

// A queue pair as the engine holds it: the transport's state, the path of its
// packets, its completion queues, and the engine's own links.
//
// What differs between the services is asked for here, once per burst: a
// branch that a program's queue pairs, mostly of one kind, train quickly.

#include <memory>
#include <span>
#include <string>
#include <variant>

#include "datapath/engine/completion_queue.h"
#include "datapath/engine/roce_path.h"
#include "datapath/engine/shared_receive_queue.h"
#include "datapath/engine/timer_wheel.h"
#include "ras/metrics/counters.h"
#include "transport/rc/qp.h"
#include "transport/uc/qp.h"
#include "transport/ud/qp.h"

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

// Created and destroyed through Engine; everything but owner() and qpn()
// belongs to the token holder.
class EngineQp {
 private:
  // XRC is RC with another header.
  bool is_rc() const {
    return service_ != QpService::kUc && service_ != QpService::kUd;
  }
  const rc::Qp& rc() const { return *std::get_if<rc::Qp>(&transport_); }

  template <typename F>
  decltype(auto) Ask(F&& f) const {
    return const_cast<EngineQp*>(this)->Ask(
        [&](auto& t) -> decltype(auto) { return f(std::as_const(t)); });
  }
  template <typename F>
  decltype(auto) Ask(F&& f) {
    if (__builtin_expect(is_rc(), 1)) {
      return f(*std::get_if<rc::Qp>(&transport_));
    }
    if (service_ == QpService::kUd) {
      return f(*std::get_if<ud::Qp>(&transport_));
    }
    return f(*std::get_if<uc::Qp>(&transport_));
  }

 public:
  EngineQp(const EngineQpConfig& config, mem::MrTable* mrs);
  EngineQp(const EngineQp&) = delete;
  EngineQp& operator=(const EngineQp&) = delete;

  QpService service() const { return service_; }
  uint32_t qpn() const { return qpn_; }
  uint32_t pd() const { return pd_; }
  void* owner() const { return owner_; }
  QpEvents* events() const { return events_; }
  // In state ERR a posted receive must be flushed: the poster calls
  // Engine::Doorbell() for receives too while this is set.
  bool wants_recv_doorbell() const {
    return in_error.load(std::memory_order_relaxed);
  }

  // Asks for all of it: a program with thousands of queue pairs has none of
  // them in a cache, and what is touched one after the other costs a miss each.
  // (20 000 queue pairs, lists of 32 writes, medians on a busy machine: 62 % of
  // the rate of one without, 69 % with it.) Any thread; nothing is read.
  void Prefetch() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(this);
    for (size_t at = 0; at < sizeof(*this); at += 64) {
      __builtin_prefetch(bytes + at);
    }
  }

  // --- The transport: see rc::Qp ------------------------------------------

  QpState state() const {
    return Ask([](const auto& t) { return t.state(); });
  }
  const QpConfig& config() const {
    return Ask([](const auto& t) -> const QpConfig& { return t.config(); });
  }
  void Modify(QpState target, const QpConfig& config) {
    MakeRoomForReads(config.max_dest_rd_atomic);
    Ask([&](auto& t) { t.Modify(target, config); });
  }
  void Reconfigure(const QpConfig& config) {
    MakeRoomForReads(config.max_dest_rd_atomic);
    Ask([&](auto& t) { t.Reconfigure(config); });
  }
  template <typename Sink>
  void OnBurst(std::span<const RxPacket> packets, Time now, Sink& sink) {
    Ask([&](auto& t) { t.OnBurst(packets, now, sink); });
  }
  void OnPlacementFault(const Placement& placement,
                        std::span<RecvCompletion> completions) {
    Ask([&](auto& t) { t.OnPlacementFault(placement, completions); });
  }
  uint32_t Transmit(Time now, std::span<TxSlot> slots) {
    return Ask([&](auto& t) { return t.Transmit(now, slots); });
  }
  bool OwesResponses() const {
    return Ask([](const auto& t) { return t.OwesResponses(); });
  }
  uint32_t TransmitResponses(std::span<TxSlot> slots) {
    return Ask([&](auto& t) { return t.TransmitResponses(slots); });
  }
  bool HasWork() const {
    return Ask([](const auto& t) { return t.HasWork(); });
  }
  bool OnlyAckWaits() const {
    return Ask([](const auto& t) { return t.OnlyAckWaits(); });
  }
  void OnGatherFault(const TxSlot& slot) {
    Ask([&](auto& t) { t.OnGatherFault(slot); });
  }
  bool PollSend(SendCompletion& out) {
    return Ask([&](auto& t) { return t.PollSend(out); });
  }
  // Sends of other services complete when they go out, before any answer.
  bool PollSendBefore(const RecvCompletion& receive, SendCompletion& out) {
    return is_rc() &&
           std::get_if<rc::Qp>(&transport_)->PollSendBefore(receive, out);
  }
  bool PollRecvFlush(RecvCompletion& out) {
    return Ask([&](auto& t) { return t.PollRecvFlush(out); });
  }
  // True: what was sent was not answered in time.
  bool OnTimer(Time now) {
    const uint64_t before = counters().timeouts;
    Ask([&](auto& t) { t.OnTimer(now); });
    return counters().timeouts != before;
  }
  Time NextDeadline() const {
    return Ask([](const auto& t) { return t.NextDeadline(); });
  }
  QpEvent TakeEvent() {
    return Ask([](auto& t) { return t.TakeEvent(); });
  }
  // From RTR and RTS on.
  Psn recv_psn() const {
    return Ask([](const auto& t) { return t.recv_psn(); });
  }
  Psn send_psn() const {
    return Ask([](const auto& t) { return t.send_psn(); });
  }
  bool sq_draining() const {
    return Ask([](const auto& t) { return t.sq_draining(); });
  }
  // Requests may have completed, or failed, by being transmitted.
  bool CompletesOnTransmit() const {
    return !is_rc() || rc().CompletesOnTransmit();
  }
  // REQUIRES: service() kUd.
  void OnNoPath(const TxSlot& slot) {
    std::get<ud::Qp>(transport_).OnNoPath(slot);
  }
  // Of its requester; zero for services that do not count.
  RequesterCounters counters() const;
  // Its image (transport/work/image.h), behind what `out` has.
  void AppendImage(Time now, std::string& out) const;
  // The transport service of its packets.
  wire::Service wire_service() const { return wire_service_; }
  uint32_t xrc_domain() const { return xrc_domain_; }
  // XRC: the ring is about to go.
  void LetGoOf(const RecvRing& ring) {
    if (recv_queue_.ring() != &ring) return;
    recv_queue_.Reset();
    recv_queue_.Use(nullptr);
  }
  // Where the next receive that is flushed completes.
  CompletionQueue* FlushCq() {
    return service_ != QpService::kXrcTarget ? recv_cq
           : recv_queue_.taken()
               ? SharedReceiveQueue::Of(*recv_queue_.ring()).cq
               : nullptr;
  }

 private:
  // Memory for reads and atomics of the peer comes when a program asks for it:
  // the most it may ask for is 7 KB, most ask for little, and some for none.
  void MakeRoomForReads(uint32_t reads);

  const QpService service_;
  const wire::Service wire_service_;
  const uint32_t qpn_;
  const uint32_t pd_;
  const uint32_t xrc_domain_;
  std::unique_ptr<rc::SendRecord[]> records_;
  std::unique_ptr<rc::ReplaySlot[]> replay_;
  std::unique_ptr<urnic_sge[]> recv_sges_;
  RecvRing own_ring_;
  RecvQueue recv_queue_;
  std::variant<std::monostate, rc::Qp, uc::Qp, ud::Qp> transport_;
  QpEvents* events_;
  void* owner_;

 public:
  RocePath path;
  SharedReceiveQueue* const srq;
  CompletionQueue* const send_cq;
  CompletionQueue* const recv_cq;
  std::atomic<bool> in_error{false};

  uint32_t place = 0;  // in the engine's PendingSet; as long as it lives

  // Engine's links, token holder only.
  EngineQp* ready_next = nullptr;  // FIFO of queue pairs with work
  bool ready = false;
  TimerLink<EngineQp> timer;
};

}  // namespace urnic
