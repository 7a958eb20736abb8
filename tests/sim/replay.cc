#include "tests/sim/replay.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/replay_items.h"
#include "tests/support/fake_rings.h"
#include "transport/base/lessor.h"
#include "transport/rc/image.h"
#include "transport/rc/inputs.h"
#include "transport/wire/pretty.h"
#include "transport/work/image_fields.h"

namespace urnic::sim {
namespace {

using rc::Input;
using testing::FakeRing;

constexpr rc::RecoveryLimits kRecovery = {
    .held_packets = rc::kHoldSpan, .responders = 4, .requesters = 4};
constexpr uint32_t kReceivesMax = 128;
static_assert(kReceivesMax >= kRunMax + 1 + rc::kGapMax);
constexpr uint32_t kReceiveStride =
    sizeof(urnic_rq_wqe) + URNIC_MAX_SGE * sizeof(urnic_sge);
constexpr uint32_t kSendStride =
    sizeof(urnic_sq_wqe) +
    std::max<uint32_t>(URNIC_MAX_INLINE, URNIC_MAX_SGE * sizeof(urnic_sge)) +
    URNIC_ABI_LINE;
constexpr size_t kKeys = 65536;

bool IsCall(const InputItem& item) {
  return KindOfItem(item) >= Input::kBurst &&
         KindOfItem(item) < Input::kVerdict;
}

uint32_t PaddedBytes(const InputItem& packet) {
  return packet.large + wire::PadOf(packet.large) + wire::kIcrcBytes;
}

// Frames that packets were received in. None is ever freed before the end.
class Frames final : public FrameKeeper {
 public:
  uint8_t* Make(const InputItem& item) {
    auto& bytes = frames_.emplace_back(
        std::max<size_t>(PaddedBytes(item), item.body.size()));
    std::ranges::copy(item.body, bytes.begin());
    return bytes.data();
  }
  uint32_t Keep(const ReceivedFrame&, FrameHolder& holder) override {
    if (holder.kept >= holder.limit) return kRefused;
    ++holder.kept;
    return ++last_;
  }
  void Release(uint32_t, FrameHolder& holder) override { --holder.kept; }

 private:
  std::vector<std::vector<uint8_t>> frames_;
  uint32_t last_ = 0;
};

// One segment.
class Run {
 public:
  Run(uint32_t qpn, ReplayStats& stats, const ReplayListener& say)
      : qpn_(qpn), stats_(stats), say_(say) {}

  absl::Status Replay(std::span<const InputItem> items);

  // --- For the core ----------------------------------------------------------

  void Place(const Placement& placement) { placements_.push_back(placement); }
  void Complete(const RecvCompletion& done) { receives_.push_back(done); }
  void Count(RxVerdict verdict) {
    got_.verdicts.push_back(static_cast<uint8_t>(verdict));
  }
  void Sent(const SendCompletion& done) { got_.sends.push_back(done); }
  void Received(const RecvCompletion& done) { got_.receives.push_back(done); }
  void Flushed(const RecvCompletion&) {}

 private:
  // What came of a call.
  struct Outcome {
    std::vector<uint8_t> verdicts;
    std::vector<rc::SentNow> packets;
    std::vector<SendCompletion> sends;
    std::vector<RecvCompletion> receives;
    std::optional<FlowResult> result;
  };
  struct Logged : Outcome {
    std::vector<InputItem> faults;
    std::vector<uint64_t> originals;
    rc::ResultNow end;
  };

  absl::Status Begin(const InputItem& image);
  // Of what stands before a call.
  absl::Status Apply(const InputItem& item);
  absl::Status AddPacket(const InputItem& item);
  void AddReceive(const InputItem& item);
  // The outcome in the log, up to its end; none: the log ends before.
  std::optional<Logged> ReadOutcome(std::span<const InputItem>& items);
  void Do(const InputItem& call, const Logged& logged);
  void DoBurst(const InputItem& call, const Logged& logged);
  void Transmit(const InputItem& call, bool all);
  void Compare(const Logged& logged);
  void Differ(const std::string& what);
  void Tell(const InputItem& call) const;
  std::string SinceBegin(int64_t ns) const;
  void Say(const std::string& what) const;

  const uint32_t qpn_;
  ReplayStats& stats_;
  const ReplayListener& say_;

  LocalLessor lessor_;
  std::vector<mem::MemoryRegion> storage_ =
      std::vector<mem::MemoryRegion>(kKeys);
  mem::MrTable keys_{storage_, &lessor_, NumberKey{}};
  Frames frames_;
  RoceCounters counters_;
  rc::RecoveryPool pool_{kRecovery, &frames_, &counters_};
  cc::SharedPath path_;
  cc::PortRoom room_;

  std::unique_ptr<FakeRing> sends_;
  std::unique_ptr<FakeRing> receives_ring_;
  std::unique_ptr<testing::OwnRecvQueue> receive_queue_;
  std::vector<rc::SendRecord> records_;
  std::vector<rc::ReplaySlot> slots_;
  std::unique_ptr<rc::Qp> core_;

  int64_t begin_ns_ = 0;
  Time now_;
  uint32_t receives_posted_ = 0;
  std::vector<RxPacket> packets_;
  RxPacket due_[kRunMax];
  uint32_t due_count_ = 0;
  // Of the call that runs.
  Outcome got_;
  std::vector<Placement> placements_;
  std::vector<RecvCompletion> receives_;
};

std::string Run::SinceBegin(int64_t ns) const {
  char text[40];
  std::snprintf(text, sizeof(text), "%+13.3f us",
                static_cast<double>(ns - begin_ns_) / 1e3);
  return text;
}

void Run::Say(const std::string& what) const {
  if (!say_) return;
  say_(absl::StrCat(SinceBegin(now_.ns()), " #", stats_.calls, "  ", what));
}

absl::Status Run::Begin(const InputItem& item) {
  const auto call = item.As<rc::CallNow>();
  begin_ns_ = call.ns;
  now_ = Time::FromNs(call.ns);
  const auto image =
      item.body.subspan(std::min(sizeof(call), item.body.size()));
  ImageShape shape;
  const ImageRefusal shape_refusal = ReadImageShape(image, shape);
  if (!shape_refusal.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its image is refused: ", shape_refusal.Text()));
  }
  const QpLimits& limits = shape.limits;
  // At least as long as those of any program.
  sends_ = std::make_unique<FakeRing>(shape.sq_entries, kSendStride);
  receives_ring_ = std::make_unique<FakeRing>(kReceivesMax, kReceiveStride);
  receive_queue_ = std::make_unique<testing::OwnRecvQueue>(
      receives_ring_->view(), limits.max_sge_recv, shape.shared_receives,
      limits.pd);
  if (shape.shared_receives)
    receive_queue_->queue().Use(&receive_queue_->ring());
  records_.resize(shape.sq_entries);
  slots_.resize(shape.replay_slots);
  core_ = std::make_unique<rc::Qp>(limits, sends_->view(), records_, slots_,
                                   &receive_queue_->queue(), &keys_, &pool_);
  core_->Join(&path_);
  const ImageRefusal refusal = rc::ReadImage(image, now_, *core_);
  if (!refusal.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its image is refused: ", refusal.Text()));
  }
  core_->Grant(0);  // what is under way counts on the path
  // One that has no path yet joins it by a call.
  if (core_->state() < QpState::kRts) core_->Join(nullptr);
  Say(absl::StrCat("queue pair 0x", absl::Hex(qpn_), ", peer 0x",
                   absl::Hex(core_->config().dest_qpn), ": ",
                   kQpStateNames[static_cast<int>(core_->state())]));
  return absl::OkStatus();
}

absl::Status Run::AddPacket(const InputItem& item) {
  RxPacket packet;
  uint8_t* const bytes = frames_.Make(item);
  // The log has neither padding nor ICRC.
  if (wire::ParseRoce(bytes, PaddedBytes(item), packet) != RxVerdict::kAccept) {
    return absl::InvalidArgumentError("a packet is malformed");
  }
  if (packets_.size() == kRunMax)
    return absl::InvalidArgumentError("a burst is too long");
  packet.framing = static_cast<wire::Framing>(item.small);
  packet.buffer = bytes;
  packets_.push_back(packet);
  return absl::OkStatus();
}

void Run::AddReceive(const InputItem& item) {
  if (receives_posted_ == kReceivesMax) return;
  const size_t bytes = std::min<size_t>(item.body.size(), kReceiveStride);
  std::memcpy(receives_ring_->entry(receives_posted_), item.body.data(), bytes);
  receives_ring_->indices().producer = ++receives_posted_;
}

absl::Status Run::Apply(const InputItem& item) {
  switch (KindOfItem(item)) {
    case Input::kPath:
      item.As<rc::PathNow>().Restore(path_, room_);
      return absl::OkStatus();
    case Input::kPathWords: {
      rc::PathNow now(path_);
      std::span<const uint8_t> rest = item.body;
      for (; rest.size() >= sizeof(rc::WordNow);
           rest = rest.subspan(sizeof(rc::WordNow))) {
        rc::WordNow word;
        std::memcpy(&word, rest.data(), sizeof(word));
        if (word.index >= std::size(now.words))
          return absl::InvalidArgumentError("a word is not of the path");
        now.words[word.index] = word.value;
      }
      now.Restore(path_, room_);
      return absl::OkStatus();
    }
    case Input::kKey:
      return keys_.Restore(item.As<mem::MemoryRegion>())
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("it has too many keys");
    case Input::kKeyGone:
      keys_.Remove(MrKey{item.large});
      return absl::OkStatus();
    case Input::kRequest: {
      const WorkQueueView ring = sends_->view();
      if (item.body.size() > ring.BytesOf(0).size())
        return absl::InvalidArgumentError("a request is too long");
      std::memcpy(sends_->entry(item.large), item.body.data(),
                  item.body.size());
      return absl::OkStatus();
    }
    case Input::kNoReceives:
      receives_posted_ = 0;
      receives_ring_->indices() = {};
      receive_queue_->ring().ReplaceView(receives_ring_->view());
      return absl::OkStatus();
    case Input::kReceive:
      AddReceive(item);
      return absl::OkStatus();
    case Input::kPacket:
      return AddPacket(item);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("item ", item.kind, " is not expected here"));
  }
}

std::optional<Run::Logged> Run::ReadOutcome(std::span<const InputItem>& items) {
  Logged out;
  while (!items.empty()) {
    const InputItem item = items.front();
    items = items.subspan(1);
    switch (KindOfItem(item)) {
      case Input::kVerdict:
        out.verdicts.push_back(item.small);
        break;
      case Input::kFault:
        out.faults.push_back(item);
        break;
      case Input::kOriginal:
        out.originals.push_back(item.As<uint64_t>());
        break;
      case Input::kSent:
        out.packets.push_back(item.As<rc::SentNow>());
        break;
      case Input::kSendDone:
        out.sends.push_back(item.As<SendCompletion>());
        break;
      case Input::kReceiveDone:
        out.receives.push_back(item.As<RecvCompletion>());
        break;
      case Input::kRequest:  // posted while the call ran
        std::memcpy(sends_->entry(item.large), item.body.data(),
                    std::min(item.body.size(),
                             sends_->view().BytesOf(item.large).size()));
        break;
      case Input::kKey:
        (void)keys_.Restore(item.As<mem::MemoryRegion>());
        break;
      case Input::kResult:
        out.end = item.As<rc::ResultNow>();
        return out;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

void Run::DoBurst(const InputItem& call, const Logged& logged) {
  const std::span<const RxPacket> burst =
      call.small != 0 ? std::span<const RxPacket>(due_, due_count_) : packets_;
  if (call.small == 0) stats_.received += burst.size();
  core_->OnBurst(burst, now_, *this);
  size_t original = 0;
  for (const Placement& placement : placements_) {
    if (placement.kind == Placement::Kind::kCopy) continue;
    if (original < logged.originals.size())
      *placement.original = logged.originals[original++];
  }
  for (const InputItem& fault : logged.faults) {
    const auto target = fault.As<uint64_t>();
    const auto found =
        std::ranges::find_if(placements_, [&](const Placement& placement) {
          return placement.from_responder == (fault.small != 0) &&
                 placement.packet == fault.medium && placement.target == target;
        });
    if (found == placements_.end())
      Differ("a placement that failed did not come about");
    else
      core_->OnPlacementFault(*found, receives_);
  }
  got_.result = core_->Settle(receives_, *this);
  for (size_t i = 0; i < burst.size() && i < got_.verdicts.size(); ++i) {
    Say(absl::StrCat(call.small != 0 ? "due       " : "received  ",
                     wire::Pretty(burst[i]), "  ",
                     kRxVerdictNames[got_.verdicts[i]]));
  }
  // As the engine does, after each burst.
  due_count_ = core_->TakeDue(due_);
}

void Run::Transmit(const InputItem& call, bool all) {
  const uint32_t room = std::min<uint32_t>(call.large, 4096);
  std::vector<TxSlot> slots(room);
  std::vector<uint8_t> headers(size_t{room} * kMaxHeaderBytes);
  for (uint32_t i = 0; i < room; ++i)
    slots[i].headers = &headers[size_t{i} * kMaxHeaderBytes];
  const uint32_t count =
      all ? core_->Transmit(now_, slots) : core_->TransmitResponses(slots);
  for (const TxSlot& slot : std::span(slots).first(count))
    got_.packets.emplace_back(slot);
}

void Run::Do(const InputItem& call, const Logged& logged) {
  sends_->indices().producer = logged.end.sq_producer;
  const auto config = [&] { return call.As<rc::ConfigNow>().config; };
  switch (KindOfItem(call)) {
    case Input::kBurst:
      return DoBurst(call, logged);
    case Input::kMarked:
      if (!packets_.empty()) core_->OnMarked(packets_.back(), now_);
      return;
    case Input::kCnp:
      (void)core_->OnCnp(now_);
      return;
    case Input::kTimer:
      got_.result = core_->OnTimer(now_, *this);
      return;
    case Input::kOutage:
      return core_->OnOutage();
    case Input::kTransmit:
      return Transmit(call, /*all=*/true);
    case Input::kTransmitResponses:
      return Transmit(call, /*all=*/false);
    case Input::kGatherFault: {
      TxSlot slot;
      slot.from_responder = call.small != 0;
      slot.origin = call.large;
      return core_->OnGatherFault(slot);
    }
    case Input::kSettle:
      got_.result = core_->Settle({}, *this);
      return;
    case Input::kGrant:
      return core_->Grant(call.large);
    case Input::kModify:
      return core_->Modify(static_cast<QpState>(call.small), config());
    case Input::kReconfigure:
      return core_->Reconfigure(config());
    case Input::kJoin:
      return core_->Join(call.small != 0 ? &path_ : nullptr);
    case Input::kReplaySlots:
      if (call.large > core_->replay_capacity()) {
        std::vector<rc::ReplaySlot> larger(call.large);
        core_->MoveReplayTo(larger);
        slots_ = std::move(larger);
      }
      return;
    default:
      return;
  }
}

void Run::Differ(const std::string& what) {
  if (stats_.differs_at != 0) return;
  stats_.differs_at = stats_.calls;
  stats_.difference = what;
  Say("DIFFERS   " + what);
}

void Run::Compare(const Logged& logged) {
  for (const std::string& difference :
       {Difference("verdict", logged.verdicts, got_.verdicts),
        Difference("packet", logged.packets, got_.packets),
        Difference("completion", logged.sends, got_.sends),
        Difference("completion", logged.receives, got_.receives)}) {
    if (!difference.empty()) Differ(difference);
  }
  if (logged.end.state != core_->state()) {
    Differ(absl::StrCat(
        "the state was ", kQpStateNames[static_cast<int>(logged.end.state)],
        ", and is ", kQpStateNames[static_cast<int>(core_->state())]));
  }
  if (got_.result && got_.result->deadline.ns() != logged.end.deadline_ns) {
    Differ(absl::StrCat("the timer was due at ",
                        SinceBegin(logged.end.deadline_ns), ", and is at ",
                        SinceBegin(got_.result->deadline.ns())));
  }
}

void Run::Tell(const InputItem& call) const {
  if (!say_) return;
  switch (KindOfItem(call)) {
    case Input::kTimer:
      Say("timer");
      break;
    case Input::kCnp:
      Say("received  CNP");
      break;
    case Input::kOutage:
      Say("outage");
      break;
    case Input::kModify:
      Say(absl::StrCat("modify to ", kQpStateNames[call.small]));
      break;
    case Input::kGrant:
      Say(absl::StrCat("granted   ", call.large, " packets"));
      break;
    case Input::kTransmit:
      Say(absl::StrCat("may send  ", call.large, " packets; under way ",
                       path_.under_way, ", window ", path_.cc.window()));
      break;
    case Input::kGatherFault:
      Say("memory of a packet is not mapped");
      break;
    default:
      break;
  }
}

absl::Status Run::Replay(std::span<const InputItem> items) {
  if (items.empty() || KindOfItem(items.front()) != Input::kImage)
    return absl::InvalidArgumentError("a segment has no image");
  if (const auto bad = std::ranges::find_if_not(items, IsValid);
      bad != items.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "item ", bad - items.begin() + 1, " of a segment, of kind ", bad->kind,
        ", has an impossible value"));
  }
  const absl::Status begun = Begin(items.front());
  if (!begun.ok()) return begun;
  items = items.subspan(1);
  while (!items.empty()) {
    const InputItem item = items.front();
    items = items.subspan(1);
    if (!IsCall(item)) {
      const absl::Status applied = Apply(item);
      if (!applied.ok()) return applied;
      continue;
    }
    const std::optional<Logged> logged = ReadOutcome(items);
    if (!logged) break;  // the log ended while this call ran
    ++stats_.calls;
    now_ = Time::FromNs(item.As<rc::CallNow>().ns);
    got_ = {};
    placements_.clear();
    receives_.clear();
    Tell(item);
    Do(item, *logged);
    packets_.clear();
    for (const rc::SentNow& sent : got_.packets)
      Say("sent      " + TextOf(sent));
    for (const SendCompletion& done : got_.sends) {
      Say("completed " + TextOf(done));
      stats_.errors += done.status != URNIC_WC_SUCCESS;
    }
    for (const RecvCompletion& done : got_.receives) {
      Say("completed " + TextOf(done));
      stats_.errors += done.status != URNIC_WC_SUCCESS;
    }
    stats_.sent += got_.packets.size();
    stats_.completions += got_.sends.size() + got_.receives.size();
    core_->CheckInvariants();
    Compare(*logged);
    if (stats_.differs_at != 0) break;
  }
  Say(absl::StrCat("end: ", kQpStateNames[static_cast<int>(core_->state())]));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayStats> Replay(const ParsedInputLog& log,
                                   const ReplayListener& say) {
  if (log.layout != rc::kInputLayout)
    return absl::InvalidArgumentError(
        "it was written by another version of uRNIC");
  if (log.segments.empty())
    return absl::InvalidArgumentError("nothing was logged");
  ReplayStats stats;
  for (const auto& segment : log.segments) {
    const auto run = std::make_unique<Run>(log.qpn, stats, say);
    const absl::Status done = run->Replay(segment);
    if (!done.ok()) return done;
    if (stats.differs_at != 0) break;
  }
  return stats;
}

}  // namespace urnic::sim
