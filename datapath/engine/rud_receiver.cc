#include "datapath/engine/rud_receiver.h"

#include "datapath/engine/network.h"

namespace urnic {

template <typename Sink>
[[gnu::always_inline]] inline void RudReceiver::Add(RudWindow* window,
                                                    rte_mbuf* frame) {
  if (window != window_ || count_ == rud::kBurstMax) {
    const rud::RxPacket first = packets_[count_];
    Finish<Sink>();
    packets_[0] = first;
  }
  window_ = window;
  frames_[count_++] = frame;
}

template <typename Sink>
void RudReceiver::OnFrame(const wire::FrameView& view, rte_mbuf* frame) {
  RudWindow* window = nullptr;
  rud::RxPacket& packet = packets_[count_];
  RxVerdict verdict = Take(view, packet, window);
  if (__builtin_expect(verdict == RxVerdict::kMulticast, 0)) {
    verdict = OnGroup<Sink>(view, frame);
    if (verdict == RxVerdict::kAccept) return;
  }
  if (verdict != RxVerdict::kAccept) {
    sink_->FlowSink::Count(verdict);
    if constexpr (Sink::kTraces) sink_->OnNotSteered(verdict, *frame);
    return;
  }
  Add<Sink>(window, frame);
}

template <typename Sink>
void RudReceiver::OnFragments(const wire::FrameView& last, rte_mbuf* frame) {
  wire::FrameView view = last;
  const net::Host::Datagram datagram =
      network_->TakeDatagram({datagram_.get(), wire::kRoceMaxBytes});
  view.payload = datagram_.get();
  view.payload_bytes = datagram.bytes;
  if (datagram.marked) view.tos |= wire::kEcnCongestionExperienced;
  OnFrame<Sink>(view, frame);
  // The next packet uses the same memory.
  Finish<Sink>();
}

template <typename Sink>
RxVerdict RudReceiver::OnGroup(const wire::FrameView& view, rte_mbuf* frame) {
  const rud::RxPacket packet = packets_[count_];
  const auto members = network_->rud_groups().MembersOf(view.dst);
  RxVerdict verdict =
      members.empty() ? RxVerdict::kNoMember : RxVerdict::kRudUnknownPeer;
  for (RudWindow* const window : members) {
    if (window->state() < QpState::kRtr) continue;
    const RudGroup* const group =
        window->FindGroup(view.dst, view.src, packet.base->sender_window());
    if (group == nullptr) continue;
    if (!wire::RudCrcHolds(group->received, {view.payload, view.payload_bytes}))
      return RxVerdict::kRudBadCrc;
    packets_[count_] = packet;
    packets_[count_].peer = group->peer;
    packets_[count_].group = &group->as;
    Add<Sink>(window, frame);
    verdict = RxVerdict::kAccept;
  }
  return verdict;
}

template <typename Sink>
void RudReceiver::FinishBurst() {
  RudWindow& window = *std::exchange(window_, nullptr);
  const uint32_t count = std::exchange(count_, 0);
  sink_->Begin();
  uint32_t next = 0;
  const FlowResult result = window.OnBurst(
      {packets_, count}, placements_, *sink_, [&](RxVerdict verdict) {
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
  const bool is_multicast = view.dst.is_multicast();
  if (!is_multicast && !host.IsLocal(view.dst)) return RxVerdict::kNotForUs;
  const RxVerdict form =
      wire::ParseRud(view.payload, view.payload_bytes, packet);
  if (form != RxVerdict::kAccept) return form;
  packet.third_peer = 0;  // left from an earlier packet
  packet.group = nullptr;
  packet.marked = view.congestion_experienced();
  if (__builtin_expect(is_multicast, 0)) {
    return packet.base->target_window() == 0 ? RxVerdict::kMulticast
                                             : RxVerdict::kRudUnknownWindow;
  }
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
  return RxVerdict::kAccept;
}

template void RudReceiver::OnFrame<FlowSink>(const wire::FrameView&, rte_mbuf*);
template void RudReceiver::OnFrame<TracedSink>(const wire::FrameView&,
                                               rte_mbuf*);
template void RudReceiver::OnFragments<FlowSink>(const wire::FrameView&,
                                                 rte_mbuf*);
template void RudReceiver::OnFragments<TracedSink>(const wire::FrameView&,
                                                   rte_mbuf*);
template void RudReceiver::FinishBurst<FlowSink>();
template void RudReceiver::FinishBurst<TracedSink>();

}  // namespace urnic
