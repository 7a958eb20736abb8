#include "tests/sim/rc_end.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_of.h"
#include "datapath/engine/qp_table.h"
#include "tests/sim/check_replay.h"
#include "transport/rc/qp.h"
#include "transport/wire/frame.h"

namespace urnic::sim {

namespace {

constexpr uint32_t kCqEntries = 1024;
// Two steps of the engine's timer wheel: how late a timer may be.
constexpr Duration kTimerGrain = Duration::Nanoseconds(2 << 13);

// Of one that was held, this is not known any more.
bool IsMarked(const RxPacket& packet) {
  if (packet.ip == nullptr) return false;
  const uint8_t tos = packet.framing == wire::Framing::kIpv6
                          ? static_cast<uint8_t>(packet.ip[1] >> 4)
                          : packet.ip[1];
  return (tos & wire::kEcnMask) == wire::kEcnCongestionExperienced;
}

}  // namespace

// A completion queue that is always armed.
struct RcEnd::Cq {
  explicit Cq(EngineEvents* events)
      : ring(kCqEntries),
        queue(ring.data(), &indices, kCqEntries, events, this) {
    queue.ArmFor(CompletionQueue::kArmedAny);
  }
  std::vector<urnic_cqe> ring;
  urnic_queue_indices indices = {};
  CompletionQueue queue;
};

RcEnd::RcEnd(World& world, Machine& machine, ProgramMemory& memory,
             const RcEndOptions& options)
    : world_(world),
      machine_(machine),
      memory_(memory),
      options_(options),
      rings_(options.sq_entries, options.max_sge, options.max_inline,
             options.rq_entries, options.max_sge),
      rules_({}) {
  for (auto& cq : cqs_)
    cq = std::make_unique<Cq>(static_cast<EngineEvents*>(this));
  if (options.xrc) {
    for (int i = 0; i < 2; ++i) {
      SharedReceiveQueue srq;
      srq.ring = RecvRing(rings_.rq().view(), options.max_sge, options.pd);
      srq.cq = &cqs_[options.two_queues ? 1 : 0]->queue;
      srq.xrc_domain = options.pd;
      srqs_[i] = machine.rnic(i).WithToken(
          [&] { return machine.rnic(i).network().CreateSrq(srq); });
    }
    Require(srqs_[0]->number == srqs_[1]->number, "two shared queues");
  }
  rnic().WithToken([&] {
    auto made = rnic().engine().qps().Create(ConfigFor(at_));
    Require(made.ok(), "no queue pair");
    qp_ = &RoceQp::Of(**made);
  });
  qpn_ = qp_->qpn();
  machine.Add(qpn_, this);
}

RcEnd::~RcEnd() {
  machine_.Remove(qpn_);
  rnic().WithToken([&] { rnic().engine().qps().Destroy(qp_); });
  for (int i = 0; i < 2; ++i) {
    if (srqs_[i] == nullptr) continue;
    machine_.rnic(i).WithToken(
        [&] { machine_.rnic(i).network().DestroySrq(srqs_[i]); });
  }
}

EngineQpConfig RcEnd::ConfigFor(int rnic) {
  EngineQpConfig config;
  config.limits = {.qpn = qpn_,
                   .pd = options_.pd,
                   .max_sge_send = options_.max_sge,
                   .max_sge_recv = options_.max_sge,
                   .max_inline = options_.max_inline,
                   .sq_sig_all = options_.sq_sig_all,
                   .xrc = options_.xrc};
  config.sq = rings_.sq().view();
  if (options_.xrc) {
    config.service = QpService::kXrcTarget;
    config.xrc_domain = options_.pd;
    // Only a queue pair that is being moved names its receive queue.
    if (qp_ != nullptr) config.srq = srqs_[rnic];
  } else {
    config.rq = rings_.rq().view();
  }
  config.send_cq = &cqs_[0]->queue;
  config.recv_cq = &cqs_[options_.two_queues ? 1 : 0]->queue;
  config.events = this;
  return config;
}

const rc::Qp& RcEnd::core() const {
  return static_cast<const RcQp*>(qp_)->core();
}

// HasWork() changes nothing.
bool RcEnd::HasWork() const { return const_cast<rc::Qp&>(core()).HasWork(); }

void RcEnd::Connect(const QpConfig& config) {
  rules_ = WireRules(config);
  order_ = OrderRule(config.sq_psn);
  qp_->path = RocePath(machine_.path(at_));
  for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    Modify(state, config);
  }
}

void RcEnd::Modify(QpState target, const QpConfig& config) {
  rnic().WithToken([&] { rnic().engine().qps().Modify(*qp_, target, config); });
}

// --- What the engine does ----------------------------------------------------

void RcEnd::OnBurst(std::span<const RxPacket> packets) {
  packets_.assign(packets.begin(), packets.end());
  verdicts_.clear();
  completions_.clear();
  in_burst_ = true;
  for (const RxPacket& packet : packets) {
    if (IsMarked(packet) && packet.info->request()) {
      rules_.OnMarked(world_.now());
    }
  }
}

void RcEnd::OnPlaced(const Placement& placement) {
  Require(placement.bytes != 0, "an empty placement");
  uint32_t rights = placement.from_responder && !placement.to_receive
                        ? mem::kRemoteWrite
                        : mem::kLocalWrite;
  if (placement.kind != Placement::Kind::kCopy) {
    rights = mem::kRemoteAtomic;
    Require(placement.bytes == 8 && placement.target % 8 == 0,
            "an atomic beside its word");
  }
  Require(
      memory_.Allowed(placement.target, placement.bytes, options_.pd, rights),
      "memory is written that no key allows");
  if (on_placed) on_placed(placement);
}

void RcEnd::OnBurstDone() {
  in_burst_ = false;
  core().CheckInvariants();
  Require(verdicts_.size() == packets_.size(), "a packet without a verdict");
  order_.OnBurst(packets_, verdicts_, completions_);
  for (size_t i = 0; i < packets_.size(); ++i) {
    rules_.OnReceived(packets_[i], verdicts_[i]);
  }
}

// Called within the engine.
void RcEnd::OnCompletionEvent(CompletionQueue& queue) {
  Cq& cq = *static_cast<Cq*>(queue.owner());
  while (cq.indices.consumer != cq.indices.producer) {
    const urnic_cqe& cqe = cq.ring[cq.indices.consumer++ % kCqEntries];
    Require(cqe.qp_num == qpn_, "a completion of another queue pair");
    const Completion done = Completion::Of(cqe);
    Require(!options_.two_queues || done.recv == (&cq == cqs_[1].get()),
            "a completion in the wrong queue");
    if (in_burst_) completions_.push_back(done);
    if (on_completion) on_completion(done);
  }
  queue.ArmFor(CompletionQueue::kArmedAny);
}

void RcEnd::OnTransmit(std::span<const TxSlot> slots) {
  core().CheckInvariants();
  testing::FakeRing& ring = rings_.sq();
  for (const TxSlot& slot : slots) {
    JudgeNotification(slot);
    // A bitmap behind an acknowledgement is the core's.
    if (slot.from_responder &&
        reinterpret_cast<const wire::Bth*>(slot.headers)->opcode ==
            static_cast<uint8_t>(wire::Opcode::kRcAcknowledge)) {
      continue;
    }
    const uint32_t rights =
        slot.from_responder ? mem::kRemoteRead : mem::kLocalRead;
    for (uint32_t i = 0; i < slot.segment_count; ++i) {
      const Segment& s = slot.segments[i];
      Require(s.bytes != 0, "an empty segment");
      Require((!slot.from_responder && ring.Contains(s.address, s.bytes)) ||
                  memory_.Allowed(s.address, s.bytes, options_.pd, rights),
              "memory is read that no key allows");
    }
  }
}

// Judges the packet if it is a notification.
void RcEnd::JudgeNotification(const TxSlot& slot) {
  if (slot.payload_bytes != 0) return;
  uint8_t bytes[kMaxHeaderBytes + wire::kIcrcBytes] = {};
  std::memcpy(bytes, slot.headers, slot.header_bytes);
  wire::RocePacket packet;
  const RxVerdict form =
      wire::ParseRoce(bytes, slot.header_bytes + wire::kIcrcBytes, packet);
  if (form == RxVerdict::kAccept &&
      packet.info->kind == wire::PacketKind::kCnp) {
    rules_.OnSent(packet, world_.now());
  }
}

void RcEnd::AfterTurn() {
  core().CheckInvariants();
  const Time due = core().NextDeadline();
  // It may have been overdue when it came here from a host that was busy.
  Require(due.IsInfinite() ||
              std::max(due, came_at_) + kTimerGrain > rnic().engine().Now(),
          "a deadline has passed, and nothing was done");
  if (!mover_.has_value() || move_planned_ || !mover_->OneIn(move_every_)) {
    return;
  }
  move_planned_ = true;
  world_.After(Duration::Nanoseconds(static_cast<int64_t>(mover_->Below(500))),
               [this] {
                 move_planned_ = false;
                 Move();
               });
}

// --- Inputs ------------------------------------------------------------------

void RcEnd::LogInputs(size_t bytes) {
  inputs_ = std::make_shared<InputLog>(qpn_, bytes);
  rnic().WithToken([&] {
    Require(qp_->LogInputs(inputs_, rnic().engine().Now()),
            "inputs cannot be logged");
  });
}

uint64_t RcEnd::CheckInputs() const {
  return inputs_ == nullptr ? 0 : CheckReplay(*inputs_);
}

// --- Moving ------------------------------------------------------------------

bool RcEnd::PortIsBlocked() {
  bool blocked = false;
  Require(rnic().engine().TakeTurn(
              [&](Engine::Turn& turn) { blocked = turn.PortBlocked(); }),
          "somebody else is inside");
  return blocked;
}

void RcEnd::Move() {
  // Frames that wait there would be overtaken.
  if (PortIsBlocked() || !rnic().port().has_sent_all()) return;
  const std::string image =
      rnic().WithToken([&] { return rnic().engine().qps().Extract(qp_); });
  const int from = at_;
  at_ = 1 - from;
  // What images do not carry, docs/design/0007.
  memory_.CarryInvalidations(from);
  if (options_.xrc) srqs_[at_]->ring = srqs_[from]->ring;
  rnic().WithToken([&] {
    auto made = rnic().engine().qps().Insert(
        ConfigFor(at_), machine_.path(at_),
        {reinterpret_cast<const uint8_t*>(image.data()), image.size()});
    if (!made.ok()) Violate(absl::StrCat(made.status().message()));
    qp_ = *made;
    if (inputs_ != nullptr) qp_->LogInputs(inputs_, rnic().engine().Now());
  });
  came_at_ = rnic().engine().Now();
  machine_.PassOn(qpn_, from);
  ++moves_;
}

}  // namespace urnic::sim
