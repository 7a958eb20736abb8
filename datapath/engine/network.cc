#include "datapath/engine/network.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/base/hash_index.h"
#include "transport/rud/context_pool.h"

namespace urnic {

namespace {

enum NumberPurpose : uint64_t {
  kKeyNumbers,
  kQpNumbers,
  kSrqNumbers,
  kIwarpQpNumbers,
  kConnections,  // not numbers: hashes, and initial sequence numbers
  kWindowNumbers,
};
// net::Host derives 1, 2 and 5 from the same seed.
constexpr uint64_t kGroupHash = 3;
constexpr uint64_t kRudHash = 0x5275;
constexpr uint64_t kWayHash = 4;

// Maps zeroed memory, of which pages are only allocated when they are used.
std::span<mem::MemoryRegion> MapRegions(uint32_t count, void** memory) {
  URNIC_CHECK(std::has_single_bit(count));
  void* at =
      mmap(nullptr, count * sizeof(mem::MemoryRegion), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  URNIC_CHECK(at != MAP_FAILED);
  *memory = at;
  return {static_cast<mem::MemoryRegion*>(at), count};
}

net::HostConfig HostConfigOf(const NetworkConfig& config, FrameKeeper* keeper) {
  net::HostConfig host;
  host.mac = config.mac;
  host.vlan = config.vlan;
  host.mtu = config.mtu;
  host.addresses = config.addresses;
  host.seed = config.seed;
  host.keeper = keeper;
  return host;
}

// How long to wait for an answer of the router of a new route.
constexpr Duration kDetourTime = Duration::Seconds(3);

LocalLessor NumbersOf(const NetworkConfig& config) {
  LocalLessor lessor;
  OfferNumbersOf(config.ordinal, lessor);
  return lessor;
}

Lessor* LessorOf(const NetworkConfig& config, LocalLessor& own) {
  return config.lessor != nullptr ? config.lessor : &own;
}

// The bytes that reads of a null region return.
constexpr uint8_t kZeros[mem::MrTable::kNullPageBytes] = {};

}  // namespace

absl::Status ToStatus(net::PathStatus status) {
  switch (status) {
    case net::PathStatus::kFound:
      return absl::OkStatus();
    case net::PathStatus::kMixedFamilies:
      return Refusal(
          ErrorCode::kMixedFamilies,
          "one address is IPv4 and the other IPv6: both must be of the same "
          "family");
    case net::PathStatus::kNotLocal:
      return Refusal(ErrorCode::kNotLocal,
                     "the source GID is not an address of this port");
    case net::PathStatus::kNoRoute:
      return Refusal(
          ErrorCode::kNoRoute,
          "no route to the destination: it is in none of the networks of this "
          "port's addresses, and no entry of the route table leads there");
    case net::PathStatus::kNoAnswer:
      return Refusal(
          ErrorCode::kNoAnswer,
          "the destination, or the router to it, does not answer ARP or "
          "neighbour discovery");
    case net::PathStatus::kNoRoom:
      break;
  }
  return Refusal(
      ErrorCode::kTooManyNeighbors,
      "too many neighbours are in use, or too many are being resolved");
}

Network::Network(const NetworkConfig& config, TransmitQueue* tx,
                 FrameKeeper* keeper, EngineCounters* counters)
    : tx_(tx),
      counters_(counters),
      on_path_mtu_(config.on_path_mtu),
      on_unfinished_checksum_(config.on_unfinished_checksum),
      iwarp_(config.iwarp),
      iwarp_options_(config.iwarp_options),
      connection_limits_(config.connections),
      connection_key_(config.number_key.For(kConnections)),
      mr_entries_(2 * config.limits.max_mrs),
      own_numbers_(NumbersOf(config)),
      mrs_(MapRegions(mr_entries_, &mr_memory_), LessorOf(config, own_numbers_),
           config.number_key.For(kKeyNumbers)),
      qps_(config.limits.max_qps, LessorOf(config, own_numbers_),
           NumberSpace::kQpn, config.number_key.For(kQpNumbers)),
      iwarp_numbers_(NumbersOf(config)),
      iwarp_qps_(config.limits.max_qps, &iwarp_numbers_, NumberSpace::kQpn,
                 config.number_key.For(kIwarpQpNumbers)),
      srqs_(config.limits.max_srqs, LessorOf(config, own_numbers_),
            NumberSpace::kSrqn, config.number_key.For(kSrqNumbers)),
      rud_windows_(config.limits.max_windows, LessorOf(config, own_numbers_),
                   NumberSpace::kWindow, config.number_key.For(kWindowNumbers)),
      rud_seed_(HashKey(config.seed, kRudHash, 0)),
      rud_context_count_(config.limits.rud_contexts),
      groups_(HashKey(config.seed, kGroupHash, 0)),
      rud_groups_(HashKey(config.seed, kGroupHash, 1)),
      host_(HostConfigOf(config, keeper)),
      gsi_(&host_, tx, counters, config.pkeys,
           HashKey(config.seed, kWayHash, 0)),
      null_sink_(new uint8_t[mem::MrTable::kNullPageBytes]) {
  mrs_.SetNullPages(reinterpret_cast<uint64_t>(kZeros),
                    reinterpret_cast<uint64_t>(null_sink_.get()));
}

Network::~Network() {
  URNIC_CHECK(qps_.size() == 0 && iwarp_qps_.size() == 0 &&
              rud_windows_.size() == 0 && path_users_.empty());
  munmap(mr_memory_, mr_entries_ * sizeof(mem::MemoryRegion));
}

rud::ContextPool& Network::rud_contexts() {
  if (rud_contexts_ == nullptr) {
    rud_storage_.resize(rud_context_count_);
    rud_contexts_ = std::make_unique<rud::ContextPool>(rud_storage_, rud_seed_);
  }
  return *rud_contexts_;
}

void Network::OnRecovery() {
  URNIC_CHECK(rud_windows_.size() == 0);
  if (rud_contexts_ != nullptr) rud_contexts_->OnRecovery();
}

SharedReceiveQueue* Network::CreateSrq(const SharedReceiveQueue& config) {
  const auto number = srqs_.Draw([](uint32_t) { return false; });
  if (!number.has_value()) return nullptr;
  auto* srq = new SharedReceiveQueue(config);
  srq->number = *number;
  srqs_.Add(*number, srq);
  return srq;
}

void Network::DestroySrq(SharedReceiveQueue* srq) {
  if (srq->xrc_domain != 0) {
    qps_.ForEach([&](RoceQp& qp) { qp.LetGoOf(srq->ring); });
  }
  srqs_.Remove(srq->number);
  delete srq;
}

RecvRing* Network::FindXrcRing(const RoceQp& qp, const RxPacket& packet) const {
  SharedReceiveQueue* srq = srqs_.Find(packet.xrceth().srqn());
  return srq != nullptr && srq->xrc_domain != 0 &&
                 srq->xrc_domain == qp.xrc_domain() && !srq->failed
             ? &srq->ring
             : nullptr;
}

RxVerdict Network::OnFrame(const wire::FrameView& view, RxVerdict shape,
                           const ReceivedFrame& frame, Time now) {
  if (shape == RxVerdict::kIpFragment)
    host_.KeepDatagrams(rud_windows_.size() != 0);
  const RxVerdict verdict = host_.OnFrame(view, shape, frame, now, *tx_);
  DeliverAnswers(now);
  net::TcpTooBig report;
  if (host_.TakeTcpReport(report) && tcp_reports_ != nullptr) {
    tcp_reports_->OnTooBig(report, now);
  }
  TellOfMtus();
  return verdict;
}

void Network::LearnPathMtu(const wire::Gid& remote, uint32_t mtu, Time now) {
  host_.LearnPathMtu(remote, mtu, now);
  TellOfMtus();
}

void Network::TellOfMtus() {
  net::PathMtuCache::Change change;
  while (host_.TakeMtuChange(change)) {
    ++counters_->path_mtu_shrunk;
    if (on_path_mtu_ != nullptr) on_path_mtu_(change);
  }
}

void Network::TellOfUnfinishedChecksum(const wire::Gid& peer) const {
  if (on_unfinished_checksum_ != nullptr) on_unfinished_checksum_(peer);
}

void Network::SetAddresses(std::vector<net::LocalAddress> addresses, Time now) {
  const bool is_new = std::ranges::any_of(
      addresses, [this](const auto& a) { return !host_.IsLocal(a.gid); });
  host_.SetAddresses(std::move(addresses));
  if (is_new) Announce();
  // The addresses also determine which peers are on our link.
  ForEachPath([&](net::Path& path) { Adopt(path, now); });
}

template <typename F>
void Network::ForEachPath(F&& f) {
  qps_.ForEach([&](RoceQp& qp) {
    if (qp.service() != QpService::kUd && qp.state() >= QpState::kRtr) {
      f(qp.path);
    }
  });
  address_handles_.ForEach(f);
  for (net::PathUsers* users : path_users_) users->ForEachPath(f);
}

void Network::SetRoutes(std::span<const net::Route> routes, Time now) {
  URNIC_CHECK(host_.SetRoutes(routes));
  ForEachPath([&](const net::Path& path) { FollowRoute(path, now); });
}

void Network::Adopt(net::Path& path, Time now) {
  host_.CheckSource(path);
  FollowRoute(path, now);
}

void Network::FollowRoute(const net::Path& path, Time now) {
  if (!path.HasNeighbor() || path.source_gone || host_.IsLocal(path.remote) ||
      host_.LeadsStill(path)) {
    return;
  }
  const auto next_hop = host_.NextHop(path.remote);
  if (!next_hop.has_value() ||
      std::ranges::any_of(detours_, [&](const auto& detour) {
        return detour->next_hop() == *next_hop;
      })) {
    return;
  }
  const net::PathQuery query = {.local = path.local, .remote = path.remote};
  detours_.push_back(std::make_unique<Detour>(this, *next_hop));
  const Detour* detour = detours_.back().get();
  if (Ask(query, detours_.back().get(), now, kDetourTime) == 0) {
    EndDetour(*detour, net::PathStatus::kNoRoom, {});
  }
}

// If the neighbour has not answered, the paths do not change. A sender that
// gets no answer along its old path starts another attempt (Suspect()).
void Network::EndDetour(const Detour& detour, net::PathStatus status,
                        const net::Path& path) {
  const wire::Gid next_hop = detour.next_hop();
  std::erase_if(detours_, [&](const auto& d) { return d.get() == &detour; });
  if (status != net::PathStatus::kFound) return;
  ForEachPath([&](net::Path& old) {
    if (!old.HasNeighbor() || host_.LeadsStill(old) ||
        host_.NextHop(old.remote) != next_hop) {
      return;
    }
    old.adjacency = path.adjacency;
    old.Restamp();
  });
}

RxVerdict Network::OnManagementPacket(const wire::FrameView& view,
                                      const RxPacket& packet, Time now) {
  const RxVerdict verdict = gsi_.OnPacket(view, packet, now);
  DeliverAnswers(now);
  return verdict;
}

net::QuestionId Network::Ask(const net::PathQuery& query,
                             net::PathWaiter* waiter, Time now,
                             Duration timeout) {
  const net::QuestionId id = host_.Ask(
      query, reinterpret_cast<uint64_t>(waiter), now, now + timeout, *tx_);
  DeliverAnswers(now);
  return id;
}

net::Path Network::PathBack(const wire::FrameView& view, Time now) {
  host_.OnDatagram(view, now, *tx_);
  DeliverAnswers(now);
  net::Path path;
  const net::PathStatus status =
      host_.Find({.local = view.dst, .remote = view.src}, now, path);
  return status == net::PathStatus::kFound ? path : host_.ReplyPath(view);
}

void Network::Suspect(const net::Path& path, Time now) {
  if (path.adjacency != nullptr) {
    host_.Suspect(*path.adjacency, now, *tx_);
    DeliverAnswers(now);
  }
  FollowRoute(path, now);
}

uint32_t Network::CreateAh(const net::Path& path, uint32_t pd, Time now) {
  const uint32_t number = address_handles_.Add(RocePath(path), pd);
  if (RocePath* known = address_handles_.Find(number, pd)) Adopt(*known, now);
  return number;
}

template <typename Table, typename Member>
absl::Status Network::JoinGroupIn(Table& table, Member& member,
                                  const wire::Gid& group, Time now) {
  const absl::StatusOr<bool> first = table.Join(member, group);
  if (!first.ok()) return first.status();
  if (*first && !host_.JoinGroup(group, now, *tx_)) {
    // The limit is for the groups of both tables together.
    (void)table.Leave(member, group);
    return Refusal(ErrorCode::kNoPlace,
                   absl::StrCat("all ", net::HostConfig{}.max_groups,
                                " multicast groups are in use"));
  }
  UpdateDeadline();
  return absl::OkStatus();
}
template absl::Status Network::JoinGroupIn(Groups&, RoceQp&, const wire::Gid&,
                                           Time);
template absl::Status Network::JoinGroupIn(RudGroups&, RudWindow&,
                                           const wire::Gid&, Time);

template <typename Table, typename Member>
bool Network::LeaveGroupIn(Table& table, Member& member, const wire::Gid& group,
                           Time now) {
  const auto left = table.Leave(member, group);
  if (groups_.MembersOf(group).empty() && rud_groups_.MembersOf(group).empty())
    host_.LeaveGroup(group, now, *tx_);
  UpdateDeadline();
  return left != Table::Left::kNotMember;
}
template bool Network::LeaveGroupIn(Groups&, RoceQp&, const wire::Gid&, Time);
template bool Network::LeaveGroupIn(RudGroups&, RudWindow&, const wire::Gid&,
                                    Time);

template <typename Table, typename Member>
void Network::LeaveAllGroupsIn(Table& table, Member& member, Time now) {
  for (const wire::Gid& group : table.AllOf(member))
    LeaveGroupIn(table, member, group, now);
}
template void Network::LeaveAllGroupsIn(Groups&, RoceQp&, Time);
template void Network::LeaveAllGroupsIn(RudGroups&, RudWindow&, Time);

void Network::UpdateDeadline() {
  deadline_ = std::min(gsi_.NextDeadline(), host_.NextDeadline());
}

void Network::OnTimer(Time now) {
  if (now >= host_.NextDeadline()) host_.OnTimer(now, *tx_);
  if (now >= gsi_.NextDeadline()) gsi_.OnTimer(now);
  DeliverAnswers(now);
}

void Network::DeliverAnswers(Time now) {
  net::Host::Answer answer;
  while (host_.TakeAnswer(now, answer)) {
    reinterpret_cast<net::PathWaiter*>(answer.user)
        ->OnPath(answer.status, answer.path);
  }
  counters_->packets_incomplete += host_.TakeIncomplete();
  UpdateDeadline();
}

}  // namespace urnic
