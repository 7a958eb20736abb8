#include "tests/sim/iwarp_end.h"

#include <array>
#include <cstring>
#include <utility>

#include "tests/sim/check_replay.h"
#include "tests/sim/iwarp_flow.h"

namespace urnic::sim {
namespace {

constexpr NumberKey kKey = {{0x1111222233334444, 0x5555666677778888}};

}  // namespace

IwarpEnd::IwarpEnd(World& world, Random& random, int number,
                   bool shared_receives, Hooks hooks)
    : world_(world),
      random_(random),
      number_(number),
      hooks_(std::move(hooks)),
      memory_(random),
      rings_(kSqEntries, kMaxSge, kMaxInline, kRqEntries, kMaxSge),
      records_(kSqEntries),
      answers_(kAnswers),
      recv_queue_(rings_.rq().view(), kMaxSge, shared_receives,
                  IwarpMemory::kPd),
      shared_receives_(shared_receives),
      qp_(QpLimits{.qpn = qpn(),
                   .pd = IwarpMemory::kPd,
                   .max_sge_send = kMaxSge,
                   .max_sge_recv = kMaxSge,
                   .max_inline = kMaxInline},
          rings_.sq().view(), records_, &recv_queue_.queue(), answers_,
          &memory_.host().mrs()),
      challenges_(kKey, 1000) {
  if (shared_receives) recv_queue_.queue().Use(&recv_queue_.ring());
}

// --- Connections -------------------------------------------------------------

void IwarpEnd::Begin(const IwarpChoice& choice, IwarpFlow& requests,
                     IwarpFlow& served) {
  choice_ = choice;
  requests_ = &requests;
  served_ = &served;
  opened_ = posted_ = has_work_ = false;
  ++generation_;
  timer_at_ = Time::Infinite();
  Modify(QpState::kReset);
  Modify(QpState::kInit);
  pools_.emplace(choice);
  kept_.assign(choice.kept_fpdus, {});
  endpoint_.emplace(iwarp::EndpointPools{.segments = &pools_->segments,
                                         .ranges = &pools_->ranges,
                                         .challenges = &challenges_,
                                         .frames = &frames_,
                                         .pieces = &pools_->pieces,
                                         .fpdus = &pools_->fpdus},
                    kept_);
}

void IwarpEnd::Finish() {
  Require(done(), "an endpoint is not done");
  Require(frames_.kept() == 0, "a frame stays in custody");
  Require(pools_->fpdus.kept() == 0, "an FPDU is kept forever");
  Require(pools_->ranges.free_count() == choice_.ranges, "a range is lost");
  Require(pools_->pieces.free() == choice_.pieces, "a piece is lost");
  // Outside of a connection, the program takes its receives back.
  while (!shared_receives_ && !receives_.empty()) {
    Require(qp_.state() == QpState::kInit, "a receive is not flushed");
    memory_.ReleaseSlot(receives_.front().slot);
    receives_.pop_front();
    ++first_receive_;
  }
  if (std::exchange(follows_log_, false)) tap_->Part();
  if (inputs_ != nullptr) replayed_ += CheckReplay(*inputs_);
  endpoint_.reset();
  Require(pools_->segments.free_blocks() == choice_.segment_blocks,
          "a record of a segment is lost");
  arrived_.clear();
}

void IwarpEnd::LogInputs(size_t bytes) {
  inputs_ = std::make_shared<InputLog>(qpn(), bytes);
  tap_ = std::make_unique<IwarpInputTap>(inputs_, &qp_);
  tap_->Begin(nullptr, {}, world_.now());
}

void IwarpEnd::FollowLog() {
  if (tap_ == nullptr) return;
  follows_log_ = true;
  tap_->Begin(&*endpoint_,
              {.local = iwarp_wire::AddressOf(number_),
               .remote = iwarp_wire::AddressOf(1 - number_),
               .local_port = choice_.tcp.local_port,
               .remote_port = choice_.tcp.remote_port},
              world_.now());
}

void IwarpEnd::DoConnect() {
  opened_ = true;
  endpoint_->Connect(choice_.tcp, choice_.setup, attachment(), {},
                     world_.now());
  FollowLog();
}

void IwarpEnd::Open(const tcp::HalfOpenTable::Accepted& accepted) {
  opened_ = true;
  choice_.tcp.iss = accepted.iss;
  choice_.tcp.timestamp_offset = accepted.timestamp_offset;
  endpoint_->Open(choice_.tcp, accepted.handshake, choice_.setup, world_.now());
}

void IwarpEnd::Disconnect() {
  Call([this] {
    Calls([this](auto& calls) { calls.Disconnect(world_.now()); });
  });
}

void IwarpEnd::Abort() {
  Call([this] { Calls([this](auto& calls) { calls.Abort(world_.now()); }); });
}

void IwarpEnd::OnTooBig(uint32_t mtu) {
  Call([this, mtu] {
    const SeqNum quoted = endpoint_->connection().sender().una();
    Calls([&](auto& calls) { calls.OnTooBig(mtu, quoted, world_.now()); });
  });
}

// --- Receiving ---------------------------------------------------------------

void IwarpEnd::Arrive(Link::Packet frame, iwarp_wire::Damage damage,
                      bool marked) {
  arrived_.push_back({std::move(frame), damage, marked});
  if (std::exchange(burst_due_, true)) return;
  // What arrives while the engine is busy becomes a burst.
  const auto busy =
      static_cast<int64_t>(random_.OneIn(2) ? 0 : random_.Below(20000));
  world_.After(Duration::Nanoseconds(busy), [this] { TakeBurst(); });
}

void IwarpEnd::TakeBurst() {
  burst_due_ = false;
  while (!arrived_.empty()) {
    const size_t count = std::min<size_t>(arrived_.size(), kRunMax);
    burst_.assign(
        std::make_move_iterator(arrived_.begin()),
        std::make_move_iterator(arrived_.begin() + static_cast<long>(count)));
    arrived_.erase(arrived_.begin(),
                   arrived_.begin() + static_cast<long>(count));
    HandIn(0);
    Pump();
  }
}

// All frames of a burst live until it is settled.
void IwarpEnd::HandIn(size_t index) {
  if (index == burst_.size()) return Settle();
  frames_.Give(burst_[index].bytes, [&](const ReceivedFrame& received) {
    HandIn(burst_[index], received);
    HandIn(index + 1);
    return 0;
  });
}

void IwarpEnd::HandIn(const Frame& frame, const ReceivedFrame& received) {
  const wire::TcpSegment segment = iwarp_wire::Decode(
      1 - number_, received.bytes, frame.damage, frame.marked);
  if (!endpoint_ || !hooks_.admit(segment)) return;
  const RxVerdict verdict = Calls([&](auto& calls) {
    return calls.OnSegment(segment, received, world_.now(), *this);
  });
  if (verdict == RxVerdict::kTcp) hooks_.refuse(segment);
}

void IwarpEnd::Settle() {
  if (!endpoint_) return;
  ExecutePlacements();
  qp_.CheckInvariants();
  const std::vector<RecvCompletion> done = std::exchange(done_, {});
  const FlowResult result =
      Calls([&](auto& calls) { return calls.Settle(done, *this); });
  has_work_ = result.has_work;
  Require(result.deadline == endpoint_->deadline(), "the deadline is another");
  iwarp::Event event;
  while ((event = Calls([](auto& calls) { return calls.TakeEvent(); })) !=
         iwarp::Event::kNone) {
    hooks_.on_event(event);
  }
  SetTimer();
}

// After a fault, the half that it concerns (requester, responder) places
// nothing more.
void IwarpEnd::ExecutePlacements() {
  std::optional<Placement> faults[2];
  for (const Placement& placement : std::exchange(placements_, {})) {
    auto& fault = faults[placement.from_responder];
    if (!fault && !Execute(placement)) fault = placement;
  }
  for (const auto& fault : faults) {
    if (!fault) continue;
    Calls([&](auto& calls) { calls.OnPlacementFault(*fault, done_); });
  }
}

bool IwarpEnd::Execute(const Placement& placement) {
  const bool inside =
      memory_.host().Contains(placement.target, placement.bytes);
  Require(inside, "a placement is outside of all memory");
  if (!memory_.host().Writable(placement.target, placement.bytes)) return false;
  const size_t at = memory_.OffsetOf(placement.target);
  if (placement.kind == Placement::Kind::kCopy) {
    if (placement.from_responder) {
      served_->OnPlaced(placement);
    } else {
      requests_->OnAnswered(placement);
    }
    memory_.Store(at, {placement.source, placement.bytes});
    return true;
  }
  uint64_t word;
  std::memcpy(&word, memory_.host().bytes(at, sizeof(word)).data(),
              sizeof(word));
  *placement.original = word;
  word = served_->OnAtomic(placement, word);
  memory_.Store(at, {reinterpret_cast<const uint8_t*>(&word), sizeof(word)});
  return true;
}

void IwarpEnd::Sent(const SendCompletion& done) { requests_->OnSent(done); }

void IwarpEnd::Received(const RecvCompletion& done) {
  Require(!receives_.empty() && done.wr_id == first_receive_,
          "receives do not complete in order");
  served_->OnReceived(done);
  memory_.ReleaseSlot(receives_.front().slot);
  receives_.pop_front();
  ++first_receive_;
}

// --- Sending -----------------------------------------------------------------

bool IwarpEnd::PostSend(const testing::SendWr& wr) {
  posted_ = true;
  return rings_.PostSend(wr);
}

bool IwarpEnd::PostReceive(const IwarpReceive& receive) {
  if (!rings_.PostRecv({.wr_id = posted_receives_, .sges = receive.sges})) {
    return false;
  }
  ++posted_receives_;
  receives_.push_back(receive);
  return true;
}

void IwarpEnd::Pump() {
  if (!endpoint_) return;
  for (int calls = 0; opened_ && (posted_ || has_work_); ++calls) {
    Require(calls < 10000, "there is work forever");
    // The port is full, or it is the turn of others.
    if (calls != 0 && random_.OneIn(8)) {
      world_.After(
          Duration::Nanoseconds(static_cast<int64_t>(random_.Below(20000))),
          [this, at = generation_] {
            if (at == generation_) Pump();
          });
      break;
    }
    Transmit();
    Settle();
  }
  SetTimer();
}

void IwarpEnd::Transmit() {
  std::array<tcp::TcpSlot, 16> slots;
  posted_ = false;
  const auto room = std::span(slots).first(1 + random_.Below(slots.size()));
  const auto read = [this](uint64_t address, std::span<uint8_t> to) {
    return ReadMemory(address, to);
  };
  Calls([&](auto& calls) {
    const uint32_t count = calls.Transmit(world_.now(), room);
    for (const tcp::TcpSlot& slot : room.first(count)) {
      std::vector<uint8_t> payload(slot.bytes);
      if (calls.WritePayload(slot, payload, read))
        hooks_.send(slot.fields, payload, slot.ect);
    }
  });
}

bool IwarpEnd::ReadMemory(uint64_t address, std::span<uint8_t> to) {
  if (!rings_.sq().Contains(address, to.size())) {
    Require(memory_.host().Contains(address, to.size()),
            "what is sent is outside of all memory");
    if (!memory_.host().Readable(address, to.size())) return false;
  }
  std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
  return true;
}

// An event for each deadline that is earlier than the one that waits.
void IwarpEnd::SetTimer() {
  if (!endpoint_ || !opened_) return;
  const Time due = endpoint_->deadline();
  if (due.IsInfinite() || timer_at_ <= due) return;
  timer_at_ = due;
  const auto late =
      Duration::Nanoseconds(static_cast<int64_t>(random_.Below(16000)));
  world_.At(due + late, [this, due, at = generation_] {
    if (at != generation_ || timer_at_ != due) return;
    timer_at_ = Time::Infinite();
    if (!endpoint_) return;
    if (world_.now() >= endpoint_->deadline()) {
      Calls([this](auto& calls) { calls.OnTimer(world_.now()); });
      Settle();
    }
    Pump();
  });
}

}  // namespace urnic::sim
