// The packet path: everything that runs per burst, in one translation unit so
// that the compiler sees it whole. Nothing here allocates, locks or waits.

#include <rte_mbuf.h>

#include <algorithm>

#include "datapath/engine/engine.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/qp_of.h"
#include "datapath/engine/roce_sender.h"
#include "datapath/engine/steering.h"
#include "datapath/guest/eal.h"
#include "datapath/guest/give_way.h"
#include "transport/net/pkeys.h"

namespace urnic {

namespace {

// About 50 us of polling in vain: longer than an iteration, and as long as
// yielding the CPU takes.
constexpr uint32_t kRefusalsBeforeGivingWay = 4096;

// Calls f(qp) with the concrete type if it is RC, so that the calls are direct.
template <typename F>
[[gnu::always_inline]] inline decltype(auto) Call(EngineQp& qp, F&& f) {
  if (__builtin_expect(qp.kind() == Flow::Kind::kRcQp, 1)) {
    return f(static_cast<RcQp&>(qp));
  }
  return f(qp);
}

}  // namespace

void Engine::Enter() {
  TakeLcore(port_->lcore());
  memory_.Enter();
}

void Engine::Leave() {
  if (runner_ != nullptr) runner_->BeforeRelease(WorkLeft(), NextDeadline());
  EndTurn();
}

void Engine::EndTurn() { ReleaseLcore(); }

void Engine::Doorbell(EngineQp& qp) {
  Post(
      token_, pending_, qp.place,
      [&] {
        Enter();
        last_now_ = Now();
        ServicePost(qp);
        TransmitReady(last_now_, /*may_defer_acks=*/false);
        Leave();
      },
      [this] {
        Enter();
        Iterate(/*inline_poll=*/true);
        Leave();
      });
}

bool Engine::Progress() {
  if (ServeIfFree(token_, pending_, [this] {
        Enter();
        Iterate(/*inline_poll=*/true);
        if (runner_ != nullptr) runner_->OnProgramPoll(last_now_);
        Leave();
      })) {
    return true;
  }
  // A holder that stays this long has probably been preempted, perhaps by this
  // very thread, which polls. Let it finish.
  if (refused_polls_.fetch_add(1, std::memory_order_relaxed) %
          kRefusalsBeforeGivingWay ==
      kRefusalsBeforeGivingWay - 1) {
    GiveWay();
  }
  return false;
}

bool Engine::Iterate(bool inline_poll) {
  const Time now = last_now_ = Now();
  if (__builtin_expect(completions_.lost(), 0)) FailUsersOfFullQueues();
  ++counters_.iterations;
  completions_.BeginIteration();
  if (pending_.Any()) DrainPending();
  if (__builtin_expect(!in_error_.empty(), 0)) LookOnceMore(now);
  bool worked = false;
  if (!ready_.empty() || tx_.blocked() || network_->gsi().waiting()) {
    const uint64_t before = counters_.tx_packets;
    TransmitReady(now, /*may_defer_acks=*/false);
    worked = !tx_.blocked() || counters_.tx_packets != before;
  }
  worked |= Receive(now);
  if (__builtin_expect(now >= network_->next_deadline(), 0)) {
    network_->OnTimer(now);
  }
  if (__builtin_expect(network_->gsi().waiting(), 0))
    network_->gsi().SendWaiting();
  if (__builtin_expect(now >= completions_.held_deadline(), 0)) {
    completions_.ReleaseHeldEvents();
  }
  if (wheel_.Due(now)) {
    wheel_.Fire(now, [&](Flow& flow) {
      const FlowResult result = flow.OnTimer(now, *sink_);
      if (result.timed_out) network_->Suspect(*flow.common_path(), now);
      Apply(flow, result);
      worked = true;
    });
  }
  if (!ready_.empty()) {
    TransmitReady(now,
                  inline_poll && (runner_ == nullptr || !runner_->active()));
  }
  return worked;
}

void Engine::DrainPending() {
  pending_.Drain([this](uint32_t index) {
    // The queue pair may have been destroyed since, and its place reused.
    if (EngineQp* qp = places_.At(index)) ServicePost(*qp);
  });
}

void Engine::ServicePost(Flow& flow) {
  //= IBTA 10.3.1: what is posted in SQE and ERR is flushed
  if (__builtin_expect(flow.state() >= QpState::kSqe, 0)) {
    return Apply(flow, flow.Settle(*sink_));
  }
  // Transmit() finds out whether there is anything.
  flow.OnDoorbell();
  ready_.Push(flow);
}

// --- Receive ---------------------------------------------------------------

bool Engine::Receive(Time now) {
  bool worked = false;
  FreeReceived();
  if (tx_.looped() != 0) {
    const uint32_t count = tx_.TakeLooped(rx_, kBurstMax);
    counters_.loopback_packets += count;
    ProcessFrames(count, now);
    FreeReceived();
    worked = true;
  }
  const uint32_t count = port_->Receive(rx_, kBurstMax);
  if (count != 0) ProcessFrames(count, now);
  return worked || count != 0;
}

// Frees processed frames at the next call, when nobody waits for us.
void Engine::FreeReceived() {
  if (rx_count_ == 0) return;
  rte_pktmbuf_free_bulk(rx_, rx_count_);
  rx_count_ = 0;
}

void Engine::ProcessFrames(uint32_t count, Time now) {
  rte_mbuf** const frames = rx_;
  rx_count_ = count;
  counters_.rx_packets += count;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* data = rte_pktmbuf_mtod(frames[i], const uint8_t*);
    __builtin_prefetch(data);
    __builtin_prefetch(data + 64);
  }
  steering_->Prefetch({frames, count});
  for (uint32_t i = 0; i < count; ++i) {
    SteeredPacket steered;
    const RxVerdict verdict = steering_->Steer(
        {rte_pktmbuf_mtod(frames[i], const uint8_t*), frames[i]->data_len}, now,
        steered);
    if (__builtin_expect(verdict != RxVerdict::kAccept, 0)) {
      ++counters_.verdicts[static_cast<size_t>(verdict)];
      if (!steered.members.empty()) DeliverToGroup(steered, now);
      continue;
    }
    if (steered.qp != run_.qp) FinishRun(now);
    AddToRun(*steered.qp, steered.packet);
    // The values of an atomic live in one place each until they are placed.
    const wire::PacketKind kind = steered.packet.info->kind;
    if (kind == wire::PacketKind::kAtomic ||
        kind == wire::PacketKind::kAtomicAck) {
      FinishRun(now);
    }
  }
  FinishRun(now);
}

void Engine::DeliverToGroup(const SteeredPacket& steered, Time now) {
  const RxPacket& packet = steered.packet;
  for (EngineQp* qp : steered.members) {
    // A sender does not receive its own datagram.
    if ((steered.from_us && packet.deth().src_qp().value == qp->qpn()) ||
        !net::PkeyMatches(packet.bth->pkey.value(), qp->pkey())) {
      continue;
    }
    FinishRun(now);
    AddToRun(*qp, packet);
  }
  FinishRun(now);
}

void Engine::FinishRun(Time now) {
  if (run_.count == 0) return;
  EngineQp& qp = *run_.qp;
  const std::span<const RxPacket> packets(run_.packets, run_.count);
  sink_->Begin();
  environment_.witness().OnBurst(qp, packets);
  const FlowResult result =
      Call(qp, [&](auto& q) { return q.OnBurst(packets, now, *sink_); });
  environment_.witness().OnBurstDone();
  if (qp.srq != nullptr) ReportSrqLimit(*qp.srq);
  if (__builtin_expect(qp.service() == QpService::kXrcTarget, 0)) {
    for (const RxPacket& packet : packets) {
      RecvRing* ring = packet.xrc_ring;
      if (ring != nullptr) ReportSrqLimit(SharedReceiveQueue::Of(*ring));
    }
  }
  // An answer shows that the neighbour takes our packets, so it need not be
  // probed.
  if (result.answered && qp.path.adjacency != nullptr) {
    qp.path.adjacency->Confirm(now);
  }
  run_.count = 0;
  run_.qp = nullptr;
  Apply(qp, result);
}

void Engine::ReportSrqLimit(SharedReceiveQueue& srq) {
  if (__builtin_expect(!srq.ring.TakeLimitReached(), 1)) return;
  if (srq.events != nullptr) srq.events->OnSrqLimit(srq);
}

void Engine::Apply(Flow& flow, const FlowResult& result) {
  flow.Note(result);
  if (__builtin_expect(result.state == QpState::kErr, 0))
    OnError(EngineQp::Of(flow));
  if (__builtin_expect(result.event != QpEvent::kNone, 0)) {
    flow.OnEvent(result.event);
  }
  if (result.has_work) ready_.Push(flow);
  wheel_.Schedule(flow, result.deadline);
}

void Engine::OnError(EngineQp& qp) {
  if (qp.in_error.load(std::memory_order_relaxed)) return;
  WatchLatePosts(qp);
  //= IBTA 11.6.3.1: nothing of the shared queue is in its hands any more
  if (qp.srq != nullptr) qp.OnEvent(QpEvent::kLastWqeReached);
}

void Engine::WatchLatePosts(EngineQp& qp) {
  qp.in_error.store(true);
  // Room was reserved when the queue pair was created.
  in_error_.push_back({&qp, last_now_ + kStoresVisible});
  // Flushes what was posted before other threads could see that store.
  (void)qp.Settle(*sink_);
}

// --- Transmit --------------------------------------------------------------

void Engine::TransmitReady(Time now, bool may_defer_acks) {
  // Frames that the port has not accepted yet go first.
  if (!tx_.Flush()) return TransmitToOurselves(now);
  ReadyList<Flow> passed_over;
  uint32_t room = kBurstMax;
  // Without an empty frame a queue pair stays in the ready list.
  while (!ready_.empty() && room != 0 && tx_.HasEmptyFrame()) {
    EngineQp& qp = EngineQp::Of(ready_.Pop());
    // An acknowledgement waits to go out with an answer that the program may be
    // about to post. A packet to ourselves waits until the next iteration has
    // made room.
    if ((may_defer_acks && completions_.wrote() && qp.only_ack_waits()) ||
        roce_->IsBlocked(qp)) {
      ready_.PassOver(qp, passed_over);
      continue;
    }
    room -= Transmit(qp, now, std::min(room, tx_.empty_frames()));
  }
  ready_.Restore(passed_over);
  tx_.Flush();
  // Refill now, when everything is sent, and not before the next frame.
  tx_.TopUp();
}

uint32_t Engine::Transmit(EngineQp& qp, Time now, uint32_t room) {
  const std::span<TxSlot> slots = roce_->Slots(qp, room);
  const uint32_t count =
      Call(qp, [&](auto& q) { return q.Transmit(now, slots); });
  const uint32_t built = roce_->Send(qp, count);
  FlowResult result = Call(qp, [&](auto& q) { return q.Settle(*sink_); });
  // A queue pair with work but nothing to send waits for a response, which
  // makes it ready again.
  if (count == 0) result.has_work = false;
  Apply(qp, result);
  return built;
}

}  // namespace urnic
