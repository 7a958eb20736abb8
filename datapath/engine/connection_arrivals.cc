// Segments that belong to no connection: handshakes, TIME-WAIT, and others.
// Also timers, and the reports of routers about segments.

#include <algorithm>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/network.h"

namespace urnic {

IwarpConnection* ConnectionTable::Find(const tcp::FourTuple& tuple) {
  if (last_found_ != nullptr && last_found_->tuple_ == tuple) {
    return last_found_;
  }
  const uint32_t index = index_.Find(HashOf(tuple), [&](uint32_t candidate) {
    return connections_[candidate]->tuple_ == tuple;
  });
  if (index == HashIndex::kNone) return nullptr;
  last_found_ = connections_[index].get();
  return last_found_;
}

IwarpConnection* ConnectionTable::OnStray(const tcp::FourTuple& tuple,
                                          const wire::TcpSegment& segment,
                                          const wire::FrameView& view, Time now,
                                          RxVerdict& verdict) {
  std::optional<SeqNum> after;
  if (OnOldSegment(tuple, segment, view, now, after)) {
    verdict = RxVerdict::kTcpTimeWait;
    return nullptr;
  }
  IwarpListener* const listener = FindListener(tuple.local, tuple.local_port);
  if (listener == nullptr) {
    replies_.Reset(network_->host().ReplyPath(view), segment);
    verdict = RxVerdict::kTcp;
    return nullptr;
  }
  //= RFC 9293 3.10.7.2: in LISTEN, a RST is dropped, an acknowledgement is
  //= answered by a RST, and only then is a SYN looked for
  const bool opens = segment.Has(wire::kTcpSyn) &&
                     !segment.Has(wire::kTcpAck) && !segment.Has(wire::kTcpRst);
  // If the segment is dropped here, the peer repeats it: a SYN, or the MPA
  // request.
  const bool no_room =
      full() || (listener->full() && listener->silent_.empty());
  if (!segment.Has(wire::kTcpRst) && no_room) {
    verdict = RxVerdict::kTcpBacklog;
    return nullptr;
  }
  if (opens) {
    replies_.Send(network_->host().ReplyPath(view),
                  half_open_.OnSyn(tuple, segment, OfferFor(tuple.local),
                                   limits_.window_bytes, now, after));
    verdict = RxVerdict::kTcpHandshake;
    return nullptr;
  }
  const auto outcome = half_open_.OnSegment(tuple, segment, now);
  if (outcome.accepted) {
    // A peer that connects and then sends no request must not keep others out.
    if (listener->full()) EvictSilent(*listener);
    return &Open(*listener, tuple, *outcome.accepted, view, now);
  }
  if (outcome.answer) {
    replies_.Send(network_->host().ReplyPath(view), *outcome.answer);
  }
  verdict = outcome.verdict;
  return nullptr;
}

bool ConnectionTable::OnOldSegment(const tcp::FourTuple& tuple,
                                   const wire::TcpSegment& segment,
                                   const wire::FrameView& view, Time now,
                                   std::optional<SeqNum>& after) {
  using Reply = tcp::TimeWaitTable::Reply;
  const auto [reply, ended] = time_wait_.OnSegment(tuple, segment, now);
  if (reply == Reply::kNewConnection) after = ended.snd_nxt;
  if (reply == Reply::kAck) {
    wire::TcpFields fields;
    fields.src_port = tuple.local_port;
    fields.dst_port = tuple.remote_port;
    fields.flags = wire::kTcpAck;
    fields.seq = ended.snd_nxt;
    fields.ack = ended.rcv_nxt;
    fields.window = ended.window;
    if (ended.timestamps) {
      fields.options.timestamps = {half_open_.numbers().Timestamp(tuple, now),
                                   ended.ts_recent};
    }
    replies_.Send(network_->host().ReplyPath(view), fields);
  }
  return reply == Reply::kAck || reply == Reply::kDrop;
}

IwarpConnection& ConnectionTable::Open(
    IwarpListener& listener, const tcp::FourTuple& tuple,
    const tcp::HalfOpenTable::Accepted& accepted, const wire::FrameView& view,
    Time now) {
  IwarpConnection& connection = Add(tuple, network_->PathBack(view, now));
  connection.listener_ = &listener;
  connection.unanswered_ = true;
  ++listener.unanswered_;
  connection.silent_ = true;
  connection.silent_at_ =
      listener.silent_.insert(listener.silent_.end(), &connection);
  ++parts_.counters->iwarp.passive_opens;
  tcp::ConnectionConfig config = ConfigFor(tuple, connection.path_);
  config.iss = accepted.iss;
  config.timestamp_offset = accepted.timestamp_offset;
  connection.endpoint_->Open(config, accepted.handshake,
                             listener.config().setup, now);
  return connection;
}

void ConnectionTable::Reset(const IwarpConnection& connection,
                            const wire::TcpSegment& segment) {
  replies_.Reset(connection.path_, segment);
}

void ConnectionTable::OnTooBig(const net::TcpTooBig& report, Time now) {
  IwarpConnection* const connection = Find({.local = report.local,
                                            .remote = report.remote,
                                            .local_port = report.local_port,
                                            .remote_port = report.remote_port});
  if (connection == nullptr) return;
  connection->Calls([&](auto& calls) {
    calls.OnTooBig(report.mtu, SeqNum(report.seq), now);
  });
  Update(*connection);
}

void ConnectionTable::SendTo(const tcp::FourTuple& tuple,
                             const wire::TcpFields& fields, Time now) {
  net::Path path;
  if (network_->FindPath({.local = tuple.local, .remote = tuple.remote}, now,
                         path) == net::PathStatus::kFound) {
    replies_.Send(path, fields);
  }
}

void ConnectionTable::OnLinkMtu() {
  const uint32_t before = std::exchange(link_mtu_, parts_.tx->link_mtu());
  ForEach([&](IwarpConnection& connection) {
    if (connection.retired_) return;
    // This is not a property of the path, so the network's cache does not learn
    // it.
    uint32_t& known = connection.known_mtu_;
    known =
        known == before ? MtuOf(connection.path_) : std::min(known, link_mtu_);
    connection.Calls(
        [&](auto& calls) { calls.OnLinkMtu(link_mtu_, *parts_.now); });
    Update(connection);
  });
}

void ConnectionTable::OnTimer(Time now) {
  while (const auto repeat = half_open_.OnTimer(now)) {
    const tcp::FourTuple& tuple = repeat->tuple;
    if (FindListener(tuple.local, tuple.local_port) != nullptr) {
      SendTo(tuple, repeat->fields, now);
    }
  }
  while (const auto repeat = last_resets_.OnTimer(now)) {
    // The addresses and ports may have a new connection.
    if (Find(repeat->tuple) == nullptr) {
      SendTo(repeat->tuple, repeat->fields, now);
    }
  }
  time_wait_.OnTimer(now);
}

}  // namespace urnic
