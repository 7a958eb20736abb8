// Datagrams for QP1. Off the packet path; runs under the token like everything
// else.

#include "datapath/gsi.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>

#include "datapath/engine.h"
#include "transport/wire/icrc.h"
#include "transport/wire/mad.h"
#include "transport/wire/packet.h"

namespace urnic {

namespace {

Path ReplyPath(const wire::FrameView& view,
               const std::array<uint8_t, 6>& own_mac, bool loopback) {
  Path path;
  path.local = view.dst;
  path.remote = view.src;
  path.loopback = loopback;
  wire::PathHeaders headers;
  headers.src_mac.bytes = own_mac;
  headers.dst_mac = view.eth->src;
  headers.src = view.dst;
  headers.dst = view.src;
  headers.roce_v1 = view.framing == wire::Framing::kGrh;
  headers.udp_src_port = view.udp_src_port;
  path.headers = wire::HeaderTemplate(headers);
  return path;
}

}  // namespace

RxVerdict Engine::OnPacketWithoutQp(const wire::FrameView& view,
                                    const RxPacket& packet, Time now) {
  const uint32_t qpn = packet.bth->dest_qp().value;
  if (view.dst.is_multicast()) return OnMulticast(view, packet, now);
  if (!IsLocal(view.dst)) return RxVerdict::kNotForUs;
  if (qpn != wire::kGsiQpn) return RxVerdict::kUnknownQp;
  return OnMad(view, packet, now);
}

RxVerdict Engine::OnMad(const wire::FrameView& view, const RxPacket& packet,
                        Time now) {
  if (!wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes)) {
    return RxVerdict::kBadIcrc;
  }
  if (packet.info->service != wire::Service::kUd) {
    return RxVerdict::kWrongTransport;
  }
  if (packet.deth().qkey.value() != wire::kQp1Qkey) return RxVerdict::kBadQkey;
  //= IBTA 9.6.1.1.3: QP1 is in every partition of the table
  const auto pkey =
      std::find_if(pkeys_.begin(), pkeys_.end(), [&](uint16_t ours) {
        return PkeyMatches(packet.bth->pkey.value(), ours);
      });
  if (pkey == pkeys_.end()) return RxVerdict::kBadPkey;
  if (packet.payload_bytes != wire::kMadBytes) return RxVerdict::kBadMad;
  if (gsi_ == nullptr) return RxVerdict::kNoReceive;
  const MadSource from{
      .src_qpn = packet.deth().src_qp().value,
      .pkey = *pkey,
      .reply = ReplyPath(view, port_->mac(), IsLocal(view.src))};
  // Who talks to us is about to hear from us.
  if (!from.reply.loopback) {
    neighbors_.Learn(view.src, view.eth->src, now);
  }
  const RxVerdict verdict =
      gsi_->OnMad({packet.payload, packet.payload_bytes}, from, now);
  SetControlDeadline();
  return verdict == RxVerdict::kAccept ? RxVerdict::kMad : verdict;
}

void Engine::OnControlTimer(Time now) {
  if (now >= report_deadline_) SendDueReports(now);
  if (gsi_ != nullptr && now >= gsi_->NextDeadline()) gsi_->OnTimer(now);
  SetControlDeadline();
}

void Engine::SendMad(const Path& path, uint16_t pkey,
                     std::span<const uint8_t> mad) {
  // Its address may have gone since the path was found.
  if (!IsLocal(path.local)) {
    ++counters_.tx_source_gone;
    return;
  }
  WaitingMad one{.headers = path.headers,
                 .loopback = path.loopback,
                 .pkey = pkey,
                 .mad = {}};
  std::copy_n(mad.begin(), one.mad.size(), one.mad.begin());
  // A program that connects to thousands at once is faster than any ring.
  if (waiting_mads_.empty() && TrySendMad(one)) return;
  if (waiting_mads_.size() < kWaitingMadsMax) waiting_mads_.push_back(one);
}

void Engine::SendWaitingMads() {
  while (!waiting_mads_.empty() && TrySendMad(waiting_mads_.front())) {
    waiting_mads_.pop_front();
  }
}

bool Engine::TrySendMad(const WaitingMad& waiting) {
  if (waiting.loopback && tx_.loop_room() == 0) return false;
  const std::span<uint8_t> frame = tx_.ControlFrame();
  if (frame.empty()) return false;
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
  fields.pkey = waiting.pkey;
  fields.dest_qp = Qpn{wire::kGsiQpn};
  fields.src_qp = Qpn{wire::kGsiQpn};
  fields.qkey = wire::kQp1Qkey;
  fields.psn = gsi_psn_;
  fields.payload = waiting.mad;
  gsi_psn_ = gsi_psn_ + 1;
  tx_.SendControl(wire::EmitFrame(waiting.headers, fields, frame),
                  waiting.loopback);
  return true;
}

}  // namespace urnic
