#include "verbs/control/cq.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/errors.h"

namespace urnic::control {

namespace {

urnic_cqe* RingOf(const QueueMemory& memory) {
  return reinterpret_cast<urnic_cqe*>(memory.at(0));
}

absl::StatusOr<QueueMemory> MakeRing(Device& device, uint32_t entries,
                                     QueueAllocator* allocator) {
  return QueueMemory::Make(device.memory(), size_t{entries} * sizeof(urnic_cqe),
                           allocator, QueueAllocator::Use::kCq);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cq>> Cq::Create(Device& device,
                                               const CqRequest& request) {
  if (absl::Status s =
          CheckRange("create_cq: cqe", request.entries, 1, kMaxCqe);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckRange("create_cq: comp_vector", request.comp_vector,
                                  0, kCompVectors - 1);
      !s.ok()) {
    return s;
  }
  const uint32_t entries = std::bit_ceil(request.entries);
  auto indices =
      QueueMemory::Make(device.memory(), sizeof(urnic_queue_indices));
  if (!indices.ok()) return indices.status();
  auto ring = MakeRing(device, entries, request.allocator);
  if (!ring.ok()) return ring.status();
  if (absl::Status s = device.cqs().Reserve(device.name()); !s.ok()) return s;
  return std::unique_ptr<Cq>(new (device.memory()) Cq(
      device, request, *std::move(indices), *std::move(ring), entries));
}

Cq::Cq(Device& device, const CqRequest& request, QueueMemory indices,
       QueueMemory ring, uint32_t entries)
    : device_(device),
      allocator_(request.allocator),
      indices_(std::move(indices)),
      ring_(std::move(ring)),
      entries_(entries),
      events_(request.events),
      user_(request.user),
      owner_(ThisProcess()),
      engine_end_(RingOf(ring_), indices_.indices_at(0), entries, this, this) {
  polling_.ring =
      CompletionRing(RingOf(ring_), indices_.indices_at(0), entries);
  polling_.mailbox = device.mailbox();
  if (!request.single_threaded) polling_.lock = &polling_.lock_storage;
  if (request.ignore_overrun) engine_end_.IgnoreOverrun();
  device.cqs().Enter(*this, serial_);
}

Cq::~Cq() {
  device_.cqs().Leave(serial_);
  StopEvents();
}

void Cq::StopEvents() {
  Engine::ControlScope scope(device_.engine());
  device_.engine().ForgetCq(engine_end_);
}

absl::Status Cq::Resize(uint32_t wanted) {
  if (absl::Status s = CheckRange("resize_cq: cqe", wanted, 1, kMaxCqe);
      !s.ok()) {
    return s;
  }
  const uint32_t entries = std::bit_ceil(wanted);
  auto ring = MakeRing(device_, entries, allocator_);
  if (!ring.ok()) return ring.status();
  // Lock order: the token, then the queue's lock, as in Forget().
  Engine::ControlScope scope(device_.engine());
  OptionalLock lock(polling_.lock);
  if (!polling_.ring.MoveTo(RingOf(*ring), entries)) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("resize_cq: cqe ", wanted, " is too few: the queue has ",
                     polling_.ring.Ready(), " completions"));
  }
  engine_end_.ReplaceRing(RingOf(*ring), entries);
  ring_ = *std::move(ring);
  entries_ = entries;
  return absl::OkStatus();
}

absl::Status Cq::Moderate(uint16_t count, uint16_t period_us) {
  if (count > 1 && period_us == 0) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("modify_cq: cq_count ", count, " needs a cq_period"));
  }
  Engine::ControlScope scope(device_.engine());
  engine_end_.Moderate(count, Duration::Microseconds(period_us));
  return absl::OkStatus();
}

void Cq::RequestEvent(bool solicited_only) {
  // The engine writes a completion, then checks whether the queue is armed.
  // Under the token, arming cannot fall between the two.
  Engine::ControlScope scope(device_.engine());
  engine_end_.ArmFor(solicited_only ? CompletionQueue::kArmedSolicited
                                    : CompletionQueue::kArmedAny);
}

void Cq::Forget(uint32_t qpn) {
  OptionalLock lock(polling_.lock);
  polling_.ring.Forget(qpn);
}

void Cq::OnCompletionEvent(CompletionQueue&) {
  if (events_ != nullptr) events_->OnCompletion(*this);
}

void Cq::OnCqOverflow(CompletionQueue&) {
  device_.engine().failures().Add(
      {.code = ErrorCode::kCqOverflow,
       .iwarp = HasService(device_.kind(), QpService::kIwarp),
       .cqn = static_cast<uint32_t>(number())});
  if (events_ != nullptr) events_->OnCqError(*this);
}

}  // namespace urnic::control
