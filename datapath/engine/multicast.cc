// Packets that are not for one queue pair: groups, and QP1. Off the packet
// path.

#include <rte_mbuf.h>

#include "datapath/engine/engine.h"
#include "transport/net/pkeys.h"
#include "transport/wire/icrc.h"

namespace urnic {

namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;  // IBTA 9.8.3.4

}  // namespace

RxVerdict Engine::OnPacketWithoutQp(const wire::FrameView& view,
                                    const RxPacket& packet, Time now) {
  if (view.dst.is_multicast()) return OnMulticast(view, packet, now);
  if (!network_->host().IsLocal(view.dst)) return RxVerdict::kNotForUs;
  if (packet.bth->dest_qp().value != wire::kGsiQpn) {
    return RxVerdict::kUnknownQp;
  }
  return network_->OnManagementPacket(view, packet, now);
}

RxVerdict Engine::OnMulticast(const wire::FrameView& view,
                              const RxPacket& packet, Time now) {
  const std::span<EngineQp* const> members =
      network_->groups().MembersOf(view.dst);
  if (members.empty()) return RxVerdict::kNoMember;
  if (packet.bth->dest_qp().value != kMulticastQpn) {
    return RxVerdict::kUnknownQp;
  }
  if (packet.info->service != wire::Service::kUd) {
    return RxVerdict::kWrongTransport;
  }
  if (!wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes)) {
    return RxVerdict::kBadIcrc;
  }
  FinishRun(now);
  const bool ours = network_->host().IsLocal(view.src);
  for (EngineQp* qp : members) {
    // Nobody hears himself.
    if ((ours && packet.deth().src_qp().value == qp->qpn()) ||
        !net::PkeyMatches(packet.bth->pkey.value(), qp->pkey())) {
      continue;
    }
    run_.qp = qp;
    run_.packets[0] = packet;
    run_.count = 1;
    FinishRun(now);
  }
  return RxVerdict::kMulticast;
}

bool Engine::GoesOut(const net::Path& path, rte_mbuf* frame) {
  if (path.source_gone) {
    ++counters_.tx_source_gone;
    rte_pktmbuf_free(frame);
    return false;
  }
  if (path.multicast) LoopMulticast(path, frame);
  return true;
}

void Engine::LoopMulticast(const net::Path& path, const rte_mbuf* frame) {
  if (network_->groups().MembersOf(path.remote).empty() || tx_.loop_room() == 0)
    return;
  rte_mbuf* copy = rte_pktmbuf_copy(frame, port_->pool(), 0, UINT32_MAX);
  if (copy != nullptr) tx_.PushToOurselves(copy);
}

}  // namespace urnic
