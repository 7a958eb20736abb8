// The replay of a queue pair of iWARP, with its connection
// (transport/iwarp/qp/inputs.h).

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "tests/sim/replay_run.h"
#include "transport/iwarp/qp/copy_keeper.h"
#include "transport/iwarp/qp/image.h"
#include "transport/iwarp/qp/inputs.h"
#include "transport/iwarp/rdmap/image.h"
#include "transport/work/image_fields.h"

namespace urnic::sim {
namespace {

using iwarp::Input;

// More than any connection takes.
constexpr uint32_t kBlocks = 512;
constexpr uint32_t kRanges = 4 * tcp::ConnectionConfig::kMaxFrames;
constexpr uint32_t kEarly = 4 * iwarp::EarlyFpdus::kMax;
constexpr uint32_t kParts = 4 * mpa::Delimiter::kMaxHeldSegments;
constexpr uint32_t kFpdus = 1u << 16;
constexpr uint32_t kKeptMax = 1u << 14;
constexpr uint32_t kSlotsMax = 4096;

constexpr const char* kEventNames[] = {
    "none",   "request",     "connected", "rejected", "retry with revision 1",
    "failed", "disconnected"};

Input Kind(const InputItem& item) { return static_cast<Input>(item.kind); }

// A segment that was sent, without its payload.
struct SentSegment {
  SentSegment(const iwarp::SentNow& now, uint32_t payload_bytes, bool is_ect)
      : sent(now), bytes(payload_bytes), ect(is_ect) {}
  iwarp::SentNow sent;
  uint32_t bytes;
  bool ect;
};

// False: it is not a header of TCP.
bool ParseHeader(std::span<const uint8_t> bytes, wire::TcpSegment& out) {
  wire::FrameView view;
  view.payload = bytes.data();
  view.payload_bytes = static_cast<uint32_t>(bytes.size());
  return wire::ParseTcp(view, /*checksum_verified=*/true, out) ==
         RxVerdict::kAccept;
}

std::string TextOf(const wire::TcpSegment& segment, size_t bytes) {
  std::string flags;
  constexpr std::pair<uint8_t, char> kFlags[] = {
      {wire::kTcpSyn, 'S'}, {wire::kTcpFin, 'F'}, {wire::kTcpRst, 'R'},
      {wire::kTcpPsh, 'P'}, {wire::kTcpAck, 'A'}, {wire::kTcpEce, 'E'},
      {wire::kTcpCwr, 'W'}};
  for (const auto& [flag, letter] : kFlags) {
    if (segment.Has(flag)) flags += letter;
  }
  std::string text =
      absl::StrCat(flags, " seq ", segment.seq.value(), " ack ",
                   segment.ack.value(), " window ", segment.window);
  for (const wire::SackBlock& block : segment.options.sacks()) {
    absl::StrAppend(&text, " sack ", block.begin.value(), "-",
                    block.end.value());
  }
  return absl::StrCat(text, " ", bytes, " bytes");
}

std::string TextOf(const SentSegment& sent) {
  wire::TcpSegment segment;
  if (!ParseHeader({sent.sent.header, sent.sent.header_bytes}, segment))
    return "malformed";
  return absl::StrCat(TextOf(segment, sent.bytes), ", from ",
                      absl::Hex(sent.sent.source), "+", sent.sent.offset,
                      sent.ect ? ", ECT" : "");
}

bool Equal(const SentSegment& a, const SentSegment& b) {
  return a.bytes == b.bytes && a.ect == b.ect &&
         a.sent.source == b.sent.source && a.sent.offset == b.sent.offset &&
         a.sent.header_bytes == b.sent.header_bytes &&
         std::equal(a.sent.header, a.sent.header + a.sent.header_bytes,
                    b.sent.header);
}

std::string HexOf(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes)
    absl::StrAppend(&text, absl::Hex(byte, absl::kZeroPad2));
  return text;
}

class IwarpReplay final : public ReplayRun {
 public:
  using ReplayRun::ReplayRun;

  // For the core. In the program, the engine had no more room.
  void Complete(const RecvCompletion& done) {
    while (!deliveries_.empty() && deliveries_.front().after == completed_now_)
      DeliverFirst();
    ++completed_now_;
    completed_.push_back(done);
  }

 private:
  // In the middle of a segment.
  struct Delivery {
    uint32_t after = 0;  // so many receives were completed
    std::vector<InputItem> faults;
  };
  // What all connections of an engine share.
  struct Pools {
    tcp::SegmentSlab segments{kBlocks};
    tcp::RangePool ranges{kRanges};
    tcp::ChallengeBudget challenges{NumberKey{}, 1};
    mpa::HeldPieces pieces{kParts};
    iwarp::EarlyPool early{kEarly};
    iwarp::CopyKeeper fpdus{kFpdus};
  };

  absl::Status Begin(const InputItem& item) override;
  // The rest, when the rings have what the image refers to.
  absl::Status BeginNow();
  bool IsValidOwn(const InputItem& item) const override;
  bool IsCall(const InputItem& item) const override {
    return Kind(item) >= Input::kSegment && Kind(item) < Input::kSent;
  }
  absl::Status ApplyOwn(const InputItem& item) override;
  bool TakeOwn(const InputItem& item) override;
  absl::Status Do(const InputItem& call) override;
  void CompareOwn() override;
  void Tell(const InputItem& call) override;
  QpState state() const override {
    return qp_ == nullptr ? QpState::kReset : qp_->state();
  }
  void CheckInvariants() const override { qp_->CheckInvariants(); }

  void SetPools(const iwarp::PoolsNow& now);
  void SetChallenges(uint32_t left) {
    pools_->challenges.SetLeft(now_, left);
    challenges_at_ = now_;
  }
  void Fail(const InputItem& fault);
  void DeliverFirst();
  absl::Status DoOfEndpoint(const InputItem& call);
  absl::Status OnSegment(const InputItem& call);
  void Transmit(const InputItem& call);
  absl::Status Write(const InputItem& call);
  void Settle();
  absl::Status Modify(const InputItem& call);
  void TakeEvent(const InputItem& call);

  std::span<const uint8_t> image_;
  iwarp::BeginNow begin_;
  bool begun_ = false;
  std::vector<rdmap::SendRecord> records_;
  std::vector<rdmap::Answer> answers_;
  std::unique_ptr<rdmap::Qp> qp_;
  const std::unique_ptr<Pools> pools_ = std::make_unique<Pools>();
  Time challenges_at_;
  std::vector<iwarp::KeptFpdu> kept_;
  std::unique_ptr<iwarp::Endpoint> endpoint_;
  std::vector<tcp::TcpSlot> slots_;  // of the last Transmit()
  size_t written_ = 0;

  // Of the call that runs.
  std::vector<Delivery> deliveries_;
  uint32_t completed_now_ = 0;
  std::vector<SentSegment> logged_sent_;
  std::vector<SentSegment> got_sent_;
  std::vector<uint8_t> logged_head_;
  std::vector<uint8_t> got_head_;
  uint32_t failing_read_ = 0;  // from 1; 0: none
};

// --- The beginning -----------------------------------------------------------

absl::Status IwarpReplay::Begin(const InputItem& item) {
  begin_ = item.As<iwarp::BeginNow>();
  image_ = item.body.subspan(std::min(sizeof(begin_), item.body.size()));
  ImageKind kind = ImageKind::kIwarp;
  ImageRefusal refusal = ReadImageKind(image_, kind);
  if (!refusal.ok()) return Refused(refusal);
  std::optional<ImageShape> shape;
  refusal = kind == ImageKind::kIwarp ? iwarp::ReadImageShape(image_, shape)
                                      : ReadImageShape(image_, shape.emplace());
  if (!refusal.ok()) return Refused(refusal);
  if (!shape.has_value() ||
      (kind != ImageKind::kIwarp && kind != ImageKind::kIwarpQp)) {
    return Damaged("its image has no queue pair of iWARP");
  }
  MakeRings(*shape);
  records_.resize(shape->sq_entries);
  answers_.resize(std::bit_ceil(shape->replay_slots));
  qp_ = std::make_unique<rdmap::Qp>(
      shape->limits, sends_->view(), records_, &receive_queue_->queue(),
      shape->replay_slots == 0 ? std::span<rdmap::Answer>() : answers_, &keys_);
  if (kind == ImageKind::kIwarpQp) return absl::OkStatus();
  if (begin_.kept_limit > kKeptMax || !std::has_single_bit(begin_.kept_limit))
    return Damaged("it keeps an impossible number of FPDUs");
  kept_.resize(begin_.kept_limit);
  endpoint_ = std::make_unique<iwarp::Endpoint>(
      iwarp::EndpointPools{.segments = &pools_->segments,
                           .ranges = &pools_->ranges,
                           .challenges = &pools_->challenges,
                           .frames = &frames_,
                           .pieces = &pools_->pieces,
                           .fpdus = &pools_->fpdus,
                           .early = &pools_->early},
      kept_);
  return absl::OkStatus();
}

absl::Status IwarpReplay::BeginNow() {
  if (std::exchange(begun_, true)) return absl::OkStatus();
  sends_->indices().producer = begin_.sq_end;
  receives_ring_->indices().producer = begin_.receive_head;
  const ImageRefusal refusal =
      endpoint_ == nullptr
          ? rdmap::InsertImage(image_, now_, *qp_)
          : iwarp::InsertImage(
                image_, now_,
                {.tuple = begin_.tuple, .frames = &frames_, .qp = qp_.get()},
                *endpoint_);
  if (!refusal.ok()) return Refused(refusal);
  // What others have posted to a ring that it shares is not known.
  receives_ring_->indices() = {};
  receive_queue_->ring().ReplaceView(receives_ring_->view());
  Say(absl::StrCat(
      "queue pair 0x", absl::Hex(qpn_), " of iWARP, ",
      endpoint_ == nullptr ? "no connection: " : "with a connection: ",
      kQpStateNames[static_cast<int>(state())]));
  return absl::OkStatus();
}

// --- Items -------------------------------------------------------------------

bool IwarpReplay::IsValidOwn(const InputItem& item) const {
  switch (Kind(item)) {
    case Input::kSegment:
      return item.large >= sizeof(wire::Tcp) &&
             item.large <= wire::kTcpMaxHeaderBytes &&
             item.body.size() >= sizeof(iwarp::SegmentNow);
    case Input::kTransmit:
      return item.large <= kSlotsMax;
    case Input::kModify:
      return item.small == static_cast<uint8_t>(QpState::kReset) ||
             item.small == static_cast<uint8_t>(QpState::kInit) ||
             item.small == static_cast<uint8_t>(QpState::kErr);
    case Input::kTakeEvent:
      return item.small < std::size(kEventNames);
    case Input::kSent:
      return item.As<iwarp::SentNow>().header_bytes <= wire::kTcpMaxHeaderBytes;
    case Input::kHead:
      return item.body.size() <= iwarp::kMaxHeadBytes;
    default:
      return Kind(item) <= Input::kDeliver;
  }
}

void IwarpReplay::SetPools(const iwarp::PoolsNow& now) {
  // Half is more than it takes in one call.
  pools_->pieces.SetLeftFor(
      endpoint_->delimiter(),
      {std::min(now.parts, kParts / 2), now.reserve_taken != 0});
  pools_->ranges.SetFree(std::min(now.ranges, kRanges / 2));
  pools_->early.SetFree(std::min(now.early, kEarly / 2));
  SetChallenges(now.challenges);
  frames_.SetFree(now.frames);
  pools_->fpdus.SetFree(now.fpdus);
}

absl::Status IwarpReplay::ApplyOwn(const InputItem& item) {
  const absl::Status begun = BeginNow();
  if (!begun.ok()) return begun;
  if (KindOfItem(item) == WorkInput::kOriginal) {
    SetOriginal(item.As<uint64_t>());
  } else if (KindOfItem(item) == WorkInput::kFault && endpoint_ != nullptr) {
    Fail(item);
  } else if (Kind(item) == Input::kPools && endpoint_ != nullptr) {
    SetPools(item.As<iwarp::PoolsNow>());
  } else {
    return Damaged(absl::StrCat("item ", item.kind, " is not expected here"));
  }
  return absl::OkStatus();
}

bool IwarpReplay::TakeOwn(const InputItem& item) {
  switch (Kind(item)) {
    case Input::kSent:
      logged_sent_.emplace_back(item.As<iwarp::SentNow>(), item.large,
                                item.small != 0);
      return true;
    case Input::kHead:
      logged_head_.assign(item.body.begin(), item.body.end());
      return true;
    case Input::kNoMemory:
      failing_read_ = item.large;
      return true;
    case Input::kDeliver:
      deliveries_.push_back({item.large, std::exchange(logged_.faults, {})});
      return true;
    default:
      return false;
  }
}

// --- Calls -------------------------------------------------------------------

void IwarpReplay::Fail(const InputItem& fault) {
  if (const Placement* const found = FindFault(fault)) {
    const Placement placement = *found;
    endpoint_->OnPlacementFault(placement, completed_);
  } else {
    Differ("a placement that failed did not come about");
  }
}

void IwarpReplay::DeliverFirst() {
  const Delivery delivery = std::move(deliveries_.front());
  deliveries_.erase(deliveries_.begin());
  for (const InputItem& fault : delivery.faults) Fail(fault);
  endpoint_->Deliver(std::exchange(completed_, {}), *this);
}

absl::Status IwarpReplay::OnSegment(const InputItem& call) {
  constexpr size_t kHead = sizeof(iwarp::SegmentNow);
  const auto head = call.As<iwarp::SegmentNow>();
  const auto payload = call.body.subspan(kHead);
  const size_t bytes = call.large + payload.size();
  uint8_t* const frame = frames_.Add(bytes);
  std::copy_n(head.header, call.large, frame);
  std::ranges::copy(payload, frame + call.large);
  wire::TcpSegment segment;
  if (!ParseHeader({frame, bytes}, segment))
    return Damaged("a segment is malformed");
  segment.congestion_experienced = call.small != 0;
  ++stats_.received;
  const RxVerdict verdict =
      endpoint_->OnSegment(segment, {{frame, bytes}, frame}, now_, *this);
  got_.verdicts.push_back(static_cast<uint8_t>(verdict));
  if (!deliveries_.empty())
    Differ("completions that were written in between did not come about");
  Say(absl::StrCat("received  ", TextOf(segment, segment.payload.size()), "  ",
                   kRxVerdictNames[static_cast<size_t>(verdict)]));
  return absl::OkStatus();
}

void IwarpReplay::Transmit(const InputItem& call) {
  slots_.assign(call.large, {});
  const uint32_t count = endpoint_->Transmit(now_, slots_);
  slots_.resize(count);
  written_ = 0;
  for (const tcp::TcpSlot& slot : slots_) {
    iwarp::SentNow sent = {.source = slot.source, .offset = slot.offset};
    sent.header_bytes = wire::WriteTcpHeader(slot.fields, sent.header);
    got_sent_.emplace_back(sent, slot.bytes, slot.ect);
  }
}

absl::Status IwarpReplay::Write(const InputItem& call) {
  if (call.medium != written_ || written_ == slots_.size())
    return Damaged("another segment is written than was sent");
  const tcp::TcpSlot& slot = slots_[written_++];
  std::vector<uint8_t> payload(slot.bytes);
  uint32_t reads = 0;
  // The program's memory is not known; nothing depends on it.
  const bool made = endpoint_->WritePayload(
      slot, payload, [&](uint64_t, std::span<uint8_t> to) {
        std::ranges::fill(to, uint8_t{0});
        return ++reads != failing_read_;
      });
  got_.returned = made;
  if (made) {
    const auto head =
        std::span(payload).first(iwarp::HeadBytes(*endpoint_, slot, payload));
    got_head_.assign(head.begin(), head.end());
  }
  return absl::OkStatus();
}

void IwarpReplay::Settle() {
  got_.result = endpoint_->Settle(completed_, *this);
  ForgetBurst();
}

void IwarpReplay::TakeEvent(const InputItem& call) {
  const auto event = static_cast<uint8_t>(endpoint_->TakeEvent());
  if (event == call.small) return;
  Differ(absl::StrCat("the event was \"", kEventNames[call.small],
                      "\", and is \"", kEventNames[event], "\""));
}

absl::Status IwarpReplay::DoOfEndpoint(const InputItem& call) {
  switch (Kind(call)) {
    case Input::kSegment:
      return OnSegment(call);
    case Input::kSettle:
      Settle();
      break;
    case Input::kTransmit:
      Transmit(call);
      break;
    case Input::kWrite:
      return Write(call);
    case Input::kTimer:
      endpoint_->OnTimer(now_);
      break;
    case Input::kOutage:
      endpoint_->OnOutage(now_);
      break;
    case Input::kTooBig:
      endpoint_->OnTooBig(call.large, SeqNum(call.As<iwarp::QuotedNow>().seq),
                          now_);
      break;
    case Input::kLinkMtu:
      endpoint_->OnLinkMtu(call.large, now_);
      break;
    case Input::kOnlyAckWaits:
      got_.returned = endpoint_->only_ack_waits();
      break;
    case Input::kTakeEvent:
      TakeEvent(call);
      break;
    case Input::kDisconnect:
      endpoint_->Disconnect(now_);
      break;
    case Input::kAbort:
      endpoint_->Abort(now_);
      break;
    case Input::kDetach:
      endpoint_->Detach(now_);
      break;
    default:
      endpoint_.reset();
  }
  return absl::OkStatus();
}

absl::Status IwarpReplay::Do(const InputItem& call) {
  const absl::Status begun = BeginNow();
  if (!begun.ok()) return begun;
  // If it has begun just now, the ring was as of its image.
  sends_->indices().producer = logged_.end.sq_producer;
  completed_now_ = 0;
  // Otherwise the log would say that their number has changed.
  SetChallenges(pools_->challenges.LeftAt(challenges_at_));
  if (Kind(call) != Input::kWrite && written_ != slots_.size())
    return Damaged("a segment was sent and not written");
  if (Kind(call) == Input::kModify) return Modify(call);
  if (Kind(call) == Input::kSettleQp) {
    got_.result = qp_->Settle({}, *this);
    return absl::OkStatus();
  }
  if (endpoint_ == nullptr) return Damaged("it has no connection for a call");
  // Others had all the room for records.
  std::vector<std::pair<uint32_t, uint8_t>> taken;
  if ((logged_.end.flags & ResultNow::kNoRecords) != 0) {
    for (int order = tcp::SegmentSlab::kMaxOrder; order >= 0; --order) {
      const auto size = static_cast<uint8_t>(order);
      uint32_t block;
      while ((block = pools_->segments.Take(size)) != tcp::SegmentSlab::kNone)
        taken.emplace_back(block, size);
    }
  }
  const absl::Status done = DoOfEndpoint(call);
  for (const auto& [block, order] : taken)
    pools_->segments.Release(block, order);
  return done;
}

// The engine makes no other changes.
absl::Status IwarpReplay::Modify(const InputItem& call) {
  const auto target = static_cast<QpState>(call.small);
  if ((target == QpState::kReset && endpoint_ != nullptr) ||
      (target == QpState::kInit && state() != QpState::kReset)) {
    return Damaged("a change of the state is impossible");
  }
  qp_->Modify(target, {});
  return absl::OkStatus();
}

void IwarpReplay::CompareOwn() {
  for (const SentSegment& sent : got_sent_) Say("sent      " + TextOf(sent));
  stats_.sent += got_sent_.size();
  const auto difference = Difference("segment", logged_sent_, got_sent_);
  if (!difference.empty()) Differ(difference);
  if (logged_head_ != got_head_) {
    Differ(absl::StrCat("a payload began with ", HexOf(logged_head_),
                        ", and begins with ", HexOf(got_head_)));
  }
  if (got_.result) {
    const ResultNow got(*got_.result);
    if (got.flags != (logged_.end.flags & ~ResultNow::kNoRecords) ||
        got.event != logged_.end.event) {
      Differ(absl::StrCat("the result was ", logged_.end.flags, " with event ",
                          static_cast<int>(logged_.end.event), ", and is ",
                          got.flags, " with event ",
                          static_cast<int>(got.event)));
    }
  }
  logged_sent_.clear();
  got_sent_.clear();
  logged_head_.clear();
  got_head_.clear();
  deliveries_.clear();
  failing_read_ = 0;
}

void IwarpReplay::Tell(const InputItem& call) {
  if (!talks()) return;
  switch (Kind(call)) {
    case Input::kTimer:
      return Say("timer");
    case Input::kOutage:
      return Say("outage");
    case Input::kTooBig:
      return Say(absl::StrCat("too big: MTU ", call.large));
    case Input::kLinkMtu:
      return Say(absl::StrCat("the link has MTU ", call.large));
    case Input::kTransmit:
      return Say(absl::StrCat("may send  ", call.large, " segments"));
    case Input::kDisconnect:
      return Say("disconnect");
    case Input::kAbort:
      return Say("abort");
    case Input::kDetach:
      return Say("the connection goes on without the queue pair");
    case Input::kTakeEvent:
      return Say(absl::StrCat("event     ", kEventNames[call.small]));
    case Input::kModify:
      return Say(absl::StrCat("modify to ", kQpStateNames[call.small]));
    default:
      return;
  }
}

}  // namespace

std::unique_ptr<ReplayRun> MakeIwarpReplay(uint32_t qpn, ReplayStats& stats,
                                           const ReplayListener& say) {
  return std::make_unique<IwarpReplay>(qpn, stats, say);
}

}  // namespace urnic::sim
