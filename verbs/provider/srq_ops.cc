// Shared receive queues and XRC domains. Posting is in post.cc.

#include <pthread.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

namespace {

// `xrcd` and `cq`: of an XRC queue, else null.
ibv_srq* MakeSrq(ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq, void* srq_context,
                 ibv_srq_attr& attr) {
  if (const int error = InspectAll(pd->context, "create_srq", pd, xrcd, cq))
    return FailNull(error);
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  auto handle = MakeHandle<SharedReceiveQueue>();
  control::SrqRequest request;
  request.max_wr = attr.max_wr;
  request.max_sge = attr.max_sge;
  request.single_threaded = domain->thread_domain != nullptr;
  request.allocator = domain->allocator.get();
  request.events = domain->context;
  request.user = handle.get();
  if (xrcd != nullptr) {
    handle->xrc_domain = XrcDomain::From(xrcd);
    request.xrc_domain = handle->xrc_domain->control->id();
    request.cq = CompletionQueueHandle::From(cq)->control.get();
  }
  auto created = control::Srq::Create(domain->control(), request);
  if (!created.ok()) return FailNull(pd->context, created.status());
  handle->control = *std::move(created);
  handle->context = domain->context;
  handle->domain = domain;
  ibv_srq& srq = handle->srq;
  srq.context = pd->context;
  srq.srq_context = srq_context;
  srq.pd = pd;
  pthread_mutex_init(&srq.mutex, nullptr);
  pthread_cond_init(&srq.cond, nullptr);
  attr.max_wr = handle->control->Query().max_wr;
  attr.max_sge = handle->control->max_sge();
  ++domain->users;
  if (xrcd != nullptr) ++handle->xrc_domain->users;
  domain->context->Add(handle.get());
  return &handle.release()->srq;
}

}  // namespace

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return MakeSrq(pd, nullptr, nullptr, attr->srq_context, attr->attr);
}

ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  constexpr uint32_t kXrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  constexpr uint32_t kKnown =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | kXrc;
  const uint32_t mask = attr->comp_mask;
  const uint32_t type = (mask & IBV_SRQ_INIT_ATTR_TYPE) != 0
                            ? Number(attr->srq_type)
                            : uint32_t{IBV_SRQT_BASIC};
  if ((mask & ~kKnown) != 0 || type == IBV_SRQT_TM) {
    return FailNull(context,
                    Refusal(ErrorCode::kNotBuilt,
                            absl::StrCat("create_srq_ex: comp_mask 0x",
                                         absl::Hex(mask & ~kKnown), ", type ",
                                         type, ": tag matching is not built")));
  }
  const bool xrc = type == IBV_SRQT_XRC;
  if (xrc && !control::HasService(Context::From(context)->device().kind(),
                                  QpService::kXrcTarget)) {
    return FailNull(context, Refusal(ErrorCode::kNotBuilt,
                                     "create_srq_ex: the device has no XRC"));
  }
  if (type > IBV_SRQT_XRC || (mask & IBV_SRQ_INIT_ATTR_PD) == 0 ||
      attr->pd == nullptr || attr->pd->context != context ||
      (xrc &&
       ((mask & kXrc) != kXrc || attr->xrcd == nullptr || attr->cq == nullptr ||
        attr->xrcd->context != context || attr->cq->context != context))) {
    return FailNull(
        context,
        Refusal(
            ErrorCode::kBadAttribute,
            absl::StrCat(
                "create_srq_ex: type ", type,
                " without what it needs (pd; XRC: xrcd and cq), or of another "
                "context")));
  }
  return MakeSrq(attr->pd, xrc ? attr->xrcd : nullptr, xrc ? attr->cq : nullptr,
                 attr->srq_context, attr->attr);
}

int GetSrqNum(ibv_srq* srq, uint32_t* number) {
  const SharedReceiveQueue* handle = SharedReceiveQueue::From(srq);
  // Peers address only XRC queues by number.
  if (handle->xrc_domain == nullptr) {
    return Fail(
        srq->context,
        Refusal(ErrorCode::kBadAttribute,
                absl::StrCat("get_srq_num: srq ", handle->control->number(),
                             " is of type BASIC, only XRC has a "
                             "number")));
  }
  *number = handle->control->number();
  return 0;
}

namespace {

// The errnos of Linux's open_xrcd, which differ from those of other calls.
int ErrnoOfOpen(ibv_context* context, const absl::Status& status) {
  const int error = Fail(context, status);
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return EAGAIN;
    case absl::StatusCode::kAlreadyExists:
      return EINVAL;
    case absl::StatusCode::kFailedPrecondition:
      return EBADF;
    default:
      return error;
  }
}

}  // namespace

ibv_xrcd* OpenXrcd(ibv_context* ibv, ibv_xrcd_init_attr* attr) {
  constexpr uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attr->comp_mask != kBoth) {
    return FailNull(ibv, Refusal(ErrorCode::kBadAttribute,
                                 absl::StrCat("open_xrcd: comp_mask 0x",
                                              absl::Hex(attr->comp_mask),
                                              ": must be fd and oflags")));
  }
  Context* context = Context::From(ibv);
  auto opened = control::Xrcd::Open(context->device(), attr->fd, attr->oflags);
  if (!opened.ok()) return FailNull(ErrnoOfOpen(ibv, opened.status()));
  auto* domain = MarkedSlab<XrcDomain>::Of().New();
  domain->xrcd.context = ibv;
  domain->context = context;
  domain->control = *std::move(opened);
  context->Add(domain);
  return &domain->xrcd;
}

int CloseXrcd(ibv_xrcd* xrcd) {
  XrcDomain* domain = XrcDomain::From(xrcd);
  if (domain->users != 0) {
    return Fail(xrcd->context,
                Refusal(ErrorCode::kInUse,
                        absl::StrCat("close_xrcd: it still has objects: ",
                                     domain->users.load())));
  }
  if (const int error = domain->context->EndIfUnused(
          domain, [&] { return domain->users != 0; })) {
    return FailEnding(xrcd->context, "close_xrcd", error);
  }
  domain->context->Delete(domain);
  return 0;
}

int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  constexpr int kKnown = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  control::Srq& control = *SharedReceiveQueue::From(srq)->control;
  if ((mask & ~kKnown) != 0) {
    return Fail(
        srq->context,
        Refusal(ErrorCode::kBadAttribute,
                absl::StrCat("modify_srq: unknown mask 0x", absl::Hex(mask))));
  }
  return Fail(srq->context,
              control.Modify((mask & IBV_SRQ_MAX_WR) != 0
                                 ? std::optional<uint32_t>(attr->max_wr)
                                 : std::nullopt,
                             (mask & IBV_SRQ_LIMIT) != 0
                                 ? std::optional<uint32_t>(attr->srq_limit)
                                 : std::nullopt));
}

int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr) {
  const control::Srq& control = *SharedReceiveQueue::From(srq)->control;
  const control::Srq::Sizes sizes = control.Query();
  *attr = {.max_wr = sizes.max_wr,
           .max_sge = control.max_sge(),
           .srq_limit = sizes.limit};
  return 0;
}

int DestroySrq(ibv_srq* srq) {
  SharedReceiveQueue* handle = SharedReceiveQueue::From(srq);
  if (handle->control->in_use()) {
    return Fail(srq->context, Refusal(ErrorCode::kInUse,
                                      "destroy_srq: queue pairs still use it"));
  }
  if (const int error = handle->context->EndIfUnused(
          handle, [&] { return handle->control->in_use(); })) {
    return FailEnding(srq->context, "destroy_srq", error);
  }
  const std::string name = absl::StrCat("srq ", handle->control->number());
  handle->control.reset();
  // As for queue pairs (qp_ops.cc).
  uint32_t events = handle->async_events;
  if (events != 0) {
    events -= handle->context->events().Drop(reinterpret_cast<uint64_t>(srq));
  }
  handle->context->AwaitAcknowledged(&srq->mutex, &srq->cond, name, [&] {
    return srq->events_completed == events;
  });
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  ProtectionDomain* domain = handle->domain;
  XrcDomain* xrc_domain = handle->xrc_domain;
  handle->context->Delete(handle);
  --domain->users;
  if (xrc_domain != nullptr) --xrc_domain->users;
  return 0;
}

}  // namespace urnic::provider
