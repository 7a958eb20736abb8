// The packet path: everything that runs per burst, in one translation unit so
// that the compiler sees it whole. Nothing here allocates, locks or waits.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "datapath/engine/engine.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/qp_of.h"
#include "datapath/engine/roce_framer.h"
#include "datapath/guest/eal.h"
#include "datapath/guest/give_way.h"
#include "datapath/memory/placer.h"
#include "transport/net/pkeys.h"
#include "transport/wire/frame.h"

namespace urnic {

namespace {

// About 50 us of polling in vain: longer than an iteration takes, and as long
// as giving way does.
constexpr uint32_t kRefusalsBeforeGivingWay = 4096;

// f(qp), with the type that the compiler sees through if it is the usual one.
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
  copy_mode_known_ = false;
}

CopyMode Engine::ThisThreadsCopyMode() {
  if (!copy_mode_known_) copy_mode_ = CopyModeOfThisThread();
  copy_mode_known_ = true;
  return copy_mode_;
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
  // A holder that stays this long has probably been preempted, and perhaps by
  // this very thread, which polls: let it finish.
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
      if (result.timed_out) network_->Suspect(EngineQp::Of(flow).path, now);
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

void Engine::ServicePost(EngineQp& qp) {
  //= IBTA 10.3.1: what is posted in SQE and ERR is flushed
  if (__builtin_expect(qp.state() >= QpState::kSqe, 0)) {
    return Apply(qp, qp.Settle(*sink_));
  }
  // Transmit() finds out whether there is anything.
  qp.OnDoorbell();
  ready_.Push(qp);
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

// What is done with is freed at the next look, when nobody waits for us.
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
  PrefetchQps(count);
  for (uint32_t i = 0; i < count; ++i) {
    RxPacket packet;
    EngineQp* qp = nullptr;
    const RxVerdict verdict =
        Classify(rte_pktmbuf_mtod(frames[i], const uint8_t*),
                 frames[i]->data_len, packet, qp, now);
    if (__builtin_expect(verdict != RxVerdict::kAccept, 0)) {
      ++counters_.verdicts[static_cast<size_t>(verdict)];
      continue;
    }
    if (qp != run_.qp) FinishRun(now);
    run_.qp = qp;
    run_.packets[run_.count++] = packet;
    // The values of an atomic live in one place each until they are placed.
    if (packet.info->kind == wire::PacketKind::kAtomic ||
        packet.info->kind == wire::PacketKind::kAtomicAck) {
      FinishRun(now);
    }
  }
  FinishRun(now);
}

// A guess that reads one word of each frame: of IPv4 without tags and options,
// as RoCE's nearly always is. What it gets wrong costs a line of the cache.
void Engine::PrefetchQps(uint32_t count) {
  constexpr size_t kAtIp = sizeof(wire::Ethernet);
  constexpr size_t kAtQpn = kAtIp + sizeof(wire::Ipv4) + 8 + 4;
  uint32_t before = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* frame = rte_pktmbuf_mtod(rx_[i], const uint8_t*);
    uint32_t word;
    std::memcpy(&word, frame + kAtQpn, sizeof(word));
    if (word == before) continue;
    before = word;
    const EngineQp* qp =
        network_->qps().Find(__builtin_bswap32(word) & 0xffffff);
    if (qp != nullptr) qp->Prefetch();
  }
}

RxVerdict Engine::Classify(const uint8_t* frame, size_t bytes, RxPacket& packet,
                           EngineQp*& qp, Time now) {
  wire::FrameView view;
  const RxVerdict shape = wire::ParseFrame(frame, bytes, view);
  if (__builtin_expect(shape != RxVerdict::kAccept, 0)) {
    return network_->OnFrame(view, shape, {frame, bytes}, now);
  }
  if (__builtin_expect(!network_->host().IsOurVlan(view), 0)) {
    return RxVerdict::kForeignVlan;
  }
  const RxVerdict form =
      wire::ParseRoce(view.payload, view.payload_bytes, packet);
  if (form != RxVerdict::kAccept) return form;
  const bool marked = view.congestion_experienced();
  if (__builtin_expect(marked, 0)) ++counters_.ce_received;
  packet.ip = view.l3;
  packet.framing = view.framing;
  qp = FindQp(packet.bth->dest_qp().value);
  if (__builtin_expect(qp == nullptr, 0)) {
    return OnPacketWithoutQp(view, packet, now);
  }
  const bool from_peer = RoceFramer::IsFromPeer(qp->path, view);
  if (!RoceFramer::IcrcIsRight(qp->path, view, from_peer)) {
    return RxVerdict::kBadIcrc;
  }
  const bool cnp = packet.info->kind == wire::PacketKind::kCnp;
  if (packet.info->service != qp->wire_service() && !cnp) {
    return RxVerdict::kWrongTransport;
  }
  if (qp->state() < QpState::kRtr) return RxVerdict::kQpNotReady;
  if (__builtin_expect(qp->service() == QpService::kUd, 0)) {
    if (!network_->host().IsLocal(view.dst)) return RxVerdict::kNotForUs;
  } else if (!from_peer) {
    return network_->host().IsLocal(view.dst) ? RxVerdict::kWrongPeer
                                              : RxVerdict::kNotForUs;
  }
  if (__builtin_expect(packet.info->has_xrceth, 0)) {
    packet.xrc_ring = network_->FindXrcRing(*qp, packet);
  }
  if (!net::PkeyMatches(packet.bth->pkey.value(), qp->pkey())) {
    return RxVerdict::kBadPkey;
  }
  if (__builtin_expect(cnp, 0)) return qp->OnCnp(now);
  if (__builtin_expect(marked, 0)) qp->OnMarked(packet, now);
  return RxVerdict::kAccept;
}

void Engine::FinishRun(Time now) {
  if (run_.count == 0) return;
  EngineQp& qp = *run_.qp;
  const std::span<const RxPacket> packets(run_.packets, run_.count);
  sink_->Begin(ThisThreadsCopyMode());
  const FlowResult result =
      Call(qp, [&](auto& q) { return q.OnBurst(packets, now, *sink_); });
  if (qp.srq != nullptr) ReportSrqLimit(*qp.srq);
  if (__builtin_expect(qp.service() == QpService::kXrcTarget, 0)) {
    for (const RxPacket& packet : packets) {
      RecvRing* ring = packet.xrc_ring;
      if (ring != nullptr) ReportSrqLimit(SharedReceiveQueue::Of(*ring));
    }
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
  qp.in_error.store(true);
  // Room was reserved when it was created.
  in_error_.push_back({&qp, last_now_ + kStoresVisible});
  // What was posted before that store could be seen.
  (void)qp.Settle(*sink_);
  //= IBTA 11.6.3.1: nothing of the shared queue is in its hands any more
  if (qp.srq != nullptr) qp.OnEvent(QpEvent::kLastWqeReached);
}

// --- Transmit --------------------------------------------------------------

void Engine::TransmitReady(Time now, bool may_defer_acks) {
  // What the port has not taken yet goes first.
  if (!tx_.Flush()) return TransmitToOurselves(now);
  ReadyList<Flow> passed_over;
  uint32_t room = kBurstMax;
  // Without an empty frame a queue pair stays where it is.
  while (!ready_.empty() && room != 0 && tx_.HasEmptyFrame()) {
    EngineQp& qp = EngineQp::Of(ready_.Pop());
    // An acknowledgement goes out with the answer that the program may be about
    // to post; a packet to ourselves, when the next iteration has made room.
    if ((may_defer_acks && completions_.wrote() && qp.only_ack_waits()) ||
        (MayLoop(qp) && tx_.loop_room() == 0)) {
      ready_.PassOver(qp, passed_over);
      continue;
    }
    room -= TransmitQp(qp, now, std::min(room, tx_.empty_frames()));
  }
  ready_.Restore(passed_over);
  tx_.Flush();
  // Now, with everything on its way, rather than in front of the next frame.
  tx_.TopUp();
}

uint32_t Engine::TransmitQp(EngineQp& qp, Time now, uint32_t room) {
  const std::span<TxSlot> slots(slots_, RoomFor(qp, room));
  const uint32_t count =
      Call(qp, [&](auto& q) { return q.Transmit(now, slots); });
  const uint32_t built = SendSlots(qp, count);
  FlowResult result = Call(qp, [&](auto& q) { return q.Settle(*sink_); });
  // With work but nothing to send it waits for a response, which makes it
  // ready again.
  if (count == 0) result.has_work = false;
  Apply(qp, result);
  return built;
}

// Datagrams may go to ourselves each.
bool Engine::MayLoop(const EngineQp& qp) {
  return qp.path.loopback || qp.service() == QpService::kUd;
}

// Null: its address handle is gone, or another domain's.
RocePath* Engine::PathOf(EngineQp& qp, const TxSlot& slot) {
  if (__builtin_expect(qp.service() != QpService::kUd, 1)) return &qp.path;
  RocePath* path =
      network_->address_handles().Find(slot.address_handle, qp.pd());
  if (path != nullptr) path->FollowNeighbor();
  return path;
}

bool Engine::BuildFrame(EngineQp& qp, CopyMode mode, const TxSlot& slot,
                        rte_mbuf* frame) {
  RocePath* const path = PathOf(qp, slot);
  if (__builtin_expect(path == nullptr, 0)) {
    qp.OnNoPath(slot);
    return false;
  }
  if (RoceFramer::Build(*path, mode, slot, frame)) return true;
  qp.OnGatherFault(slot);
  ++counters_.placement_faults;
  return false;
}

uint32_t Engine::SendSlots(EngineQp& qp, uint32_t count) {
  if (count == 0) return 0;
  const CopyMode mode = ThisThreadsCopyMode();
  qp.path.FollowNeighbor();
  uint32_t built = 0;
  while (built < count &&
         BuildFrame(qp, mode, slots_[built], tx_.PeekEmpty(built))) {
    ++built;
  }
  for (uint32_t i = 0; i < built; ++i) {
    rte_mbuf* frame = tx_.TakeEmpty();
    RocePath& path = *PathOf(qp, slots_[i]);
    RoceFramer::Seal(path, slots_[i], frame);
    if (__builtin_expect(path.multicast || path.source_gone, 0) &&
        !GoesOut(path, frame)) {
      continue;
    }
    if (path.loopback) {
      tx_.PushToOurselves(frame);
    } else {
      tx_.Push(frame);
    }
  }
  return built;
}

}  // namespace urnic
