#pragma once

// The queue pairs of each service of RoCE: a RoceQp around the core of a
// transport. Only the engine includes this file, so a change to a core
// recompiles nothing above the engine (tests/lint).

#include <bit>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "datapath/engine/flow_sink.h"
#include "datapath/engine/qp_facts.h"
#include "datapath/engine/rc_input_tap.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/engine/traced_sink.h"
#include "transport/base/check.h"
#include "transport/rc/image.h"
#include "transport/rc/qp.h"
#include "transport/uc/image.h"
#include "transport/uc/qp.h"
#include "transport/ud/image.h"
#include "transport/ud/qp.h"

namespace urnic {

// A core and the memory that it was given.
template <typename Core>
struct CoreAndMemory {
  CoreAndMemory(const EngineQpConfig& config, RecvQueue* recv_queue,
                mem::MrTable* mrs, rc::RecoveryPool* pool)
      : core(config.limits, config.sq, recv_queue, mrs, &pool->counters()) {}

  Core core;
  // Counted here, because these cores count nothing: nothing is acknowledged.
  uint64_t packets_sent = 0;
  uint64_t bytes_sent = 0;
};

template <>
struct CoreAndMemory<rc::Qp> {
  CoreAndMemory(const EngineQpConfig& config, RecvQueue* recv_queue,
                mem::MrTable* mrs, rc::RecoveryPool* pool)
      : records(config.place.records, config.sq.entries()),
        core(config.limits, config.sq,
             std::span(records.get(), config.sq.entries()),
             std::span<rc::ReplaySlot>(), recv_queue, mrs, pool) {}

  // Memory for reads and atomics of the peer, at most 7 KB, is allocated when a
  // program asks for it. Most programs need little, and some none.
  void MakeRoomForReads(uint32_t reads) {
    if (reads <= core.replay_capacity()) return;
    const uint32_t slots = std::bit_ceil(reads);
    std::unique_ptr<rc::ReplaySlot[]> larger(new rc::ReplaySlot[slots]);
    core.MoveReplayTo({larger.get(), slots});
    replay = std::move(larger);
  }

  PlacedArray<rc::SendRecord> records;
  std::unique_ptr<rc::ReplaySlot[]> replay;
  rc::Qp core;
};

template <typename Core>
class QpOf final : public RoceQp {
 public:
  // RC, and both ends of XRC, which is RC with an additional header.
  static constexpr bool kIsRc = std::is_same_v<Core, rc::Qp>;
  static constexpr bool kIsUc = std::is_same_v<Core, uc::Qp>;

  QpOf(const EngineQpConfig& config, mem::MrTable* mrs, rc::RecoveryPool* pool)
      : RoceQp(kIsRc ? Kind::kRcQp : Kind::kOtherRoceQp, config),
        transport_(config, &receives_.queue, mrs, pool) {
    static_assert(sizeof(QpOf) <= kPrefetchBytes);
  }

  FlowResult OnBurst(std::span<const RxPacket> packets, Time now,
                     FlowSink& sink) override {
    return Process(packets, now, sink);
  }
  FlowResult OnBurst(std::span<const RxPacket> packets, Time now,
                     TracedSink& sink) override {
    return Process(packets, now, sink);
  }
  [[gnu::cold]] void OnMarked(const RxPacket& packet, Time now) override {
    if constexpr (kIsRc) {
      Calls([&](auto& calls) { calls.OnMarked(packet, now); });
    } else if constexpr (kIsUc) {
      core().OnMarked(now);
    }
  }
  [[gnu::cold]] RxVerdict OnCnp(Time now) override {
    if constexpr (kIsRc) {
      return Calls([&](auto& calls) { return calls.OnCnp(now); });
    } else {
      // Without acknowledgements there is no window to reduce.
      return RxVerdict::kCnpIgnored;
    }
  }
  void OnOutage(Time) override {
    if constexpr (kIsRc) Calls([](auto& calls) { calls.OnOutage(); });
  }
  FlowResult OnTimer(Time now, FlowSink& sink) override {
    if constexpr (kIsRc) {
      if (__builtin_expect(is_logged_, 0)) return LoggedTimer(now, sink);
    }
    Writer<FlowSink> writer{*this, sink, {}};
    return core().OnTimer(now, writer);
  }
  uint32_t Transmit(Time now, std::span<TxSlot> slots) override {
    const uint32_t count =
        Calls([&](auto& calls) { return calls.Transmit(now, slots); });
    if constexpr (!kIsRc) {
      transport_.packets_sent += count;
      for (const TxSlot& slot : slots.first(count))
        transport_.bytes_sent += slot.payload_bytes;
    }
    return count;
  }
  void OnGatherFault(const TxSlot& slot) override {
    Calls([&](auto& calls) { calls.OnGatherFault(slot); });
  }
  FlowResult Settle(FlowSink& sink) override { return SettleWith(sink); }
  FlowResult Settle(TracedSink& sink) override { return SettleWith(sink); }

  FlowResult Modify(QpState target, const QpConfig& config,
                    FlowSink& sink) override {
    MakeReadyFor(config);
    Calls([&](auto& calls) { calls.Modify(target, config); });
    return Settle(sink);
  }
  void Reconfigure(const QpConfig& config) override {
    MakeReadyFor(config);
    Calls([&](auto& calls) { calls.Reconfigure(config); });
  }
  bool OwesResponses() const override { return core().OwesResponses(); }
  uint32_t TransmitResponses(std::span<TxSlot> slots) override {
    return Calls([&](auto& calls) { return calls.TransmitResponses(slots); });
  }
  void JoinPath(cc::SharedPath* shared) override {
    if constexpr (kIsRc) Calls([&](auto& calls) { calls.Join(shared); });
  }
  void Grant(uint32_t packets) override {
    if constexpr (kIsRc) Calls([&](auto& calls) { calls.Grant(packets); });
  }
  void OnNoPath(const TxSlot& slot) override {
    if constexpr (std::is_same_v<Core, ud::Qp>) {
      core().OnNoPath(slot);
    } else {
      URNIC_CHECK(false);  // its packets use the queue pair's path
    }
  }

  // For queries and tests.
  const Core& core() const { return transport_.core; }

  const QpConfig& config() const override { return core().config(); }
  Psn recv_psn() const override { return core().recv_psn(); }
  Psn send_psn() const override { return core().send_psn(); }
  bool sq_draining() const override { return core().sq_draining(); }
  RequesterCounters counters() const override {
    if constexpr (kIsRc) {
      return core().send_state().counters;
    } else {
      return {};
    }
  }
  void DescribeWork(Time now, FactWriter& facts) const override {
    facts.Add("packets-received", packets_received);
    if constexpr (kIsRc) {
      urnic::DescribeWork(core(), now, facts);
    } else {
      facts.Add("packets-sent", transport_.packets_sent);
      facts.Add("bytes-sent", transport_.bytes_sent);
    }
    if constexpr (kIsUc) facts.Add("writes-refused", core().writes_refused());
  }
  void DescribeFailure(Failure& failure) const override {
    DescribePeer(failure);
    DescribeRequest(Queues(), failure);
    if constexpr (kIsRc) {
      DescribeRequester(core(), failure);
      if (failure.code == ErrorCode::kQpAccess)
        DescribeRefused(core().responder().refused(), Queues().mrs, failure);
    } else if constexpr (kIsUc) {
      if (failure.code == ErrorCode::kLocalAccess)
        DescribeRefused(core().refused(), Queues().mrs, failure);
    }
  }
  void AppendImage(Time now, std::string& out) const override {
    AppendImageTo(out, [&](std::span<uint8_t> to) {
      return ExtractImage(core(), now, to);
    });
  }
  bool LogInputs(std::shared_ptr<InputLog> log, Time now) override {
    if constexpr (kIsRc) {
      if (core().limits().xrc) return false;
      std::unique_ptr<InputTap> tap;
      if (log != nullptr)
        tap = std::make_unique<RcInputTap>(std::move(log), &core(), now);
      SetTap(std::move(tap));
      return true;
    }
    return false;
  }
  ImageRefusal BecomeImage(std::span<const uint8_t> image, Time now) override {
    if constexpr (kIsRc) {
      ImageShape shape;
      const ImageRefusal refusal = ReadImageShape(image, shape);
      if (!refusal.ok()) return refusal;
      transport_.MakeRoomForReads(shape.replay_slots);
    }
    const ImageRefusal refusal = InsertImage(image, now, core());
    pkey_ = core().config().pkey;
    return refusal;
  }

 private:
  // A sink for the completions of a core.
  template <typename Sink>
  struct Writer {
    void Sent(const SendCompletion& done) { sink.WriteSent(qp, done); }
    void Received(const RecvCompletion& done) {
      CompletionQueue* cq = qp.recv_cq;
      if (kIsRc && __builtin_expect(qp.service() == QpService::kXrcTarget, 0)) {
        cq = SharedReceiveQueue::Of(*packets[done.packet].xrc_ring).cq;
      }
      sink.WriteReceived(qp, *cq, done);
    }
    void Flushed(const RecvCompletion& done) {
      sink.WriteReceived(qp, qp.flush_cq(), done);
    }

    QpOf& qp;
    Sink& sink;
    std::span<const RxPacket> packets;
  };

  Core& core() { return transport_.core; }
  // REQUIRES: RC, and is_logged_.
  RcInputTap& tap() { return static_cast<RcInputTap&>(*tap_); }

  // Calls f(calls) with the core, or with its tap, which has the same calls, if
  // the queue pair is logged.
  template <typename F>
  [[gnu::always_inline]] decltype(auto) Calls(F&& f) {
    if constexpr (kIsRc) {
      if (__builtin_expect(is_logged_, 0)) return f(tap());
    }
    return f(core());
  }

  template <typename Sink>
  FlowResult Process(std::span<const RxPacket> packets, Time now, Sink& sink) {
    const Psn answered = AnsweredUpTo();
    FlowResult result = OneBurst(packets, now, sink);
    if constexpr (kIsRc) {
      // Packets that the core held back, and that are due now.
      while (const uint32_t due = core().TakeDue(sink.due())) {
        const QpEvent event = result.event;
        sink.BeginDue(*this, due);
        result = OneBurst(sink.due().first(due), now, sink);
        if (result.event == QpEvent::kNone) result.event = event;
      }
    }
    result.answered = AnsweredUpTo() != answered;
    return result;
  }
  template <typename Sink>
  FlowResult OneBurst(std::span<const RxPacket> packets, Time now, Sink& sink) {
    if constexpr (kIsRc) {
      if (__builtin_expect(is_logged_, 0))
        return LoggedBurst(packets, now, sink);
    }
    core().OnBurst(packets, now, sink);
    sink.Execute(core());
    if constexpr (kIsUc) {
      // Only the first refused access is reported: the peer may send any
      // number.
      if (__builtin_expect(core().TakeFirstRefused(), 0))
        sink.OnFailed(FailureOf(ErrorCode::kLocalAccess, *this));
    }
    Writer<Sink> writer{*this, sink, packets};
    return core().Settle(sink.receives(), writer);
  }
  template <typename Sink>
  FlowResult SettleWith(Sink& sink) {
    if constexpr (kIsRc) {
      if (__builtin_expect(is_logged_, 0)) return LoggedSettle(sink);
    }
    Writer<Sink> writer{*this, sink, {}};
    return core().Settle({}, writer);
  }
  // For RC. These are compiled in a file of their own (qp_logged.cc), because
  // the compiler does not inline a function of the core that has two callers.
  template <typename Sink>
  [[gnu::cold]] FlowResult LoggedBurst(std::span<const RxPacket> packets,
                                       Time now, Sink& sink);
  template <typename Sink>
  [[gnu::cold]] FlowResult LoggedSettle(Sink& sink);
  [[gnu::cold]] FlowResult LoggedTimer(Time now, FlowSink& sink);

  WorkQueues Queues() const {
    if constexpr (kIsRc) {
      const rc::SendState& s = core().send_state();
      return {s.limits, *s.mrs, s.sq, s.head, receives_.queue};
    } else {
      const UnreliableSender& s = core().sender();
      return {core().limits(), core().mrs(), s.sq(), s.head(), receives_.queue};
    }
  }

  // The first PSN that is not acknowledged; constant for services without
  // acknowledgements.
  Psn AnsweredUpTo() const {
    if constexpr (kIsRc) {
      return core().send_state().una_psn;
    } else {
      return Psn();
    }
  }

  void MakeReadyFor(const QpConfig& config) {
    pkey_ = config.pkey;
    if constexpr (kIsRc) {
      transport_.MakeRoomForReads(config.max_dest_rd_atomic);
      if (is_logged_) tap().OnReplaySlots(core().replay_capacity());
    }
  }

  CoreAndMemory<Core> transport_;
};

using RcQp = QpOf<rc::Qp>;
using UcQp = QpOf<uc::Qp>;
using UdQp = QpOf<ud::Qp>;

// Calls f(qp) with the concrete type if it is RC, so that the calls are direct.
template <typename F>
[[gnu::always_inline]] inline decltype(auto) CallQp(RoceQp& qp, F&& f) {
  if (__builtin_expect(qp.kind() == Flow::Kind::kRcQp, 1)) {
    return f(static_cast<RcQp&>(qp));
  }
  return f(qp);
}

}  // namespace urnic
