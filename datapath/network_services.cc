// What a host must do besides RDMA to be found and pinged: answer ARP,
// neighbour discovery and echo for the addresses of the port. Off the packet
// path; runs under the token like everything else.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "datapath/engine.h"
#include "transport/wire/neighbor.h"

namespace urnic {

bool Engine::IsLocal(const wire::Gid& gid) const {
  for (const wire::Gid& local : local_gids_) {
    if (local == gid) return true;
  }
  return false;
}

bool Engine::GoesOut(const Path& path, rte_mbuf* frame) {
  if (path.source_gone) {
    ++counters_.tx_source_gone;
    rte_pktmbuf_free(frame);
    return false;
  }
  if (path.multicast) LoopMulticast(path, frame);
  return true;
}

bool Engine::SamePrefix(const wire::Gid& a, const wire::Gid& b, uint32_t bits) {
  const uint32_t whole = bits / 8;
  if (std::memcmp(a.bytes.data(), b.bytes.data(), whole) != 0) return false;
  const uint32_t rest = bits % 8;
  return rest == 0 || ((a.bytes[whole] ^ b.bytes[whole]) >> (8 - rest)) == 0;
}

RxVerdict Engine::OnNeighborMessage(const wire::FrameView& view, RxVerdict kind,
                                    Time now) {
  wire::NeighborInfo info;
  const RxVerdict verdict = kind == RxVerdict::kArp
                                ? wire::ParseArp(view, info)
                                : wire::ParseIcmp(view, info);
  if (verdict != kind) return verdict;
  wire::NeighborSelf self;
  self.mac.bytes = port_->mac();
  switch (info.kind) {
    case wire::NeighborKind::kSolicit:
      if (!IsLocal(info.asked)) return RxVerdict::kNotForUs;
      // Who asks for us is about to talk to us.
      if (info.has_owner) neighbors_.Learn(info.owner, info.owner_mac, now);
      self.gid = info.asked;
      if (const auto frame = tx_.ControlFrame(); !frame.empty()) {
        tx_.SendControl(wire::EmitAdvertisement(self, view, info, frame));
      }
      break;
    case wire::NeighborKind::kAdvertise:
      if (!info.has_owner) break;
      if (info.solicited) {
        neighbors_.Learn(info.owner, info.owner_mac, now);
      } else if (info.may_override) {
        neighbors_.Update(info.owner, info.owner_mac, now);
      }
      break;
    case wire::NeighborKind::kEchoRequest:
      if (!IsLocal(view.dst)) return RxVerdict::kNotForUs;
      self.gid = view.dst;
      if (const auto frame = tx_.ControlFrame(); !frame.empty()) {
        tx_.SendControl(wire::EmitEchoReply(self, view, frame));
      }
      break;
    case wire::NeighborKind::kOther:
      break;
  }
  return verdict;
}

void Engine::Solicit(const wire::Gid& local, const wire::Gid& target) {
  wire::NeighborSelf self;
  self.mac.bytes = port_->mac();
  self.gid = local;
  if (const auto frame = tx_.ControlFrame(); !frame.empty()) {
    tx_.SendControl(wire::EmitSolicitation(self, target, std::nullopt, frame));
  }
}

}  // namespace urnic
