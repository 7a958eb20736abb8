#include "datapath/engine/network.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "transport/base/check.h"

namespace urnic {

namespace {

enum NumberPurpose : uint64_t { kKeyNumbers, kQpNumbers, kSrqNumbers };

// Zeroed memory that costs nothing until it is touched.
std::span<mem::MemoryRegion> MapRegions(uint32_t count, void** memory) {
  URNIC_CHECK(std::has_single_bit(count));
  void* at =
      mmap(nullptr, count * sizeof(mem::MemoryRegion), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  URNIC_CHECK(at != MAP_FAILED);
  *memory = at;
  return {static_cast<mem::MemoryRegion*>(at), count};
}

net::HostConfig HostConfigOf(const NetworkConfig& config) {
  net::HostConfig host;
  host.mac = config.mac;
  host.mtu = config.mtu;
  host.addresses = config.addresses;
  host.seed = config.seed;
  return host;
}

LocalLessor NumbersOf(const NetworkConfig& config) {
  LocalLessor lessor;
  OfferNumbersOf(config.ordinal, lessor);
  return lessor;
}

Lessor* LessorOf(const NetworkConfig& config, LocalLessor& own) {
  return config.lessor != nullptr ? config.lessor : &own;
}

// What a null region gives.
constexpr uint8_t kZeros[mem::MrTable::kNullPageBytes] = {};

}  // namespace

absl::Status ToStatus(net::PathStatus status) {
  switch (status) {
    case net::PathStatus::kFound:
      return absl::OkStatus();
    case net::PathStatus::kMixedFamilies:
      return absl::InvalidArgumentError(
          "one address is IPv4 and the other IPv6: a path needs two of one "
          "family");
    case net::PathStatus::kNotLocal:
      return absl::NotFoundError(
          "the source GID is not an address of this port");
    case net::PathStatus::kNoRoute:
      return absl::UnavailableError(
          "no route to the destination: it is on no link of this port's "
          "addresses, and no entry of the route table leads there");
    case net::PathStatus::kNoAnswer:
      return absl::DeadlineExceededError(
          "the destination, or the router on the way, answers neither ARP nor "
          "neighbour discovery");
    case net::PathStatus::kNoRoom:
      break;
  }
  return absl::ResourceExhaustedError(
      "too many neighbours are in use, or too many are asked for");
}

Network::Network(const NetworkConfig& config, TransmitQueue* tx,
                 EngineCounters* counters)
    : tx_(tx),
      mr_entries_(2 * config.max_mrs),
      own_numbers_(NumbersOf(config)),
      mrs_(MapRegions(mr_entries_, &mr_memory_), LessorOf(config, own_numbers_),
           config.number_key.For(kKeyNumbers)),
      qps_(config.max_qps, LessorOf(config, own_numbers_), NumberSpace::kQpn,
           config.number_key.For(kQpNumbers)),
      srqs_(kMaxSrqs, LessorOf(config, own_numbers_), NumberSpace::kSrqn,
            config.number_key.For(kSrqNumbers)),
      host_(HostConfigOf(config)),
      gsi_(&host_, tx, counters, config.pkeys),
      null_sink_(new uint8_t[mem::MrTable::kNullPageBytes]) {
  mrs_.SetNullPages(reinterpret_cast<uint64_t>(kZeros),
                    reinterpret_cast<uint64_t>(null_sink_.get()));
}

Network::~Network() {
  URNIC_CHECK(qps_.size() == 0);
  munmap(mr_memory_, mr_entries_ * sizeof(mem::MemoryRegion));
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
    qps_.ForEach([&](EngineQp& qp) { qp.LetGoOf(srq->ring); });
  }
  srqs_.Remove(srq->number);
  delete srq;
}

RecvRing* Network::FindXrcRing(const EngineQp& qp,
                               const RxPacket& packet) const {
  SharedReceiveQueue* srq = srqs_.Find(packet.xrceth().srqn());
  return srq != nullptr && srq->xrc_domain != 0 &&
                 srq->xrc_domain == qp.xrc_domain() && !srq->failed
             ? &srq->ring
             : nullptr;
}

RxVerdict Network::OnFrame(const wire::FrameView& view, RxVerdict shape,
                           std::span<const uint8_t> frame, Time now) {
  const RxVerdict verdict = host_.OnFrame(view, shape, frame, now, *tx_);
  DeliverAnswers(now);
  return verdict;
}

void Network::SetAddresses(std::vector<net::LocalAddress> addresses) {
  host_.SetAddresses(std::move(addresses));
  qps_.ForEach([this](EngineQp& qp) {
    if (qp.service() != QpService::kUd && qp.state() >= QpState::kRtr) {
      host_.CheckSource(qp.path);
    }
  });
  address_handles_.ForEach(
      [this](net::Path& path) { host_.CheckSource(path); });
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

void Network::Suspect(const net::Path& path, Time now) {
  if (path.adjacency == nullptr) return;
  host_.Suspect(*path.adjacency, now, *tx_);
  DeliverAnswers(now);
}

uint32_t Network::CreateAh(const net::Path& path, uint32_t pd) {
  RocePath known(path);
  host_.CheckSource(known);
  return address_handles_.Add(known, pd);
}

absl::Status Network::JoinGroup(EngineQp& qp, const wire::Gid& group,
                                Time now) {
  const absl::StatusOr<bool> first = groups_.Join(qp, group);
  if (!first.ok()) return first.status();
  static_assert(Groups::kMaxGroups <= net::HostConfig{}.max_groups);
  if (*first) URNIC_CHECK(host_.JoinGroup(group, now, *tx_));
  UpdateDeadline();
  return absl::OkStatus();
}

bool Network::LeaveGroup(EngineQp& qp, const wire::Gid& group, Time now) {
  const Groups::Left left = groups_.Leave(qp, group);
  if (left == Groups::Left::kGroupEmpty) host_.LeaveGroup(group, now, *tx_);
  UpdateDeadline();
  return left != Groups::Left::kNotMember;
}

void Network::LeaveAllGroups(EngineQp& qp, Time now) {
  while (const wire::Gid* group = groups_.GroupOf(qp)) {
    // A copy: the group may go.
    LeaveGroup(qp, wire::Gid(*group), now);
  }
}

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
  UpdateDeadline();
}

}  // namespace urnic
