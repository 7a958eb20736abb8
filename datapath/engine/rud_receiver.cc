#include "datapath/engine/rud_receiver.h"

namespace urnic {

template <typename Sink>
void RudReceiver::OnFrame(const wire::FrameView& view, rte_mbuf* frame) {
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

template <typename Sink>
void RudReceiver::FinishBurst() {
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

RxVerdict RudReceiver::Take(const wire::FrameView& view, rud::RxPacket& packet,
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
  const RudPeer* const peer =
      window->FindPeerBy(view.dst, view.src, packet.base->sender_window());
  if (peer == nullptr) return RxVerdict::kRudUnknownPeer;
  packet.peer = peer->number;
  if (!wire::RudCrcHolds(peer->received, {view.payload, view.payload_bytes})) {
    return RxVerdict::kRudBadCrc;
  }
  if (rud::HasThird(packet.type)) {
    const RudPeer* const third = window->FindPeerBy(
        view.dst, packet.third().address, packet.third().number());
    if (third != nullptr) packet.third_peer = third->number;
  }
  packet.marked = view.congestion_experienced();
  return RxVerdict::kAccept;
}

template void RudReceiver::OnFrame<FlowSink>(const wire::FrameView&, rte_mbuf*);
template void RudReceiver::OnFrame<TracedSink>(const wire::FrameView&,
                                               rte_mbuf*);
template void RudReceiver::FinishBurst<FlowSink>();
template void RudReceiver::FinishBurst<TracedSink>();

}  // namespace urnic
