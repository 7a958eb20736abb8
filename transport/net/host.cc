#include "transport/net/host.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/wire/too_big.h"

namespace urnic::net {

Host::Host(const HostConfig& config)
    : config_(config),
      neighbors_({.mac = config.mac,
                  .vlan = config.vlan,
                  .capacity = config.max_neighbors,
                  .salt = HashKey(config.seed, 1, 0)},
                 &addresses_),
      questions_(config.max_questions),
      path_mtus_(config.max_path_mtus),
      membership_({.mac = config.mac,
                   .vlan = config.vlan,
                   .max_groups = config.max_groups,
                   .seed = HashKey(config.seed, 2, 0)},
                  &addresses_),
      reassembly_(config.keeper),
      // Network derives 3 and 4.
      identification_order_(
          {{HashKey(config.seed, 5, 0), HashKey(config.seed, 5, 1)}}, 16) {
  URNIC_CHECK(config.vlan < 4095);
  SetAddresses(std::move(config_.addresses));
}

// --- Received frames ---------------------------------------------------------

RxVerdict Host::OnFrame(const wire::FrameView& view, RxVerdict shape,
                        const ReceivedFrame& frame, Time now, FrameSink& sink) {
  tcp_too_big_.reset();
  if (!IsOurVlan(view)) return RxVerdict::kForeignVlan;
  if (shape == RxVerdict::kIpFragment) {
    return OnFragment(view, frame, now, sink);
  }
  if (shape != RxVerdict::kArp && shape != RxVerdict::kIcmp) {
    return membership_.OnFrame(frame.bytes, shape, now);
  }
  wire::NeighborInfo info;
  const RxVerdict verdict = shape == RxVerdict::kArp
                                ? wire::ParseArp(view, info)
                                : wire::ParseIcmp(view, info);
  if (verdict != shape) return verdict;
  return OnMessage(view, info, verdict, now, sink);
}

RxVerdict Host::OnMessage(const wire::FrameView& view,
                          const wire::NeighborInfo& info, RxVerdict verdict,
                          Time now, FrameSink& sink) {
  switch (info.kind) {
    case wire::NeighborKind::kSolicit:
      return OnSolicit(view, info, verdict, now, sink);
    case wire::NeighborKind::kAdvertise:
      if (!info.has_owner) break;
      OnClaim({.address = info.owner,
               .mac = info.owner_mac,
               .answers = info.solicited,
               .may_override = info.may_override},
              now, sink);
      break;
    case wire::NeighborKind::kEchoRequest: {
      if (!IsLocal(view.dst)) return RxVerdict::kNotForUs;
      const std::span<const uint8_t> message = view.payload_span();
      AnswerEcho(view, {&message, 1}, now, sink);
      break;
    }
    case wire::NeighborKind::kOther:
      OnTooBig(view, now);
      break;
  }
  return verdict;
}

RxVerdict Host::OnSolicit(const wire::FrameView& view,
                          const wire::NeighborInfo& info, RxVerdict verdict,
                          Time now, FrameSink& sink) {
  const bool for_us = IsLocal(info.asked);
  //= RFC 826: the entry of a known sender is updated, whichever address it asks
  //= for
  if (info.has_owner && (for_us || verdict == RxVerdict::kArp)) {
    OnClaim({.address = info.owner, .mac = info.owner_mac, .asks_us = for_us},
            now, sink);
  }
  if (!for_us) return RxVerdict::kNotForUs;
  if (const auto frame = sink.Frame(); !frame.empty()) {
    sink.Send(wire::EmitAdvertisement(Self(info.asked), view, info, frame),
              /*loopback=*/false);
  }
  return verdict;
}

RxVerdict Host::OnFragment(const wire::FrameView& view,
                           const ReceivedFrame& frame, Time now,
                           FrameSink& sink) {
  const bool is_local = IsLocal(view.dst);
  if (!is_local && !membership_.IsMember(view.dst)) return RxVerdict::kNotForUs;
  wire::Fragment fragment;
  RxVerdict verdict = wire::ParseFragment(view, fragment);
  if (verdict != RxVerdict::kAccept) return verdict;
  const bool is_udp = fragment.protocol == wire::kIpProtocolUdp;
  if (is_udp && !keeps_datagrams_) return RxVerdict::kIpFragment;
  if (!is_udp && !is_local) return RxVerdict::kNotForUs;
  verdict = reassembly_.OnFragment(fragment, frame, now);
  if (verdict != RxVerdict::kAccept) return verdict;
  if (is_udp) {
    verdict = CheckDatagram();
    if (verdict != RxVerdict::kRudFragments) reassembly_.Finish();
    return verdict;
  }
  bool echo_request = false;
  verdict = wire::ParseReassembled(view, reassembly_.message(), echo_request);
  if (echo_request) AnswerEcho(view, reassembly_.message(), now, sink);
  reassembly_.Finish();
  return verdict;
}

RxVerdict Host::CheckDatagram() const {
  const wire::MessagePieces message = reassembly_.message();
  size_t bytes = 0;
  for (const auto& piece : message) bytes += piece.size();
  // Only the last piece may be shorter than 8 bytes.
  if (message[0].size() < sizeof(wire::Udp)) return RxVerdict::kBadUdpLength;
  const auto& udp = *reinterpret_cast<const wire::Udp*>(message[0].data());
  if (udp.dst_port.value() != wire::kRudUdpPort) return RxVerdict::kIpFragment;
  // Over IPv6 it may be a little longer than what TakeDatagram() has room for.
  return udp.length.value() == bytes &&
                 bytes - sizeof(wire::Udp) <= wire::kRoceMaxBytes
             ? RxVerdict::kRudFragments
             : RxVerdict::kBadUdpLength;
}

Host::Datagram Host::TakeDatagram(std::span<uint8_t> out) {
  size_t skip = sizeof(wire::Udp);
  size_t bytes = 0;
  for (const auto& piece : reassembly_.message()) {
    URNIC_CHECK(piece.size() - skip <= out.size() - bytes);
    std::copy(piece.begin() + static_cast<std::ptrdiff_t>(skip), piece.end(),
              out.begin() + static_cast<std::ptrdiff_t>(bytes));
    bytes += piece.size() - skip;
    skip = 0;
  }
  const bool marked = reassembly_.marked();
  reassembly_.Finish();
  return {static_cast<uint32_t>(bytes), marked};
}

uint32_t Host::DrawIdentification() {
  const uint32_t number = ++identifications_;
  // IPv4 has the lower half only.
  return (number & 0xffff0000) | identification_order_(number & 0xffff);
}

void Host::AnswerEcho(const wire::FrameView& request,
                      wire::MessagePieces message, Time now, FrameSink& sink) {
  wire::EchoReply reply(Self(request.dst), request, message,
                        path_mtus_.Find(request.src, config_.mtu, now),
                        //= RFC 7739 5: an observer cannot predict the
                        //= identification of a fragment
                        DrawIdentification());
  while (!reply.done()) {
    const std::span<uint8_t> frame = sink.Frame();
    const size_t bytes = frame.empty() ? 0 : reply.WriteNext(frame);
    if (bytes == 0) return;
    sink.Send(bytes, /*loopback=*/false);
  }
}

void Host::OnDatagram(const wire::FrameView& view, Time now, FrameSink& sink) {
  if (view.eth->src.is_group()) return;
  OnClaim({.address = view.src, .mac = view.eth->src, .asks_us = true}, now,
          sink);
}

void Host::OnClaim(const NeighborClaim& claim, Time now, FrameSink& sink) {
  // A claim for one of our own addresses is ignored. One for an address that is
  // not on our link creates no neighbour.
  if (IsLocal(claim.address) || claim.mac == wire::MacAddress{} ||
      claim.address.is_multicast()) {
    return;
  }
  NeighborClaim known = claim;
  if (known.asks_us) {
    const auto next_hop = NextHop(claim.address);
    known.asks_us = next_hop.has_value() && *next_hop == claim.address;
  }
  const uint32_t neighbor = neighbors_.OnClaim(known, now, sink);
  if (neighbor == NeighborCache::kNone) return;
  while (true) {
    const uint32_t at = questions_.FirstFor(neighbor);
    if (at == QuestionTable::kNone) break;
    questions_.Answer(at, PathStatus::kFound, neighbors_.At(neighbor));
    MUTATION_ADDS(net_answers_one_question, break;)
    neighbors_.Unwant(neighbor);
  }
}

//= RFC 8201 4: "packet too big" counts only if it quotes a packet that this
//= host may have sent
void Host::OnTooBig(const wire::FrameView& view, Time now) {
  wire::TooBigInfo info;
  if (!wire::ParseTooBig(view, info) || !(info.src == view.dst) ||
      !IsLocal(info.src) || IsLocal(info.dst) || info.dst.is_multicast()) {
    return;
  }
  const auto next_hop = NextHop(info.dst);
  if (!next_hop.has_value() || !neighbors_.IsLive(*next_hop)) return;
  if (!info.tcp) {
    (void)path_mtus_.OnTooBig(info.dst, info.mtu, info.packet_bytes, now);
    return;
  }
  //= RFC 5927 4.1: a report about a TCP segment changes nothing until the
  //= connection has checked the quoted sequence number
  const uint32_t mtu =
      PathMtuCache::ReportedMtu(info.dst, info.mtu, info.packet_bytes);
  if (mtu == 0) return;
  tcp_too_big_ = TcpTooBig{.local = info.src,
                           .remote = info.dst,
                           .local_port = info.src_port,
                           .remote_port = info.dst_port,
                           .seq = info.seq,
                           .mtu = mtu};
}

// --- Addresses and routes ----------------------------------------------------

void Host::SetAddresses(std::vector<LocalAddress> addresses) {
  addresses_.Set(std::move(addresses));
}

wire::NeighborSelf Host::Self(const wire::Gid& gid) const {
  wire::NeighborSelf self;
  self.mac = config_.mac;
  self.gid = gid;
  self.vlan_tci = VlanTci(config_.vlan, 0);
  return self;
}

void Host::Announce(FrameSink& sink) const {
  for (const LocalAddress& local : addresses_.list()) {
    const std::span<uint8_t> frame = sink.Frame();
    if (frame.empty()) return;
    sink.Send(wire::EmitAnnouncement(Self(local.gid), frame),
              /*loopback=*/false);
  }
}

std::optional<wire::Gid> Host::NextHop(const wire::Gid& remote) const {
  const LocalAddress* on_link = addresses_.FindOnLink(remote);
  const net::Route* route = routes_.Find(remote);
  if (on_link != nullptr &&
      (route == nullptr || route->prefix_bits <= on_link->prefix_bits)) {
    return remote;
  }
  //= RFC 4861 5.2: a link-local destination is always on the link, never behind
  //= a router
  if (!remote.is_ipv4() && remote.is_link_local()) return remote;
  if (route == nullptr) return std::nullopt;
  return route->has_gateway() ? route->gateway : remote;
}

// --- Paths -------------------------------------------------------------------

PathStatus Host::Route(const PathQuery& query, Path& path,
                       wire::MacAddress& mac, wire::Gid& next_hop) const {
  if (query.local.is_ipv4() != query.remote.is_ipv4()) {
    return PathStatus::kMixedFamilies;
  }
  if (!IsLocal(query.local)) return PathStatus::kNotLocal;
  path.loopback = IsLocal(query.remote);
  path.multicast = query.remote.is_multicast();
  if (path.loopback) {
    mac = config_.mac;
    return PathStatus::kFound;
  }
  if (path.multicast) {
    mac = wire::MulticastMac(query.remote);
    return PathStatus::kFound;
  }
  const auto hop = NextHop(query.remote);
  if (!hop.has_value()) return PathStatus::kNoRoute;
  next_hop = *hop;
  if (!query.roce_v1) return PathStatus::kNoAnswer;
  //= IBTA A16: RoCE v1 has no IP header, so it is not routed
  if (!(next_hop == query.remote)) return PathStatus::kNoRoute;
  // Peers of RoCE v1 may have no IP stack that answers.
  const auto known = wire::MacOfLinkLocal(query.remote);
  if (!known.has_value()) return PathStatus::kNoAnswer;
  mac = *known;
  return PathStatus::kFound;
}

void Host::Fill(const PathQuery& query, const wire::MacAddress& mac, Time now,
                Path& path) const {
  wire::PathHeaders headers;
  headers.src_mac = config_.mac;
  headers.dst_mac = mac;
  headers.vlan_tci = VlanTci(config_.vlan, query.traffic_class);
  headers.src = query.local;
  headers.dst = query.remote;
  headers.traffic_class = query.traffic_class;
  headers.hop_limit = query.hop_limit;
  headers.flow_label = query.flow_label;
  headers.udp_src_port = query.udp_src_port;
  headers.roce_v1 = query.roce_v1;
  path.headers = wire::HeaderTemplate(headers);
  path.local = query.local;
  path.remote = query.remote;
  path.mtu = path_mtus_.Find(query.remote, config_.mtu, now);
}

void Host::FillFrom(const PathQuery& query, AdjacencyPtr adjacency, Time now,
                    Path& path) const {
  Fill(query, adjacency->mac(), now, path);
  path.generation = adjacency->generation();
  path.adjacency = std::move(adjacency);
}

PathStatus Host::Find(const PathQuery& query, Time now, Path& out) {
  out = Path();
  wire::MacAddress mac;
  wire::Gid next_hop;
  const PathStatus status = Route(query, out, mac, next_hop);
  if (status == PathStatus::kFound) Fill(query, mac, now, out);
  if (status != PathStatus::kNoAnswer) return status;
  AdjacencyPtr adjacency = neighbors_.Find(next_hop, now);
  if (adjacency == nullptr) return PathStatus::kNoAnswer;
  FillFrom(query, std::move(adjacency), now, out);
  return PathStatus::kFound;
}

QuestionId Host::Ask(const PathQuery& query, uint64_t user, Time now,
                     Time deadline, FrameSink& sink) {
  const uint32_t at = questions_.Add(query, user);
  if (at == QuestionTable::kNone) return 0;
  const QuestionId id = questions_.IdOf(at);
  Path path;
  wire::MacAddress mac;
  wire::Gid next_hop;
  const PathStatus status = Route(query, path, mac, next_hop);
  if (status != PathStatus::kNoAnswer) {
    questions_.Answer(at, status, nullptr);
    return id;
  }
  if (AdjacencyPtr known = neighbors_.Find(next_hop, now); known != nullptr) {
    questions_.Answer(at, PathStatus::kFound, std::move(known));
    return id;
  }
  const uint32_t neighbor = neighbors_.Want(next_hop, query.local, now, sink);
  if (neighbor == NeighborCache::kNone) {
    questions_.Answer(at, PathStatus::kNoRoom, nullptr);
  } else {
    questions_.Wait(at, neighbor, deadline);
  }
  return id;
}

void Host::Cancel(QuestionId id) {
  const uint32_t at = questions_.Find(id);
  if (at == QuestionTable::kNone) return;
  const uint32_t neighbor = questions_[at].neighbor;
  questions_.Remove(at);
  if (neighbor != QuestionTable::kNobody) neighbors_.Unwant(neighbor);
}

bool Host::TakeAnswer(Time now, Answer& out) {
  const uint32_t at = questions_.FirstAnswer();
  if (at == QuestionTable::kNone) return false;
  Question& question = questions_[at];
  out = Answer();
  out.id = questions_.IdOf(at);
  out.user = question.user;
  out.status = question.status;
  if (question.adjacency != nullptr) {
    FillFrom(question.query, std::move(question.adjacency), now, out.path);
    CheckSource(out.path);
  } else if (question.status == PathStatus::kFound) {
    // Our addresses may have changed since.
    out.status = Find(question.query, now, out.path);
  }
  questions_.Remove(at);
  return true;
}

Path Host::ReplyPath(const wire::FrameView& view) const {
  Path path;
  path.local = view.dst;
  path.remote = view.src;
  path.loopback = IsLocal(view.src);
  path.mtu = config_.mtu;
  wire::PathHeaders headers;
  headers.src_mac = config_.mac;
  headers.dst_mac = view.eth->src;
  headers.vlan_tci = VlanTci(config_.vlan, 0);
  headers.src = view.dst;
  headers.dst = view.src;
  headers.roce_v1 = view.framing == wire::Framing::kGrh;
  headers.udp_src_port = view.udp_src_port;
  path.headers = wire::HeaderTemplate(headers);
  return path;
}

void Host::CheckSource(Path& path) const {
  const wire::Gid source = path.headers.src();
  path.source_gone = !IsLocal(source);
  path.local = path.source_gone ? wire::Gid{} : source;
}

bool Host::LeadsStill(const Path& path) const {
  if (IsLocal(path.remote) != path.loopback) return false;
  if (!path.HasNeighbor()) return true;
  if (path.adjacency == nullptr) return false;
  const auto next_hop = NextHop(path.remote);
  if (!next_hop.has_value()) return false;
  //= IBTA A16: RoCE v1 has no IP header, so it is not routed
  if (path.headers.framing() == wire::Framing::kGrh &&
      !(*next_hop == path.remote)) {
    return true;
  }
  return *next_hop == path.adjacency->address();
}

// --- Time --------------------------------------------------------------------

void Host::OnTimer(Time now, FrameSink& sink) {
  // Expired questions go first: nothing is sent for them any more.
  while (questions_.next_deadline() <= now) {
    const uint32_t at = questions_.next_due();
    const uint32_t neighbor = questions_[at].neighbor;
    questions_.Answer(at, PathStatus::kNoAnswer, nullptr);
    neighbors_.Unwant(neighbor);
  }
  neighbors_.OnTimer(now, sink);
  membership_.OnTimer(now, sink);
  reassembly_.OnTimer(now);
}

Time Host::NextDeadline() const {
  return std::min({neighbors_.NextDeadline(), questions_.next_deadline(),
                   membership_.NextDeadline(), reassembly_.NextDeadline()});
}

}  // namespace urnic::net
