#include "datapath/engine/gsi.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "transport/base/hash_index.h"
#include "transport/net/pkeys.h"
#include "transport/wire/icrc.h"
#include "transport/wire/packet.h"

namespace urnic {

void GsiPort::Serve(uint8_t management_class, net::MadHandler* handler) {
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
  //= IBTA 9.6.1.1.3: QP1 belongs to every partition in the port's P_Key table
  const auto pkey = net::FindPkey(pkeys_, packet.bth->pkey.value());
  if (!pkey.has_value()) return RxVerdict::kBadPkey;
  if (packet.payload_bytes != wire::kMadBytes) return RxVerdict::kBadMad;
  const uint8_t management_class =
      packet.payload[offsetof(wire::MadHeader, management_class)];
  const auto served = std::find_if(
      served_.begin(), served_.end(),
      [&](const Served& s) { return s.management_class == management_class; });
  if (served == served_.end()) return RxVerdict::kUnknownMadAttribute;
  const net::Path reply = host_->ReplyPath(view);
  net::PathQuery from;
  from.local = view.dst;
  from.remote = view.src;
  from.udp_src_port = view.udp_src_port;
  from.roce_v1 = view.framing == wire::Framing::kGrh;
  from.pkey = pkeys_[*pkey];
  if (!reply.loopback) host_->OnDatagram(view, now, *tx_);
  // A resolved path follows the neighbour, and the reverse path of a frame does
  // not: keep the resolved one.
  const auto known = ways_.find(from);
  if (known == ways_.end() || known->second.adjacency == nullptr) {
    Keep(from, reply);
  }
  const RxVerdict verdict =
      served->handler->OnMad({packet.payload, packet.payload_bytes}, from, now);
  TraceMad(TracePoint::kMadReceived, packet.payload,
           static_cast<uint64_t>(verdict));
  return verdict == RxVerdict::kAccept ? RxVerdict::kMad : verdict;
}

void GsiPort::TraceMad(TracePoint point, const uint8_t* mad,
                       uint64_t verdict) const {
  if (trace_ == nullptr) return;
  const auto& header = *reinterpret_cast<const wire::MadHeader*>(mad);
  trace_->Add(point, {},
              {header.management_class, header.attribute_id.value(),
               header.transaction_id.value(), verdict});
}

size_t GsiPort::SamePeer::operator()(const net::PathQuery& query) const {
  return HashKey(HashKey(salt, query.remote.word(0), query.remote.word(1)),
                 query.local.word(0), query.local.word(1));
}

const net::Path& GsiPort::Keep(const net::PathQuery& to,
                               const net::Path& path) {
  if (ways_.size() >= kWaysMax && !ways_.contains(to)) {
    ways_.erase(ways_.begin());
  }
  return ways_.insert_or_assign(to, path).first->second;
}

const net::Path* GsiPort::FindWay(const net::PathQuery& to, Time now) {
  auto known = ways_.find(to);
  if (known != ways_.end() && known->second.adjacency != nullptr) {
    if (host_->LeadsStill(known->second)) return &known->second;
    ways_.erase(known);
    known = ways_.end();
  }
  net::Path path;
  if (host_->Find(to, now, path) == net::PathStatus::kFound) {
    return &Keep(to, path);
  }
  return known != ways_.end() ? &known->second : nullptr;
}

void GsiPort::Send(const net::PathQuery& to, std::span<const uint8_t> mad,
                   Time now) {
  // The address may have been removed since the caller learned it.
  if (!host_->IsLocal(to.local)) {
    ++counters_->tx_source_gone;
    return;
  }
  Mad copy;
  std::copy_n(mad.begin(), copy.size(), copy.begin());
  if (const net::Path* way = FindWay(to, now); way != nullptr) {
    return SendAlong(*way, to.pkey, copy);
  }
  if (asked_.size() >= kAskedMax) {
    ++counters_->tx_mads_lost;
    return;
  }
  Asked& asked = asked_.emplace_back();
  asked.port = this;
  asked.self = std::prev(asked_.end());
  asked.to = to;
  asked.mad = copy;
  net::PathWaiter* const waiter = &asked;
  if (host_->Ask(to, reinterpret_cast<uint64_t>(waiter), now, now + kAskTime,
                 *tx_) == 0) {
    ++counters_->tx_mads_lost;
    asked_.pop_back();
  }
}

void GsiPort::Asked::OnPath(net::PathStatus status, const net::Path& path) {
  if (status == net::PathStatus::kFound) {
    port->SendAlong(port->Keep(to, path), to.pkey, mad);
  } else {
    ++port->counters_->tx_mads_lost;
  }
  port->asked_.erase(self);
}

void GsiPort::SendAlong(const net::Path& path, uint16_t pkey, const Mad& mad) {
  TraceMad(TracePoint::kMadSent, mad.data(), 0);
  net::Path now = path;
  if (!now.IsCurrent()) now.Restamp();
  const Waiting one{.headers = now.headers,
                    .loopback = path.loopback,
                    .pkey = pkey,
                    .mad = mad};
  // A program that connects to thousands of peers at once fills any ring.
  if (waiting_.empty() && TrySend(one)) return;
  if (waiting_.size() == kWaitingMax) {
    ++counters_->tx_mads_lost;
    return;
  }
  waiting_.push_back(one);
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

bool GsiPort::IsQpnBusy(Qpn qpn) const {
  return std::any_of(served_.begin(), served_.end(), [qpn](const Served& s) {
    return s.handler->IsQpnBusy(qpn);
  });
}

}  // namespace urnic
