#include "datapath/engine/gsi.h"

#include <algorithm>
#include <cstddef>

#include "transport/net/pkeys.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"

namespace urnic {

void GsiPort::Serve(uint8_t management_class, GsiHandler* handler) {
  std::erase_if(served_, [&](const Served& served) {
    return served.management_class == management_class;
  });
  if (handler != nullptr) served_.push_back({management_class, handler});
}

RxVerdict GsiPort::OnPacket(const wire::FrameView& view, const RxPacket& packet,
                            Time now) {
  if (!wire::VerifyIcrc(view.l3, view.framing, view.payload_bytes)) {
    return RxVerdict::kBadIcrc;
  }
  if (packet.info->service != wire::Service::kUd) {
    return RxVerdict::kWrongTransport;
  }
  if (packet.deth().qkey.value() != wire::kQp1Qkey) return RxVerdict::kBadQkey;
  //= IBTA 9.6.1.1.3: QP1 is in every partition of the table
  const auto pkey = net::FindPkey(pkeys_, packet.bth->pkey.value());
  if (!pkey.has_value()) return RxVerdict::kBadPkey;
  if (packet.payload_bytes != wire::kMadBytes) return RxVerdict::kBadMad;
  if (served_.empty()) return RxVerdict::kNoReceive;
  const uint8_t management_class =
      packet.payload[offsetof(wire::MadHeader, management_class)];
  const auto served = std::find_if(
      served_.begin(), served_.end(),
      [&](const Served& s) { return s.management_class == management_class; });
  if (served == served_.end()) return RxVerdict::kUnknownMadAttribute;
  const MadSource from{.src_qpn = packet.deth().src_qp().value,
                       .pkey = pkeys_[*pkey],
                       .reply = host_->ReplyPath(view)};
  if (!from.reply.loopback) host_->OnDatagram(view, now, *tx_);
  const RxVerdict verdict =
      served->handler->OnMad({packet.payload, packet.payload_bytes}, from, now);
  return verdict == RxVerdict::kAccept ? RxVerdict::kMad : verdict;
}

void GsiPort::Send(const net::Path& path, uint16_t pkey,
                   std::span<const uint8_t> mad) {
  // Its address may have gone since the path was found.
  if (!host_->IsLocal(path.local)) {
    ++counters_->tx_source_gone;
    return;
  }
  net::Path now = path;
  if (!now.IsCurrent()) now.Restamp();
  Waiting one{.headers = now.headers,
              .loopback = path.loopback,
              .pkey = pkey,
              .mad = {}};
  std::copy_n(mad.begin(), one.mad.size(), one.mad.begin());
  // A program that connects to thousands at once is faster than any ring.
  if (waiting_.empty() && TrySend(one)) return;
  if (waiting_.size() < kWaitingMax) waiting_.push_back(one);
}

void GsiPort::SendWaiting() {
  while (!waiting_.empty() && TrySend(waiting_.front())) waiting_.pop_front();
}

bool GsiPort::TrySend(const Waiting& waiting) {
  if (waiting.loopback && tx_->loop_room() == 0) return false;
  const std::span<uint8_t> frame = tx_->Frame();
  if (frame.empty()) return false;
  wire::PacketFields fields;
  fields.opcode = static_cast<uint8_t>(wire::Opcode::kUdSendOnly);
  fields.pkey = waiting.pkey;
  fields.dest_qp = Qpn{wire::kGsiQpn};
  fields.src_qp = Qpn{wire::kGsiQpn};
  fields.qkey = wire::kQp1Qkey;
  fields.psn = psn_;
  fields.payload = waiting.mad;
  psn_ = psn_ + 1;
  tx_->Send(wire::EmitFrame(waiting.headers, fields, frame), waiting.loopback);
  return true;
}

Time GsiPort::NextDeadline() const {
  Time next = Time::Infinite();
  for (const Served& served : served_) {
    next = std::min(next, served.handler->NextDeadline());
  }
  return next;
}

void GsiPort::OnTimer(Time now) {
  for (const Served& served : served_) {
    if (now >= served.handler->NextDeadline()) served.handler->OnTimer(now);
  }
}

bool GsiPort::IsQpnBusy(uint32_t qpn) const {
  return std::any_of(served_.begin(), served_.end(), [qpn](const Served& s) {
    return s.handler->IsQpnBusy(qpn);
  });
}

}  // namespace urnic
