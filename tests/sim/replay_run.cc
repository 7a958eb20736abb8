#include "tests/sim/replay_run.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/work/image_fields.h"

namespace urnic::sim {
namespace {

// At least as long as those of any program.
constexpr uint32_t kReceiveStride =
    sizeof(urnic_rq_wqe) + URNIC_MAX_SGE * sizeof(urnic_sge);
constexpr uint32_t kSendStride =
    sizeof(urnic_sq_wqe) +
    std::max<uint32_t>(URNIC_MAX_INLINE, URNIC_MAX_SGE * sizeof(urnic_sge)) +
    URNIC_ABI_LINE;
// A century: sums of times that are logged do not overflow.
constexpr int64_t kLatest = int64_t{100} * 366 * 86400 * 1'000'000'000;

}  // namespace

// --- For the transport -------------------------------------------------------

void ReplayRun::MakeRings(const ImageShape& shape) {
  const QpLimits& limits = shape.limits;
  sends_ = std::make_unique<testing::FakeRing>(shape.sq_entries, kSendStride);
  receives_ring_ =
      std::make_unique<testing::FakeRing>(receives_, kReceiveStride);
  receive_queue_ = std::make_unique<testing::OwnRecvQueue>(
      receives_ring_->view(), limits.max_sge_recv, shape.shared_receives,
      limits.pd);
  if (shape.shared_receives)
    receive_queue_->queue().Use(&receive_queue_->ring());
}

absl::Status ReplayRun::Refused(const ImageRefusal& refusal) {
  return absl::InvalidArgumentError(
      absl::StrCat("its image is refused: ", refusal.Text()));
}

absl::Status ReplayRun::Damaged(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

const Placement* ReplayRun::FindFault(const InputItem& fault) const {
  const auto target = fault.As<uint64_t>();
  const auto found =
      std::ranges::find_if(placements_, [&](const Placement& placement) {
        return placement.from_responder == (fault.small != 0) &&
               placement.packet == fault.medium && placement.target == target;
      });
  return found == placements_.end() ? nullptr : &*found;
}

void ReplayRun::SetOriginal(uint64_t value) {
  while (originals_looked_at_ != placements_.size()) {
    const Placement& placement = placements_[originals_looked_at_++];
    if (placement.kind == Placement::Kind::kCopy) continue;
    *placement.original = value;
    return;
  }
}

void ReplayRun::ForgetBurst() {
  placements_.clear();
  completed_.clear();
  originals_looked_at_ = 0;
}

void ReplayRun::Differ(const std::string& what) {
  if (stats_.differs_at != 0) return;
  stats_.differs_at = stats_.calls;
  stats_.difference = what;
  Say("DIFFERS   " + what);
}

std::string ReplayRun::SinceBegin(int64_t ns) const {
  char text[40];
  std::snprintf(text, sizeof(text), "%+13.3f us",
                static_cast<double>(ns - begin_ns_) / 1e3);
  return text;
}

void ReplayRun::Say(const std::string& what) const {
  if (!say_) return;
  say_(absl::StrCat(SinceBegin(now_.ns()), " #", stats_.calls, "  ", what));
}

// --- Items -------------------------------------------------------------------

absl::Status ReplayRun::CheckTime(const InputItem& item) {
  const int64_t ns = item.As<CallNow>().ns;
  if (ns < now_.ns() || ns > kLatest)
    return Damaged("the time of a call is impossible");
  now_ = Time::FromNs(ns);
  return absl::OkStatus();
}

absl::Status ReplayRun::ApplyReceive(const InputItem& item) {
  const size_t bytes = std::min<size_t>(item.body.size(), kReceiveStride);
  std::memcpy(receives_ring_->entry(item.large), item.body.data(), bytes);
  uint32_t& producer = receives_ring_->indices().producer;
  producer = std::max(producer, item.large + 1);
  return absl::OkStatus();
}

absl::Status ReplayRun::Apply(const InputItem& item) {
  switch (KindOfItem(item)) {
    case WorkInput::kKey:
      return keys_.Restore(item.As<mem::MemoryRegion>())
                 ? absl::OkStatus()
                 : Damaged("it has too many keys");
    case WorkInput::kKeyGone:
      keys_.Remove(MrKey{item.large});
      return absl::OkStatus();
    case WorkInput::kRequest:
      if (item.body.size() > sends_->view().BytesOf(0).size())
        return Damaged("a request is too long");
      std::memcpy(sends_->entry(item.large), item.body.data(),
                  item.body.size());
      return absl::OkStatus();
    case WorkInput::kNoReceives:
      receives_ring_->indices() = {};
      receive_queue_->ring().ReplaceView(receives_ring_->view());
      return absl::OkStatus();
    case WorkInput::kReceive:
      return ApplyReceive(item);
    default:
      return ApplyOwn(item);
  }
}

absl::Status ReplayRun::ReadOutcome(std::span<const InputItem>& items,
                                    bool& whole) {
  logged_ = {};
  while (!items.empty()) {
    const InputItem item = items.front();
    items = items.subspan(1);
    switch (KindOfItem(item)) {
      case WorkInput::kVerdict:
        logged_.verdicts.push_back(item.small);
        break;
      case WorkInput::kFault:
        logged_.faults.push_back(item);
        break;
      case WorkInput::kOriginal:
        logged_.originals.push_back(item.As<uint64_t>());
        break;
      case WorkInput::kSendDone:
        logged_.sends.push_back(item.As<SendCompletion>());
        break;
      case WorkInput::kReceiveDone:
        logged_.receives.push_back(item.As<RecvCompletion>());
        break;
      case WorkInput::kResult:
        logged_.end = item.As<ResultNow>();
        whole = true;
        return absl::OkStatus();
      default: {
        // It was read while the call ran.
        if (IsOfTransport(item)) {
          if (TakeOwn(item)) break;
          return Damaged(absl::StrCat("item ", item.kind, " follows a call"));
        }
        const absl::Status applied = Apply(item);
        if (!applied.ok()) return applied;
      }
    }
  }
  return absl::OkStatus();
}

// --- Calls -------------------------------------------------------------------

void ReplayRun::Compare() {
  for (const std::string& difference :
       {Difference("verdict", logged_.verdicts, got_.verdicts),
        Difference("completion", logged_.sends, got_.sends),
        Difference("completion", logged_.receives, got_.receives)}) {
    if (!difference.empty()) Differ(difference);
  }
  const ResultNow& end = logged_.end;
  if (end.state != state()) {
    Differ(absl::StrCat("the state was ",
                        kQpStateNames[static_cast<int>(end.state)], ", and is ",
                        kQpStateNames[static_cast<int>(state())]));
  }
  const bool returned = (end.flags & ResultNow::kReturned) != 0;
  if (got_.returned && *got_.returned != returned)
    Differ(returned ? "the call has returned true, and returns false"
                    : "the call has returned false, and returns true");
  if (!got_.result) return;
  if (got_.result->deadline.ns() != end.deadline_ns) {
    Differ(absl::StrCat("the timer was due at ", SinceBegin(end.deadline_ns),
                        ", and is at ",
                        SinceBegin(got_.result->deadline.ns())));
  }
}

void ReplayRun::TellOutcome() {
  for (const SendCompletion& done : got_.sends) {
    Say("completed " + TextOf(done));
    stats_.errors += done.status != URNIC_WC_SUCCESS;
  }
  for (const RecvCompletion& done : got_.receives) {
    Say("completed " + TextOf(done));
    stats_.errors += done.status != URNIC_WC_SUCCESS;
  }
  stats_.completions += got_.sends.size() + got_.receives.size();
}

absl::Status ReplayRun::DoOne(const InputItem& call,
                              std::span<const InputItem>& items, bool& ended) {
  bool whole = false;
  const absl::Status read = ReadOutcome(items, whole);
  if (!read.ok()) return read;
  ended = !whole;  // the log ended while this call ran
  if (ended) return absl::OkStatus();
  ++stats_.calls;
  const absl::Status timely = CheckTime(call);
  if (!timely.ok()) return timely;
  got_ = {};
  sends_->indices().producer = logged_.end.sq_producer;
  Tell(call);
  const absl::Status done = Do(call);
  if (!done.ok()) return done;
  CompareOwn();
  TellOutcome();
  CheckInvariants();
  Compare();
  return absl::OkStatus();
}

absl::Status ReplayRun::Check(std::span<const InputItem> items) {
  if (items.empty() || KindOfItem(items.front()) != WorkInput::kImage)
    return Damaged("a segment has no image");
  const auto is_valid = [this](const InputItem& item) {
    return IsOfTransport(item) ? IsValidOwn(item) : IsValid(item);
  };
  if (const auto bad = std::ranges::find_if_not(items, is_valid);
      bad != items.end()) {
    return Damaged(absl::StrCat("item ", bad - items.begin() + 1,
                                " of a segment, of kind ", bad->kind,
                                ", has an impossible value"));
  }
  for (const InputItem& item : items) {
    if (KindOfItem(item) == WorkInput::kReceive)
      receives_ = std::max(receives_, std::bit_ceil(item.large + 1));
  }
  return CheckTime(items.front());
}

absl::Status ReplayRun::Replay(std::span<const InputItem> items) {
  absl::Status status = Check(items);
  begin_ns_ = now_.ns();
  if (status.ok()) status = Begin(items.front());
  bool ended = false;
  for (items = items.subspan(1); status.ok() && !items.empty() && !ended;) {
    const InputItem item = items.front();
    items = items.subspan(1);
    if (IsOfTransport(item) && IsCall(item)) {
      status = DoOne(item, items, ended);
    } else {
      status = Apply(item);
    }
    ended |= stats_.differs_at != 0;
  }
  if (!status.ok()) return status;
  Say(absl::StrCat("end: ", kQpStateNames[static_cast<int>(state())]));
  return absl::OkStatus();
}

}  // namespace urnic::sim
