#include "tests/support/endpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/wire/icrc.h"
#include "transport/wire/pretty.h"

namespace urnic::testing {
namespace {

// Enough for one queue pair. The tables of an engine are megabytes, and some
// tests make 100 000 endpoints.
constexpr rc::RecoveryLimits kRecoveryLimits = {
    .held_packets = rc::kHoldSpan, .responders = 4, .requesters = 4};

constexpr uint32_t kIcrcSeed = 0x52494e43;

QpLimits LimitsOf(const EndpointOptions& o) {
  return QpLimits{.qpn = o.qpn,
                  .pd = o.pd,
                  .max_sge_send = o.max_sge,
                  .max_sge_recv = o.max_sge,
                  .max_inline = o.max_inline,
                  .sq_sig_all = o.sq_sig_all,
                  .xrc = o.xrc};
}

}  // namespace

void SealPacket(Packet& packet) {
  const size_t bytes = packet.size() - wire::kIcrcBytes;
  wire::StoreIcrc(packet.data() + bytes,
                  wire::IcrcExtend(kIcrcSeed, packet.data(), bytes));
}

bool SealIntact(const Packet& packet) {
  if (packet.size() < sizeof(wire::Bth) + wire::kIcrcBytes ||
      packet.size() % 4 != 0) {
    return false;
  }
  return wire::VerifyIcrcAfter(kIcrcSeed, packet.data(), packet.size());
}

Packet MakePacket(const wire::PacketFields& fields) {
  Packet packet(sizeof(wire::Bth) + 64 + fields.payload.size());
  const size_t bytes = wire::EmitRoce(fields, packet);
  URNIC_CHECK(bytes != 0);
  packet.resize(bytes + wire::kIcrcBytes);
  SealPacket(packet);
  return packet;
}

std::string Describe(const Packet& packet) {
  wire::RocePacket parsed;
  const RxVerdict verdict = wire::ParseRoce(
      packet.data(), static_cast<uint32_t>(packet.size()), parsed);
  if (verdict != RxVerdict::kAccept) {
    return kRxVerdictNames[static_cast<size_t>(verdict)];
  }
  return wire::Pretty(parsed);
}

struct Endpoint::Sink {
  void Place(const Placement& placement) { placements.push_back(placement); }
  void Complete(const RecvCompletion& done) { completions.push_back(done); }
  void Count(RxVerdict verdict) { verdicts.push_back(verdict); }

  std::vector<Placement> placements;
  std::vector<RecvCompletion> completions;
  std::vector<RxVerdict>& verdicts;
};

// Received packets. Their bytes are wrong when they are neither being delivered
// nor kept.
class Endpoint::Frames final : public FrameKeeper {
 public:
  explicit Frames(uint32_t limit) : limit_(limit) {}

  // The packet as a frame, until Forget().
  std::shared_ptr<Packet> Receive(const Packet& packet) {
    at_hand_.push_back(std::make_shared<Packet>(packet));
    return at_hand_.back();
  }
  void Forget() {
    for (const auto& frame : std::exchange(at_hand_, {})) Spoil(frame);
  }

  uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) override {
    if (kept_.size() >= limit_ || holder.kept >= holder.limit) return kRefused;
    std::shared_ptr<Packet> found;
    for (const auto& other : at_hand_) {
      if (other.get() == frame.buffer) found = other;
    }
    for (const auto& [number, other] : kept_) {  // a frame may be kept twice
      if (other.get() == frame.buffer) found = other;
    }
    URNIC_CHECK(found != nullptr);
    kept_[++last_] = std::move(found);
    ++holder.kept;
    return last_;
  }
  void Release(uint32_t number, FrameHolder& holder) override {
    const auto found = kept_.find(number);
    URNIC_CHECK(found != kept_.end());
    Spoil(found->second);
    kept_.erase(found);
    --holder.kept;
  }

 private:
  static void Spoil(const std::shared_ptr<Packet>& frame) {
    if (frame.use_count() == 1) std::ranges::fill(*frame, uint8_t{0xdd});
  }

  const size_t limit_;
  std::vector<std::shared_ptr<Packet>> at_hand_;
  std::map<uint32_t, std::shared_ptr<Packet>> kept_;
  uint32_t last_ = 0;
};

Endpoint::Endpoint(FakeHost& host, const EndpointOptions& options)
    : host_(host),
      options_(options),
      rings_(options.sq_entries, options.max_sge, options.max_inline,
             options.rq_entries, options.max_sge),
      xrc_ring_(rings_.rq().view(), options.max_sge, options.pd),
      frames_(std::make_unique<Frames>(options.held_max)),
      pool_(std::make_unique<rc::RecoveryPool>(kRecoveryLimits, frames_.get(),
                                               &counters_)),
      core_(std::make_unique<Core>(*this, nullptr)),
      counts_(kRxVerdictCount) {
  if (options.xrc) AddSharedRing(options.srqn, xrc_ring_);
}

Endpoint::~Endpoint() = default;

Endpoint::Core::Core(Endpoint& end, RecvRing* ring)
    : records(end.options_.sq_entries),
      replay(rc::kReplaySlots),
      sges(end.options_.max_sge),
      own_ring(end.rings_.rq().view(), end.options_.max_sge, end.options_.pd),
      receives(end.options_.xrc ? ring : &own_ring, sges.data(),
               end.options_.xrc),
      qp(LimitsOf(end.options_), end.rings_.sq().view(), records, replay,
         &receives, &end.host_.mrs(), end.pool_.get()) {
  qp.Join(&path);
}

std::vector<uint8_t> Endpoint::Image(Time now) {
  now = now + clock_shift_;
  std::vector<uint8_t> image(rc::ExtractImage(qp(), now, {}));
  URNIC_CHECK(rc::ExtractImage(qp(), now, image) == image.size());
  return image;
}

ImageRefusal Endpoint::Become(std::span<const uint8_t> image, Time now,
                              Duration shift) {
  auto next = std::make_unique<Core>(*this, core_->receives.ring());
  const ImageRefusal refusal = rc::InsertImage(image, now + shift, next->qp);
  if (!refusal.ok()) return refusal;
  core_ = std::move(next);
  clock_shift_ = shift;
  ++moves_;
  return refusal;
}

void Endpoint::MaybeMove(Time now) {
  if (!mover_.has_value() || !mover_->OneIn(move_every_)) return;
  const auto shift = static_cast<int64_t>(mover_->Below(uint64_t{1} << 40));
  const ImageRefusal refusal =
      Become(Image(now), now, Duration::Nanoseconds(shift));
  if (refusal.ok()) return;
  std::fprintf(stderr, "an image of our own: %s\n", refusal.Text().c_str());
  std::abort();
}

void Endpoint::Connect(const QpConfig& config) {
  qp().Modify(QpState::kInit, config);
  qp().Modify(QpState::kRtr, config);
  qp().Modify(QpState::kRts, config);
}

std::vector<RxVerdict> Endpoint::Deliver(std::span<const Packet> packets,
                                         Time now, uint64_t marked) {
  std::vector<RxVerdict> verdicts;
  std::vector<RxPacket> parsed;
  for (const Packet& packet : packets) {
    const bool mark = (marked & 1) != 0;
    marked >>= 1;
    const std::shared_ptr<Packet> frame = frames_->Receive(packet);
    RxPacket p;
    const RxVerdict verdict =
        wire::ParseRoce(frame->data(), static_cast<uint32_t>(frame->size()), p);
    p.buffer = frame.get();
    const auto service =
        options_.xrc ? wire::Service::kXrc : wire::Service::kRc;
    if (verdict != RxVerdict::kAccept) continue;
    if (p.info->kind == wire::PacketKind::kCnp) {
      DeliverRuns(parsed, now, verdicts);
      verdicts.push_back(qp().OnCnp(now + clock_shift_));
      continue;
    }
    if (p.info->service != service) continue;
    if (mark) qp().OnMarked(p, now + clock_shift_);
    if (p.info->has_xrceth) {
      const auto found = shared_.find(p.xrceth().srqn());
      if (found != shared_.end()) p.xrc_ring = found->second;
    }
    parsed.push_back(p);
  }
  DeliverRuns(parsed, now, verdicts);
  frames_->Forget();
  for (const RxVerdict v : verdicts) ++counts_[static_cast<size_t>(v)];
  return verdicts;
}

void Endpoint::DeliverRuns(std::vector<RxPacket>& packets, Time now,
                           std::vector<RxVerdict>& verdicts) {
  std::span<const RxPacket> rest(packets);
  while (!rest.empty()) rest = rest.subspan(DeliverRun(rest, now, verdicts));
  packets.clear();
}

size_t Endpoint::DeliverRun(std::span<const RxPacket> rest, Time now,
                            std::vector<RxVerdict>& verdicts) {
  size_t length = 0;
  while (length < rest.size() && length < kRunMax) {
    if (EndsRun(rest[length++])) break;
  }
  MaybeMove(now);
  Process(rest.first(length), now, verdicts);
  RxPacket due[kRunMax];
  while (const uint32_t count = qp().TakeDue(due)) {
    std::vector<RxVerdict> later;
    Process({due, count}, now, later);
    for (const RxVerdict v : later) ++counts_[static_cast<size_t>(v)];
  }
  return length;
}

void Endpoint::Process(std::span<const RxPacket> run, Time now,
                       std::vector<RxVerdict>& verdicts) {
  Sink sink{.placements = {}, .completions = {}, .verdicts = verdicts};
  const size_t first = verdicts.size();
  qp().OnBurst(run, now + clock_shift_, sink);
  ExecutePlacements(sink.placements, sink.completions);
  MaybeMove(now);
  OnResult(qp().Settle(sink.completions, *this));
  for (size_t i = 0; on_packet && i < run.size(); ++i) {
    on_packet(run[i], verdicts[first + i]);
  }
}

void Endpoint::ExecutePlacements(std::span<const Placement> placements,
                                 std::span<RecvCompletion> completions) {
  bool faulted[2] = {false, false};
  for (const Placement& placement : placements) {
    CheckPlacement(placement);
    if (faulted[placement.from_responder]) continue;
    if (Execute(placement)) continue;
    faulted[placement.from_responder] = true;
    qp().OnPlacementFault(placement, completions);
  }
}

// Aborts if a key check of the core has allowed what the book forbids: that is
// our own mistake.
void Endpoint::CheckPlacement(const Placement& placement) const {
  URNIC_CHECK(placement.bytes != 0);
  uint32_t rights = placement.from_responder && !placement.to_receive
                        ? mem::kRemoteWrite
                        : mem::kLocalWrite;
  if (placement.kind != Placement::Kind::kCopy) {
    rights = mem::kRemoteAtomic;
    URNIC_CHECK(placement.bytes == 8 && placement.target % 8 == 0);
  }
  URNIC_CHECK(
      host_.Allowed(placement.target, placement.bytes, options_.pd, rights));
}

bool Endpoint::Execute(const Placement& placement) {
  if (!host_.Writable(placement.target, placement.bytes)) return false;
  if (on_place) on_place(placement);
  auto* target = reinterpret_cast<uint8_t*>(placement.target);
  if (placement.kind == Placement::Kind::kCopy) {
    std::memcpy(target, placement.source, placement.bytes);
    return true;
  }
  uint64_t value;
  std::memcpy(&value, target, 8);
  *placement.original = value;
  if (placement.kind == Placement::Kind::kFetchAdd) {
    value += placement.swap_or_add;
  } else if (value == placement.compare) {
    value = placement.swap_or_add;
  }
  std::memcpy(target, &value, 8);
  return true;
}

std::vector<Packet> Endpoint::Transmit(Time now, uint32_t max) {
  std::vector<Packet> packets(max);
  std::vector<TxSlot> slots(max);
  for (uint32_t i = 0; i < max; ++i) {
    packets[i].resize(kMaxHeaderBytes);
    slots[i].headers = packets[i].data();
  }
  MaybeMove(now);
  const uint32_t count = qp().Transmit(now + clock_shift_, slots);
  URNIC_CHECK(count <= max);
  uint32_t sent = 0;
  while (sent < count && Gather(slots[sent], packets[sent])) ++sent;
  packets.resize(sent);
  if (sent < count) qp().OnGatherFault(slots[sent]);
  MaybeMove(now);
  Poll();
  return packets;
}

bool Endpoint::Gather(const TxSlot& slot, Packet& packet) const {
  // The bitmap of an acknowledgement is the core's.
  const bool bitmap =
      packet[0] == static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);
  packet.resize(slot.header_bytes);
  for (uint32_t i = 0; i < slot.segment_count; ++i) {
    const Segment& s = slot.segments[i];
    const bool in_ring =
        !slot.from_responder &&
        const_cast<FakeRings&>(rings_).sq().Contains(s.address, s.bytes);
    const uint32_t rights =
        slot.from_responder ? mem::kRemoteRead : mem::kLocalRead;
    URNIC_CHECK(s.bytes != 0);
    URNIC_CHECK(in_ring || bitmap ||
                host_.Allowed(s.address, s.bytes, options_.pd, rights));
    if (!in_ring && !bitmap && !host_.Readable(s.address, s.bytes))
      return false;
    const auto* data = reinterpret_cast<const uint8_t*>(s.address);
    packet.insert(packet.end(), data, data + s.bytes);
  }
  URNIC_CHECK(packet.size() == slot.header_bytes + slot.payload_bytes);
  packet.resize(packet.size() + slot.pad_bytes + wire::kIcrcBytes);
  SealPacket(packet);
  return true;
}

void Endpoint::AdvanceTo(Time now) {
  if (now < NextDeadline()) return;
  MaybeMove(now);
  OnResult(qp().OnTimer(now + clock_shift_, *this));
}

void Endpoint::Poll() { OnResult(qp().Settle({}, *this)); }

void Endpoint::OnResult(const FlowResult& result) {
  URNIC_CHECK(result.state == qp().state());
  URNIC_CHECK(result.deadline == qp().NextDeadline());
  URNIC_CHECK(result.has_work == qp().HasWork());
  URNIC_CHECK(result.only_ack_waits == qp().OnlyAckWaits());
  if (result.event == QpEvent::kSqDrained) {
    drained_ = true;
  } else if (result.event != QpEvent::kNone) {
    event_ = result.event;
  }
}

QpEvent Endpoint::TakeEvent() {
  if (std::exchange(drained_, false)) return QpEvent::kSqDrained;
  return std::exchange(event_, QpEvent::kNone);
}

void Endpoint::Sent(const SendCompletion& sent) {
  Report(Completion{.status = sent.status,
                    .opcode = sent.opcode,
                    .cause = sent.cause,
                    .byte_len = sent.byte_len,
                    .wr_id = sent.wr_id});
}

void Endpoint::Received(const RecvCompletion& done) {
  Report(Completion{.recv = true,
                    .status = done.status,
                    .opcode = done.opcode,
                    .wc_flags = done.wc_flags,
                    .solicited = done.solicited,
                    .cause = done.cause,
                    .byte_len = done.byte_len,
                    .imm_or_key = done.imm_or_key,
                    .wr_id = done.wr_id});
}

void Endpoint::Flushed(const RecvCompletion& done) { Received(done); }

void Endpoint::Report(const Completion& completion) {
  completions_.push_back(completion);
  if (on_completion) on_completion(completion);
}

std::vector<Completion> Endpoint::TakeCompletions() {
  return std::exchange(completions_, {});
}

}  // namespace urnic::testing
