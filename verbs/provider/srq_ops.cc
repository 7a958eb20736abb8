// Shared receive queues. Posting is in post.cc.

#include <pthread.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "verbs/control/fork_guard.h"
#include "verbs/provider/context.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (control::InForkedChild()) return FailNull(EIO);
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  auto handle = std::make_unique<SharedReceiveQueue>();
  control::SrqRequest request;
  request.max_wr = attr->attr.max_wr;
  request.max_sge = attr->attr.max_sge;
  request.single_threaded = domain->thread_domain != nullptr;
  request.allocator = domain->allocator.get();
  request.events = domain->context;
  request.user = handle.get();
  auto created = control::Srq::Create(domain->control(), request);
  if (!created.ok()) return FailNull(created.status());
  handle->control = *std::move(created);
  handle->context = domain->context;
  handle->domain = domain;
  ibv_srq& srq = handle->srq;
  srq.context = pd->context;
  srq.srq_context = attr->srq_context;
  srq.pd = pd;
  pthread_mutex_init(&srq.mutex, nullptr);
  pthread_cond_init(&srq.cond, nullptr);
  attr->attr.max_wr = handle->control->max_wr();
  attr->attr.max_sge = handle->control->max_sge();
  ++domain->users;
  domain->context->Add(handle.get());
  return &handle.release()->srq;
}

int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  constexpr int kKnown = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  if (control::InForkedChild()) return EIO;
  control::Srq& control = *SharedReceiveQueue::From(srq)->control;
  if ((mask & ~kKnown) != 0) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("modify_srq: unknown mask 0x", absl::Hex(mask))));
  }
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (absl::Status s = control.Resize(attr->max_wr); !s.ok()) return Fail(s);
  }
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  return Fail(control.SetLimit(attr->srq_limit));
}

int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (control::InForkedChild()) return EIO;
  const control::Srq& control = *SharedReceiveQueue::From(srq)->control;
  *attr = {.max_wr = control.max_wr(),
           .max_sge = control.max_sge(),
           .srq_limit = control.limit()};
  return 0;
}

int DestroySrq(ibv_srq* srq) {
  if (control::InForkedChild()) return EIO;
  SharedReceiveQueue* handle = SharedReceiveQueue::From(srq);
  if (handle->control->in_use()) {
    return Fail(absl::FailedPreconditionError(
        "destroy_srq: queue pairs still take from it"));
  }
  handle->control.reset();
  // As for queue pairs (qp_ops.cc).
  uint32_t events = handle->async_events;
  if (events != 0) {
    events -= handle->context->events().Drop(reinterpret_cast<uint64_t>(srq));
  }
  pthread_mutex_lock(&srq->mutex);
  while (srq->events_completed != events) {
    pthread_cond_wait(&srq->cond, &srq->mutex);
  }
  pthread_mutex_unlock(&srq->mutex);
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  ProtectionDomain* domain = handle->domain;
  handle->context->Delete(handle);
  --domain->users;
  return 0;
}

}  // namespace urnic::provider
