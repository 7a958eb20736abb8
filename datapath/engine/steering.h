#pragma once

// Steering of received frames. It finds the wire by the headers
// (transport/wire/wires.h) and the flow by the number in the packet, and
// decides whether the flow may get the frame. The headers of a plain RoCE frame
// are first compared with those that the queue pair's peer has sent before.
// Token holder only; inline, for the loop that includes it.

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "datapath/engine/network.h"
#include "datapath/engine/roce_framer.h"
#include "datapath/engine/roce_qp.h"
#include "ras/metrics/counters.h"
#include "transport/net/pkeys.h"
#include "transport/wire/frame.h"
#include "transport/wire/icrc.h"

namespace urnic {

// What steering finds out about a RoCE packet. Members with a verdict in their
// comment are meaningful only with that verdict.
struct SteeredPacket {
  RxPacket packet;
  RoceQp* qp = nullptr;  // with verdict kAccept
  // With verdict kMulticast: the receivers, valid until a queue pair joins or
  // leaves; and whether the source is one of our addresses.
  std::span<RoceQp* const> members;
  bool from_us = false;
};

class Steering {
 public:
  explicit Steering(EngineCounters* counters) : counters_(counters) {}

  // Call this before anything else. The network outlives all use of this
  // object.
  void Serve(Network* network) { network_ = network; }
  // `leave`: Steer() returns kTcp for each TCP segment, and the caller handles
  // view(). Otherwise the network refuses TCP segments.
  void LeaveTcp(bool leave) { leave_tcp_ = leave; }
  // The last steered frame, if its verdict is kTcp, kRud or kRudFragments.
  const wire::FrameView& view() const { return view_; }

  // Prefetches the queue pairs of the frames. It reads one word of each frame
  // and guesses that the frame is IPv4 without tags and options, as nearly all
  // RoCE frames are. A wrong guess costs one cache line. The last queue pair is
  // not prefetched again: a ping-pong has only one, and 16 lines are 100
  // instructions.
  void Prefetch(std::span<rte_mbuf* const> frames) {
    uint32_t before = last_prefetched_;
    for (const rte_mbuf* mbuf : frames) {
      const uint8_t* frame = rte_pktmbuf_mtod(mbuf, const uint8_t*);
      uint32_t word;
      std::memcpy(&word, frame + kAtQpn, sizeof(word));
      if (word == before) continue;
      before = word;
      const RoceQp* qp =
          network_->qps().Find(__builtin_bswap32(word) & 0xffffff);
      if (qp != nullptr) qp->Prefetch();
    }
    last_prefetched_ = before;
  }

  // With kAccept the packet is for `out.qp`. The caller counts any other
  // verdict, and handles kMulticast, and kTcp, kRud and kRudFragments (view()).
  // Inline: a call would cost 14 instructions per frame.
  [[gnu::always_inline]] inline RxVerdict Steer(rte_mbuf* mbuf, Time now,
                                                SteeredPacket& out) {
    const std::span<const uint8_t> frame(rte_pktmbuf_mtod(mbuf, const uint8_t*),
                                         mbuf->data_len);
    out.packet.xrc_ring = nullptr;
    out.packet.buffer = mbuf;
    if (frame.size() >= kShortest) {
      const auto& bth = *reinterpret_cast<const wire::Bth*>(
          frame.data() + sizeof(wire::PlainHeaders));
      RoceQp* const qp = network_->qps().Find(bth.dest_qp().value);
      const uint32_t* const known =
          qp == nullptr ? nullptr : RoceFramer::FindKnown(qp->path, frame);
      if (__builtin_expect(known != nullptr, 1)) {
        return SteerKnown(*qp, *known, frame, now, out);
      }
    }
    wire::FrameView& view = view_;
    const RxVerdict shape = wire::ParseFrame(frame.data(), frame.size(), view);
    // The verdict names the wire, usually RoCE. Another wire with flows gets a
    // branch here. All other wires go to the host.
    if (__builtin_expect(shape != RxVerdict::kAccept, 0)) {
      if (shape == RxVerdict::kTcp && leave_tcp_) return shape;
      if (shape == RxVerdict::kRud) return shape;
      return network_->OnFrame(view, shape, {frame, mbuf}, now);
    }
    if (__builtin_expect(!network_->host().IsOurVlan(view), 0)) {
      return RxVerdict::kForeignVlan;
    }
    return SteerRoce(view, now, out);
  }

 private:
  //= IBTA 9.8.3.4: a datagram to a multicast group has the destination QP
  //= 0xffffff
  static constexpr uint32_t kMulticastQpn = 0xffffff;
  // The offset in a plain frame of the word with its QPN.
  static constexpr size_t kAtQpn =
      sizeof(wire::PlainHeaders) + offsetof(wire::Bth, fecn_becn_qpn);
  static constexpr size_t kShortest =
      sizeof(wire::PlainHeaders) + sizeof(wire::Bth) + wire::kIcrcBytes;

  // The usual case: the headers of the frame are known, so it comes from the
  // queue pair's peer. `known`: the result of RoceFramer::FindKnown().
  RxVerdict SteerKnown(RoceQp& qp, uint32_t known,
                       std::span<const uint8_t> frame, Time now,
                       SteeredPacket& out) {
    const auto& headers =
        *reinterpret_cast<const wire::PlainHeaders*>(frame.data());
    const uint8_t* const bth = frame.data() + sizeof(headers);
    const uint32_t bytes = headers.udp.length.value() - sizeof(wire::Udp);
    const RxVerdict form = wire::ParseRoce(bth, bytes, out.packet);
    if (form != RxVerdict::kAccept) return form;
    out.packet.ip = reinterpret_cast<const uint8_t*>(&headers.ip);
    out.packet.framing = wire::Framing::kIpv4;
    if (!wire::VerifyIcrcAfter(known, bth, bytes)) return RxVerdict::kBadIcrc;
    return Admit(qp, nullptr, /*marked=*/false, now, out);
  }

  RxVerdict SteerRoce(const wire::FrameView& view, Time now,
                      SteeredPacket& out) {
    RxPacket& packet = out.packet;
    const RxVerdict form =
        wire::ParseRoce(view.payload, view.payload_bytes, packet);
    if (form != RxVerdict::kAccept) return form;
    const bool marked = view.congestion_experienced();
    if (__builtin_expect(marked, 0)) ++counters_->ce_received;
    packet.ip = view.l3;
    packet.framing = view.framing;
    RoceQp* const qp = network_->qps().Find(packet.bth->dest_qp().value);
    if (__builtin_expect(qp == nullptr, 0)) {
      return SteerWithoutQp(view, now, out);
    }
    const bool from_peer = RoceFramer::IsFromPeer(qp->path, view);
    if (!RoceFramer::IcrcIsRight(qp->path, view, from_peer)) {
      return RxVerdict::kBadIcrc;
    }
    return Admit(*qp, from_peer ? nullptr : &view, marked, now, out);
  }

  // Whether the queue pair may get the packet. `stranger`: the frame, if it is
  // not from the queue pair's peer; null: it is.
  RxVerdict Admit(RoceQp& qp, const wire::FrameView* stranger, bool marked,
                  Time now, SteeredPacket& out) {
    RxPacket& packet = out.packet;
    const bool cnp = packet.info->kind == wire::PacketKind::kCnp;
    if (packet.info->service != qp.wire_service() && !cnp) {
      return RxVerdict::kWrongTransport;
    }
    if (qp.state() < QpState::kRtr) return RxVerdict::kQpNotReady;
    if (stranger != nullptr) {
      if (!network_->host().IsLocal(stranger->dst)) return RxVerdict::kNotForUs;
      if (qp.service() != QpService::kUd) return RxVerdict::kWrongPeer;
    }
    if (__builtin_expect(packet.info->has_xrceth, 0)) {
      packet.xrc_ring = network_->FindXrcRing(qp, packet);
    }
    if (!net::PkeyMatches(packet.bth->pkey.value(), qp.pkey())) {
      return RxVerdict::kBadPkey;
    }
    if (__builtin_expect(cnp, 0)) return qp.OnCnp(now);
    if (__builtin_expect(marked, 0)) {
      ++counters_->roce.np_ecn_marked_roce_packets;
      qp.OnMarked(packet, now);
    }
    out.qp = &qp;
    return RxVerdict::kAccept;
  }

  // A datagram for a group, or for QP1.
  [[gnu::cold]] RxVerdict SteerWithoutQp(const wire::FrameView& view, Time now,
                                         SteeredPacket& out) {
    const uint32_t qpn = out.packet.bth->dest_qp().value;
    if (view.dst.is_multicast()) return SteerGroup(view, qpn, out);
    if (!network_->host().IsLocal(view.dst)) return RxVerdict::kNotForUs;
    if (qpn != wire::kGsiQpn) return RxVerdict::kUnknownQp;
    return network_->OnManagementPacket(view, out.packet, now);
  }

  RxVerdict SteerGroup(const wire::FrameView& view, uint32_t qpn,
                       SteeredPacket& out) {
    const std::span<RoceQp* const> members =
        network_->groups().MembersOf(view.dst);
    if (members.empty()) return RxVerdict::kNoMember;
    if (qpn != kMulticastQpn) return RxVerdict::kUnknownQp;
    if (out.packet.info->service != wire::Service::kUd) {
      return RxVerdict::kWrongTransport;
    }
    if (!wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes)) {
      return RxVerdict::kBadIcrc;
    }
    out.members = members;
    out.from_us = network_->host().IsLocal(view.src);
    return RxVerdict::kMulticast;
  }

  EngineCounters* const counters_;
  Network* network_ = nullptr;
  bool leave_tcp_ = false;
  wire::FrameView view_;          // of this frame: construction takes time
  uint32_t last_prefetched_ = 0;  // the word that contains the QPN
};

}  // namespace urnic
