#pragma once

// The tap of an RC core (input_tap.h, transport/rc/inputs.h).

#include <cstdint>
#include <memory>
#include <span>

#include "datapath/engine/input_tap.h"
#include "transport/rc/inputs.h"
#include "transport/rc/qp.h"

namespace urnic {

class RcInputTap final : public InputTap {
 public:
  // `core` outlives the tap. The log begins with an image of the core, as soon
  // as one can be made.
  RcInputTap(std::shared_ptr<InputLog> log, rc::Qp* core, Time now);

  // See QpOf::OneBurst(). `due`: TakeDue() has returned the packets.
  template <typename Sink, typename Writer>
  FlowResult OnBurst(std::span<const RxPacket> packets, bool due, Time now,
                     Sink& sink, Writer& writer) {
    Begin(now);
    if (!due) AddPackets(packets);
    AddReceives(packets);
    Call(rc::Input::kBurst, due ? 1 : 0);
    BurstSink<Sink> burst{sink, *this};
    core_.OnBurst(packets, now, burst);
    Faults faults{*this};
    sink.Execute(faults);
    AddOriginals();
    auto tapped = Tapped(writer);
    return End(core_.Settle(sink.receives(), tapped));
  }
  template <typename Writer>
  FlowResult OnTimer(Time now, Writer& writer) {
    Begin(now);
    Call(rc::Input::kTimer);
    auto tapped = Tapped(writer);
    return End(core_.OnTimer(now, tapped));
  }
  template <typename Writer>
  FlowResult Settle(Writer& writer) {
    Prepare();
    Call(rc::Input::kSettle);
    auto tapped = Tapped(writer);
    return End(core_.Settle({}, tapped));
  }
  void OnMarked(const RxPacket& packet, Time now);
  RxVerdict OnCnp(Time now);
  void OnOutage();
  uint32_t Transmit(Time now, std::span<TxSlot> slots);
  uint32_t TransmitResponses(std::span<TxSlot> slots);
  void OnGatherFault(const TxSlot& slot);
  void Modify(QpState target, const QpConfig& config);
  void Reconfigure(const QpConfig& config);
  void Join(cc::SharedPath* path);
  void Grant(uint32_t packets);
  // The core has room for `slots` reads and atomics of the peer now.
  void OnReplaySlots(uint32_t slots);

 private:
  template <typename Sink>
  struct BurstSink {
    void Place(const Placement& placement) {
      tap.NotePlacement(placement);
      sink.Place(placement);
    }
    void Complete(const RecvCompletion& done) { sink.Complete(done); }
    void Count(RxVerdict verdict) {
      tap.Add(WorkInput::kVerdict, {.small = static_cast<uint8_t>(verdict)});
      sink.Count(verdict);
    }
    Sink& sink;
    RcInputTap& tap;
  };
  struct Faults {
    void OnPlacementFault(const Placement& placement,
                          std::span<RecvCompletion> completions) {
      tap.AddFault(placement);
      tap.core_.OnPlacementFault(placement, completions);
    }
    RcInputTap& tap;
  };

  SendAt send_at() const override {
    return {core_.send_state().head, core_.send_state().next};
  }
  // Comes before each call with a time: begins a segment of the log, if it is
  // time for one.
  void Begin(Time now);
  // Comes before each call: logs what others have changed since the last one.
  void Prepare();
  void CallWith(rc::Input call, uint8_t small, const QpConfig& config);
  FlowResult End(const FlowResult& result);
  void End();

  bool CanBeginSegment(Time now) const;
  void BeginSegment(Time now);
  void AddPath(const cc::SharedPath* path);
  void AddPackets(std::span<const RxPacket> packets);
  void AddReceives(std::span<const RxPacket> packets);
  void AddSent(std::span<const TxSlot> slots);
  void NotePath();

  rc::Qp& core_;
  rc::PathNow path_;         // as the last call left it
  bool path_known_ = false;  // the segment of the log has it
};

}  // namespace urnic
