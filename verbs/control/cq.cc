#include "verbs/control/cq.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

namespace urnic::control {

namespace {

constexpr size_t kRingOffset = sizeof(urnic_queue_indices);

urnic_cqe* RingOf(const QueueMemory& memory) {
  return reinterpret_cast<urnic_cqe*>(memory.at(kRingOffset));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cq>> Cq::Create(Device& device,
                                               const CqRequest& request) {
  if (request.entries == 0 || request.entries > kMaxCqe) {
    return absl::InvalidArgumentError(
        absl::StrCat("create_cq: ", request.entries,
                     " entries, device limits are 1 and ", kMaxCqe));
  }
  if (request.comp_vector >= kCompVectors) {
    return absl::InvalidArgumentError(
        absl::StrCat("create_cq: comp_vector ", request.comp_vector,
                     " of a device that has ", kCompVectors));
  }
  const uint32_t entries = std::bit_ceil(request.entries);
  auto memory =
      QueueMemory::Map(kRingOffset + size_t{entries} * sizeof(urnic_cqe));
  if (!memory.ok()) return memory.status();
  if (absl::Status added = device.AddCq(); !added.ok()) return added;
  return std::unique_ptr<Cq>(
      new Cq(device, request, *std::move(memory), entries));
}

Cq::Cq(Device& device, const CqRequest& request, QueueMemory memory,
       uint32_t entries)
    : device_(device),
      memory_(std::move(memory)),
      entries_(entries),
      events_(request.events),
      user_(request.user),
      owner_(ThisProcess()),
      engine_end_(RingOf(memory_), memory_.indices_at(0), entries, this, this) {
  polling_.ring =
      CompletionRing(RingOf(memory_), memory_.indices_at(0), entries);
  if (!request.single_threaded) polling_.lock = &polling_.lock_storage;
}

Cq::~Cq() { device_.RemoveCq(); }

void Cq::RequestEvent(bool solicited_only) {
  // Under the token: the engine, which writes a completion and then looks
  // whether the queue is armed, is either wholly before this or wholly after.
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
  if (events_ != nullptr) events_->OnCqError(*this);
}

}  // namespace urnic::control
