// The replay of an RC core (transport/rc/inputs.h).

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/sim/replay_run.h"
#include "transport/rc/image.h"
#include "transport/rc/inputs.h"
#include "transport/wire/pretty.h"
#include "transport/work/image_fields.h"

namespace urnic::sim {
namespace {

using rc::Input;

constexpr rc::RecoveryLimits kRecovery = {
    .held_packets = rc::kHoldSpan, .responders = 4, .requesters = 4};

Input Kind(const InputItem& item) { return static_cast<Input>(item.kind); }

uint32_t PaddedBytes(const InputItem& packet) {
  return packet.large + wire::PadOf(packet.large) + wire::kIcrcBytes;
}

// In this namespace, so that Difference() finds what follows.
struct SentPacket : rc::SentNow {
  explicit SentPacket(const rc::SentNow& sent) : SentNow(sent) {}
};

std::string TextOf(const SentPacket& sent) {
  std::vector<uint8_t> bytes(sent.headers, sent.headers + sent.header_bytes);
  bytes.resize(bytes.size() + sent.payload_bytes + sent.pad_bytes +
               wire::kIcrcBytes);
  wire::RocePacket packet;
  if (wire::ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()),
                      packet) != RxVerdict::kAccept) {
    return "malformed";
  }
  return wire::Pretty(packet);
}

bool Equal(const SentPacket& a, const SentPacket& b) {
  return a.payload_bytes == b.payload_bytes &&
         a.header_bytes == b.header_bytes && a.pad_bytes == b.pad_bytes &&
         a.from_responder == b.from_responder &&
         std::equal(a.headers, a.headers + a.header_bytes, b.headers);
}

class RcReplay final : public ReplayRun {
 public:
  using ReplayRun::ReplayRun;

  // For the core.
  void Complete(const RecvCompletion& done) { completed_.push_back(done); }
  void Count(RxVerdict verdict) {
    got_.verdicts.push_back(static_cast<uint8_t>(verdict));
  }

 private:
  absl::Status Begin(const InputItem& item) override;
  bool IsValidOwn(const InputItem& item) const override;
  bool IsCall(const InputItem& item) const override {
    return Kind(item) >= Input::kBurst && Kind(item) < Input::kSent;
  }
  absl::Status ApplyOwn(const InputItem& item) override;
  bool TakeOwn(const InputItem& item) override;
  absl::Status Do(const InputItem& call) override;
  void CompareOwn() override;
  void Tell(const InputItem& call) override;
  QpState state() const override { return core_->state(); }
  void CheckInvariants() const override { core_->CheckInvariants(); }

  absl::Status ApplyWords(const InputItem& item);
  absl::Status AddPacket(const InputItem& item);
  void DoBurst(const InputItem& call);
  void Transmit(const InputItem& call, bool all);
  void MakeRoomForReads(uint32_t slots);

  RoceCounters counters_;
  rc::RecoveryPool pool_{kRecovery, &frames_, &counters_};
  cc::SharedPath path_;
  cc::PortRoom room_;
  std::vector<rc::SendRecord> records_;
  std::vector<rc::ReplaySlot> slots_;
  std::unique_ptr<rc::Qp> core_;

  std::vector<RxPacket> packets_;
  RxPacket due_[kRunMax];
  uint32_t due_count_ = 0;
  // Of the call that runs.
  std::vector<SentPacket> logged_packets_;
  std::vector<SentPacket> got_packets_;
};

absl::Status RcReplay::Begin(const InputItem& item) {
  const auto image =
      item.body.subspan(std::min(sizeof(CallNow), item.body.size()));
  ImageShape shape;
  ImageRefusal refusal = ReadImageShape(image, shape);
  if (!refusal.ok()) return Refused(refusal);
  MakeRings(shape);
  records_.resize(shape.sq_entries);
  slots_.resize(shape.replay_slots);
  core_ =
      std::make_unique<rc::Qp>(shape.limits, sends_->view(), records_, slots_,
                               &receive_queue_->queue(), &keys_, &pool_);
  core_->Join(&path_);
  refusal = rc::ReadImage(image, now_, *core_);
  if (!refusal.ok()) return Refused(refusal);
  core_->Grant(0);  // what is under way counts on the path
  // One that has no path yet joins it by a call.
  if (core_->state() < QpState::kRts) core_->Join(nullptr);
  Say(absl::StrCat("queue pair 0x", absl::Hex(qpn_), ", peer 0x",
                   absl::Hex(core_->config().dest_qpn), ": ",
                   kQpStateNames[static_cast<int>(core_->state())]));
  return absl::OkStatus();
}

bool RcReplay::IsValidOwn(const InputItem& item) const {
  switch (Kind(item)) {
    case Input::kPacket:
      return item.large <= wire::kRoceMaxBytes &&
             item.body.size() <= item.large;
    case Input::kModify:
      return IsTargetState(item.small);
    case Input::kReplaySlots:
      return item.large == 0 || (item.large <= rc::kReplaySlots &&
                                 std::has_single_bit(item.large));
    case Input::kSent:
      return item.As<rc::SentNow>().header_bytes <= kMaxHeaderBytes;
    default:
      return Kind(item) <= Input::kSent;
  }
}

absl::Status RcReplay::AddPacket(const InputItem& item) {
  RxPacket packet;
  uint8_t* const bytes =
      frames_.Add(std::max<size_t>(PaddedBytes(item), item.body.size()));
  std::ranges::copy(item.body, bytes);
  // The log has neither padding nor ICRC.
  if (wire::ParseRoce(bytes, PaddedBytes(item), packet) != RxVerdict::kAccept)
    return Damaged("a packet is malformed");
  if (packets_.size() == kRunMax) return Damaged("a burst is too long");
  packet.framing = static_cast<wire::Framing>(item.small);
  packet.buffer = bytes;
  packets_.push_back(packet);
  return absl::OkStatus();
}

absl::Status RcReplay::ApplyWords(const InputItem& item) {
  rc::PathNow now(path_);
  std::span<const uint8_t> rest = item.body;
  for (; rest.size() >= sizeof(rc::WordNow);
       rest = rest.subspan(sizeof(rc::WordNow))) {
    rc::WordNow word;
    std::memcpy(&word, rest.data(), sizeof(word));
    if (word.index >= std::size(now.words))
      return Damaged("a word is not of the path");
    now.words[word.index] = word.value;
  }
  now.Restore(path_, room_);
  return absl::OkStatus();
}

absl::Status RcReplay::ApplyOwn(const InputItem& item) {
  switch (Kind(item)) {
    case Input::kPath:
      item.As<rc::PathNow>().Restore(path_, room_);
      return absl::OkStatus();
    case Input::kPathWords:
      return ApplyWords(item);
    case Input::kPacket:
      return AddPacket(item);
    default:
      return Damaged(absl::StrCat("item ", item.kind, " is not expected here"));
  }
}

bool RcReplay::TakeOwn(const InputItem& item) {
  if (Kind(item) != Input::kSent) return false;
  logged_packets_.emplace_back(item.As<rc::SentNow>());
  return true;
}

// --- Calls -------------------------------------------------------------------

void RcReplay::DoBurst(const InputItem& call) {
  const std::span<const RxPacket> burst =
      call.small != 0 ? std::span<const RxPacket>(due_, due_count_) : packets_;
  if (call.small == 0) stats_.received += burst.size();
  core_->OnBurst(burst, now_, *this);
  for (const uint64_t value : logged_.originals) SetOriginal(value);
  for (const InputItem& fault : logged_.faults) {
    if (const Placement* const found = FindFault(fault)) {
      core_->OnPlacementFault(*found, completed_);
    } else {
      Differ("a placement that failed did not come about");
    }
  }
  got_.result = core_->Settle(completed_, *this);
  for (size_t i = 0; i < burst.size() && i < got_.verdicts.size(); ++i) {
    Say(absl::StrCat(call.small != 0 ? "due       " : "received  ",
                     wire::Pretty(burst[i]), "  ",
                     kRxVerdictNames[got_.verdicts[i]]));
  }
  ForgetBurst();
  // As the engine does, after each burst.
  due_count_ = core_->TakeDue(due_);
}

void RcReplay::Transmit(const InputItem& call, bool all) {
  const uint32_t room = std::min<uint32_t>(call.large, 4096);
  std::vector<TxSlot> slots(room);
  std::vector<uint8_t> headers(size_t{room} * kMaxHeaderBytes);
  for (uint32_t i = 0; i < room; ++i)
    slots[i].headers = &headers[size_t{i} * kMaxHeaderBytes];
  const uint32_t count =
      all ? core_->Transmit(now_, slots) : core_->TransmitResponses(slots);
  for (const TxSlot& slot : std::span(slots).first(count))
    got_packets_.emplace_back(rc::SentNow(slot));
}

void RcReplay::MakeRoomForReads(uint32_t slots) {
  if (slots <= core_->replay_capacity()) return;
  std::vector<rc::ReplaySlot> larger(slots);
  core_->MoveReplayTo(larger);
  slots_ = std::move(larger);
}

absl::Status RcReplay::Do(const InputItem& call) {
  const auto config = [&] { return call.As<rc::ConfigNow>().config; };
  switch (Kind(call)) {
    case Input::kBurst:
      DoBurst(call);
      break;
    case Input::kMarked:
      if (!packets_.empty()) core_->OnMarked(packets_.back(), now_);
      break;
    case Input::kCnp:
      (void)core_->OnCnp(now_);
      break;
    case Input::kTimer:
      got_.result = core_->OnTimer(now_, *this);
      break;
    case Input::kOutage:
      core_->OnOutage();
      break;
    case Input::kTransmit:
      Transmit(call, /*all=*/true);
      break;
    case Input::kTransmitResponses:
      Transmit(call, /*all=*/false);
      break;
    case Input::kGatherFault: {
      TxSlot slot;
      slot.from_responder = call.small != 0;
      slot.origin = call.large;
      core_->OnGatherFault(slot);
      break;
    }
    case Input::kSettle:
      got_.result = core_->Settle({}, *this);
      break;
    case Input::kGrant:
      core_->Grant(call.large);
      break;
    case Input::kModify:
      core_->Modify(static_cast<QpState>(call.small), config());
      break;
    case Input::kReconfigure:
      core_->Reconfigure(config());
      break;
    case Input::kJoin:
      core_->Join(call.small != 0 ? &path_ : nullptr);
      break;
    default:
      MakeRoomForReads(call.large);
  }
  packets_.clear();
  return absl::OkStatus();
}

void RcReplay::CompareOwn() {
  for (const SentPacket& sent : got_packets_) Say("sent      " + TextOf(sent));
  stats_.sent += got_packets_.size();
  const auto difference = Difference("packet", logged_packets_, got_packets_);
  if (!difference.empty()) Differ(difference);
  logged_packets_.clear();
  got_packets_.clear();
}

void RcReplay::Tell(const InputItem& call) {
  if (!talks()) return;
  switch (Kind(call)) {
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

}  // namespace

std::unique_ptr<ReplayRun> MakeRcReplay(uint32_t qpn, ReplayStats& stats,
                                        const ReplayListener& say) {
  return std::make_unique<RcReplay>(qpn, stats, say);
}

}  // namespace urnic::sim
