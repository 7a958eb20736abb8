#include "verbs/control/srq.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/errors.h"

namespace urnic::control {

namespace {

// The receive half of a queue pair's layout.
QpLayout LayoutOf(uint32_t max_wr, uint32_t max_sge) {
  return MakeQpLayout(0, 0, 0, max_wr, max_sge);
}

WorkRing RingIn(const QueueMemory& memory, const QpLayout& layout) {
  return WorkRing(memory.at(layout.rq_ring()),
                  memory.indices_at(QpLayout::kRqIndices), layout.rq_entries,
                  layout.rq_stride);
}

WorkQueueView ViewOf(const QueueMemory& memory, const QpLayout& layout) {
  return WorkQueueView(memory.at(layout.rq_ring()),
                       memory.indices_at(QpLayout::kRqIndices),
                       layout.rq_entries, layout.rq_stride);
}

absl::Status CheckMaxWr(uint32_t max_wr) {
  return CheckRange("srq: max_wr", max_wr, 1, kMaxSrqWr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Srq>> Srq::Create(Pd& pd,
                                                 const SrqRequest& request) {
  if (absl::Status s = CheckMaxWr(request.max_wr); !s.ok()) return s;
  const uint32_t max_sge = std::max(request.max_sge, 1u);
  if (absl::Status s = CheckRange("srq: max_sge", max_sge, 1, kMaxSge);
      !s.ok()) {
    return s;
  }
  if ((request.cq == nullptr) != (request.xrc_domain == 0) ||
      (request.cq != nullptr && &request.cq->device() != &pd.device())) {
    return Refusal(
        ErrorCode::kForeignObject,
        "create_srq: XRC needs a domain and a completion queue of this device");
  }
  const QpLayout layout = LayoutOf(request.max_wr, max_sge);
  auto memory = QueueMemory::Make(pd.device().memory(), layout.bytes(),
                                  request.allocator, QueueAllocator::Use::kSrq);
  if (!memory.ok()) return memory.status();
  Device& device = pd.device();
  if (absl::Status s = device.srqs().Reserve(device.name()); !s.ok()) return s;
  std::unique_ptr<Srq> srq(new (pd.device().memory())
                               Srq(pd, request, layout, *std::move(memory)));
  if (srq->engine_end_ == nullptr) {
    return Refusal(
        ErrorCode::kNoPlace,
        "srq: all numbers that are leased to this network are in use");
  }
  return srq;
}

Srq::Srq(Pd& pd, const SrqRequest& request, const QpLayout& layout,
         QueueMemory memory)
    : pd_(pd),
      allocator_(request.allocator),
      memory_(std::move(memory)),
      cq_(request.cq),
      events_(request.events),
      user_(request.user),
      owner_(ThisProcess()) {
  posting_.ring = RingIn(memory_, layout);
  posting_.max_sge = std::max(request.max_sge, 1u);
  posting_.mailbox = pd.device().mailbox();
  if (!request.single_threaded) posting_.lock = &posting_.lock_storage;
  pd_.Ref();
  if (cq_ != nullptr) cq_->Ref();
  CreateInEngine(request.xrc_domain, layout);
  pd_.device().srqs().Enter(*this, serial_);
}

void Srq::CreateInEngine(uint32_t xrc_domain, const QpLayout& layout) {
  Engine::ControlScope scope(pd_.device().engine());
  urnic::SharedReceiveQueue config;
  config.ring = RecvRing(ViewOf(memory_, layout), posting_.max_sge, pd_.id());
  if (cq_ != nullptr) config.cq = cq_->engine_end();
  config.xrc_domain = xrc_domain;
  config.events = this;
  config.owner = this;
  engine_end_ = pd_.device().network().CreateSrq(config);
}

Srq::~Srq() {
  pd_.device().srqs().Leave(serial_);
  if (engine_end_ != nullptr) {
    Engine::ControlScope scope(pd_.device().engine());
    pd_.device().network().DestroySrq(engine_end_);
  }
  if (cq_ != nullptr) cq_->Unref();
  pd_.Unref();
}

absl::Status Srq::Modify(std::optional<uint32_t> max_wr,
                         std::optional<uint32_t> limit) {
  if (max_wr.has_value()) return Resize(*max_wr, limit);
  if (!limit.has_value()) return absl::OkStatus();
  Engine::ControlScope scope(pd_.device().engine());
  const uint32_t size = posting_.ring.entries();
  if (absl::Status s = CheckRange("srq: limit", *limit, 0, size); !s.ok()) {
    return s;
  }
  engine_end_->ring.SetLimit(*limit);
  return absl::OkStatus();
}

Srq::Sizes Srq::Query() const {
  Engine::ControlScope scope(pd_.device().engine());
  return {.max_wr = posting_.ring.entries(),
          .limit = engine_end_->ring.limit()};
}

absl::Status Srq::Resize(uint32_t max_wr, std::optional<uint32_t> limit) {
  if (absl::Status s = CheckMaxWr(max_wr); !s.ok()) return s;
  const QpLayout layout = LayoutOf(max_wr, posting_.max_sge);
  auto memory = QueueMemory::Make(pd_.device().memory(), layout.bytes(),
                                  allocator_, QueueAllocator::Use::kSrq);
  if (!memory.ok()) return memory.status();
  // Lock order: the token, then the queue's lock.
  Engine::ControlScope scope(pd_.device().engine());
  OptionalLock lock(posting_.lock);
  RecvRing& ring = engine_end_->ring;
  ring.PublishConsumer();
  const uint32_t waiting = posting_.ring.waiting();
  const uint32_t new_limit = limit.value_or(ring.limit());
  if (waiting > layout.rq_entries || new_limit > layout.rq_entries) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("srq: max_wr ", max_wr, " is too few: ", waiting,
                     " requests are posted, and the limit is ", new_limit));
  }
  ring.SetLimit(new_limit);
  WorkRing to = RingIn(*memory, layout);
  posting_.ring.MoveTo(to);
  posting_.ring = to;
  ring.ReplaceView(ViewOf(*memory, layout));
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

void Srq::OnSrqLimit(SharedReceiveQueue&) {
  if (events_ != nullptr) events_->OnSrqLimit(*this);
}

void Srq::OnSrqError(SharedReceiveQueue&) {
  pd_.device().engine().failures().Add(
      {.code = ErrorCode::kSrqError,
       .iwarp = HasService(pd_.device().kind(), QpService::kIwarp),
       .srqn = static_cast<uint32_t>(number())});
  if (events_ != nullptr) events_->OnSrqError(*this);
}

}  // namespace urnic::control
