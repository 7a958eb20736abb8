// Completion queues: creation, destruction, arming. Polling is in poll.cc.

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/provider/context.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

CompletionQueueHandle* MakeCq(ibv_context* ibv, control::CqRequest request,
                              ibv_comp_channel* channel) {
  Context* context = Context::From(ibv);
  if (channel != nullptr && (Preload() == nullptr || channel->context != ibv)) {
    return FailNull(ibv,
                    Refusal(ErrorCode::kForeignObject,
                            "create_cq: the channel is of another context"));
  }
  auto handle = MakeHandle<CompletionQueueHandle>();
  request.events = context;
  request.user = handle.get();
  auto created = control::Cq::Create(context->device(), request);
  if (!created.ok()) return FailNull(ibv, created.status());
  handle->context = context;
  handle->control = *std::move(created);
  handle->engine = &context->device().engine();
  handle->channel_fd = channel != nullptr ? channel->fd : -1;
  handle->cq.cqe = static_cast<int>(handle->control->entries());
  context->Add(handle.get());
  return handle.release();
}

ibv_cq* CreateCq(ibv_context* ibv, int cqe, ibv_comp_channel* channel,
                 int comp_vector) {
  // Zero and numbers above the limits are refused below, with their names.
  if (cqe < 0 || comp_vector < 0) {
    return FailNull(
        ibv, Refusal(ErrorCode::kBadAttribute,
                     absl::StrCat("create_cq: cqe ", cqe, " or comp_vector ",
                                  comp_vector, " is negative")));
  }
  control::CqRequest request;
  request.entries = static_cast<uint32_t>(cqe);
  request.comp_vector = static_cast<uint32_t>(comp_vector);
  CompletionQueueHandle* handle = MakeCq(ibv, request, channel);
  return handle != nullptr ? &handle->cq : nullptr;
}

namespace {

// As the kernel's verbs do before they free an object: withdraws unread events,
// and waits until the others have been acknowledged.
void WaitForAcknowledgements(CompletionQueueHandle& handle) {
  const uint64_t element = reinterpret_cast<uint64_t>(&handle.cq);
  uint32_t comp = handle.comp_events;
  if (handle.channel_fd >= 0) {
    comp -= Preload()->channel_drop(handle.channel_fd, element);
  }
  uint32_t async = handle.async_events;
  if (async != 0) async -= handle.context->events().Drop(element);
  handle.context->AwaitAcknowledged(
      &handle.cq.mutex, &handle.cq.cond,
      absl::StrCat("cq ", handle.control->number()), [&] {
        return handle.cq.comp_events_completed == comp &&
               handle.cq.async_events_completed == async;
      });
}

}  // namespace

int DestroyCq(ibv_cq* cq) {
  CompletionQueueHandle* handle = CompletionQueueHandle::From(cq);
  if (handle->control->in_use()) {
    return Fail(cq->context,
                Refusal(ErrorCode::kInUse,
                        "destroy_cq: queue pairs still complete to it"));
  }
  EndOwnBatch(*handle);
  if (const int error = handle->context->EndIfUnused(
          handle, [&] { return handle->control->in_use(); })) {
    return FailEnding(cq->context, "destroy_cq", error);
  }
  // Without queue pairs, only events that moderation has delayed can follow.
  handle->control->StopEvents();
  WaitForAcknowledgements(*handle);
  ProtectionDomain* const domain = handle->domain;
  handle->context->Delete(handle);
  if (domain != nullptr) --domain->users;
  return 0;
}

int ResizeCq(ibv_cq* cq, int cqe) {
  CompletionQueueHandle* handle = CompletionQueueHandle::From(cq);
  if (absl::Status s =
          handle->control->Resize(static_cast<uint32_t>(std::max(cqe, 0)));
      !s.ok()) {
    return Fail(cq->context, s);
  }
  cq->cqe = static_cast<int>(handle->control->entries());
  return 0;
}

int ModifyCq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if ((attr->attr_mask & ~uint32_t{IBV_CQ_ATTR_MODERATE}) != 0) {
    return Fail(cq->context, Refusal(ErrorCode::kBadAttribute,
                                     absl::StrCat("modify_cq: unknown mask 0x",
                                                  absl::Hex(attr->attr_mask))));
  }
  if (attr->attr_mask == 0) return 0;
  return Fail(cq->context,
              CompletionQueueHandle::From(cq)->control->Moderate(
                  attr->moderate.cq_count, attr->moderate.cq_period));
}

int ReqNotifyCq(ibv_cq* cq, int solicited_only) {
  CompletionQueueHandle* handle = CompletionQueueHandle::From(cq);
  handle->control->RequestEvent(solicited_only != 0);
  // The program is about to sleep.
  handle->engine->HandOver();
  return 0;
}

}  // namespace urnic::provider
