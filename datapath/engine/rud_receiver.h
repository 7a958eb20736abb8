#pragma once

// Packets of RUD that arrive: finds their window and their sender, and gives
// the window those of a burst together. Token holder only; inline, for the loop
// that includes it.

#include <rte_mbuf.h>

#include <span>

#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/network.h"
#include "datapath/engine/rud_window.h"
#include "datapath/engine/traced_sink.h"
#include "transport/wire/rud.h"

namespace urnic {

class RudReceiver {
 public:
  // Both outlive the receiver.
  RudReceiver(FlowScheduler* flows, TracedSink* sink)
      : flows_(flows), sink_(sink) {}
  RudReceiver(const RudReceiver&) = delete;
  RudReceiver& operator=(const RudReceiver&) = delete;

  void Serve(Network* network) { network_ = network; }

  // A frame that ParseFrame() has called kRud. It lives until Finish().
  template <typename Sink>
  [[gnu::noinline]] void OnFrame(const wire::FrameView& view, rte_mbuf* frame) {
    rud::RxPacket packet;
    RudWindow* window = nullptr;
    const RxVerdict verdict = Take(view, packet, window);
    if (verdict != RxVerdict::kAccept) {
      sink_->FlowSink::Count(verdict);
      if constexpr (Sink::kTraces) sink_->OnNotSteered(verdict, *frame);
      return;
    }
    if (window != window_ || count_ == rud::kBurstMax) Finish<Sink>();
    window_ = window;
    frames_[count_] = frame;
    packets_[count_++] = packet;
  }

  // Executes the effects of the packets so far. Call this before another flow
  // uses the sink, and at the end of the burst.
  template <typename Sink>
  void Finish() {
    if (__builtin_expect(count_ == 0, 1)) return;
    RudWindow& window = *std::exchange(window_, nullptr);
    const uint32_t count = std::exchange(count_, 0);
    sink_->Begin();
    uint32_t next = 0;
    const FlowResult result =
        window.OnBurst({packets_, count}, *sink_, [&](RxVerdict verdict) {
          if constexpr (Sink::kTraces)
            sink_->OnRudPacket(window, verdict, *frames_[next]);
          ++next;
        });
    flows_->Apply(window, result);
  }

 private:
  RxVerdict Take(const wire::FrameView& view, rud::RxPacket& packet,
                 RudWindow*& window) {
    if (network_->rud_windows().size() == 0) return RxVerdict::kRud;
    const net::Host& host = network_->host();
    if (!host.IsOurVlan(view)) return RxVerdict::kForeignVlan;
    if (!host.IsLocal(view.dst)) return RxVerdict::kNotForUs;
    const RxVerdict form =
        wire::ParseRud(view.payload, view.payload_bytes, packet);
    if (form != RxVerdict::kAccept) return form;
    window = network_->rud_windows().Find(packet.base->target_window());
    if (window == nullptr) return RxVerdict::kRudUnknownWindow;
    if (window->state() < QpState::kRtr) return RxVerdict::kQpNotReady;
    packet.peer = window->NumberOfPeer(view.dst, view.src);
    if (packet.peer == 0) return RxVerdict::kRudUnknownPeer;
    if (!wire::RudCrcHolds(window->FindPeer(packet.peer)->received,
                           {view.payload, view.payload_bytes})) {
      return RxVerdict::kRudBadCrc;
    }
    packet.marked = view.congestion_experienced();
    return RxVerdict::kAccept;
  }

  FlowScheduler* const flows_;
  TracedSink* const sink_;
  Network* network_ = nullptr;
  RudWindow* window_ = nullptr;  // of the packets
  uint32_t count_ = 0;
  rud::RxPacket packets_[rud::kBurstMax];
  rte_mbuf* frames_[rud::kBurstMax];
};

}  // namespace urnic
