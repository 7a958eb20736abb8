// Queue pairs: creation, attributes, destruction. Posting is in post.cc.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

namespace {

using control::QpAttributes;

static_assert(IBV_QP_STATE == int{control::kQpState} &&
              IBV_QP_CUR_STATE == int{control::kQpCurState} &&
              IBV_QP_EN_SQD_ASYNC_NOTIFY == int{control::kQpEnSqdAsyncNotify} &&
              IBV_QP_ACCESS_FLAGS == int{control::kQpAccessFlags} &&
              IBV_QP_PKEY_INDEX == int{control::kQpPkeyIndex} &&
              IBV_QP_PORT == int{control::kQpPort} &&
              IBV_QP_QKEY == int{control::kQpQkey} &&
              IBV_QP_AV == int{control::kQpAv} &&
              IBV_QP_PATH_MTU == int{control::kQpPathMtu} &&
              IBV_QP_TIMEOUT == int{control::kQpTimeout} &&
              IBV_QP_RETRY_CNT == int{control::kQpRetryCnt} &&
              IBV_QP_RNR_RETRY == int{control::kQpRnrRetry} &&
              IBV_QP_RQ_PSN == int{control::kQpRqPsn} &&
              IBV_QP_MAX_QP_RD_ATOMIC == int{control::kQpMaxRdAtomic} &&
              IBV_QP_ALT_PATH == int{control::kQpAltPath} &&
              IBV_QP_MIN_RNR_TIMER == int{control::kQpMinRnrTimer} &&
              IBV_QP_SQ_PSN == int{control::kQpSqPsn} &&
              IBV_QP_MAX_DEST_RD_ATOMIC == int{control::kQpMaxDestRdAtomic} &&
              IBV_QP_PATH_MIG_STATE == int{control::kQpPathMigState} &&
              IBV_QP_DEST_QPN == int{control::kQpDestQpn});
static_assert(IBV_QPS_SQD == int{static_cast<int>(QpState::kSqd)} &&
              IBV_QPS_ERR == int{static_cast<int>(QpState::kErr)} &&
              IBV_MIG_MIGRATED == int{control::kPathMigrated});

// enum ibv_rate; other values mean no limit.
uint32_t RateMbps(uint8_t code) {
  const int mbps = ibv_rate_to_mbps(static_cast<ibv_rate>(code));
  return mbps > 0 ? static_cast<uint32_t>(mbps) : 0;
}
uint8_t RateCode(uint32_t mbps) {
  return mbps == 0
             ? uint8_t{IBV_RATE_MAX}
             : static_cast<uint8_t>(mbps_to_ibv_rate(static_cast<int>(mbps)));
}

ibv_ah_attr ToIbv(const control::AddressVector& vector) {
  ibv_ah_attr a = {};
  std::memcpy(a.grh.dgid.raw, vector.dgid.bytes.data(), 16);
  a.grh.flow_label = vector.flow_label;
  a.grh.sgid_index = vector.sgid_index;
  a.grh.hop_limit = vector.hop_limit;
  a.grh.traffic_class = vector.traffic_class;
  a.sl = vector.sl;
  a.static_rate = RateCode(vector.rate_mbps);
  a.is_global = vector.is_global;
  a.port_num = vector.port_num;
  return a;
}

// The program has only set the members that `mask` names.
QpAttributes FromIbv(const ibv_qp_attr& a, uint32_t mask) {
  QpAttributes b;
  const auto take = [mask](uint32_t bit, auto& to, auto from) {
    if ((mask & bit) != 0) to = static_cast<std::decay_t<decltype(to)>>(from);
  };
  // A value that does not fit becomes 255, which is never valid.
  const auto code = [](const auto& value) {
    return static_cast<uint8_t>(std::min(Number(value), 255u));
  };
  take(IBV_QP_STATE, b.qp_state, code(a.qp_state));
  take(IBV_QP_CUR_STATE, b.cur_qp_state, code(a.cur_qp_state));
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, b.en_sqd_async_notify,
       a.en_sqd_async_notify);
  take(IBV_QP_ACCESS_FLAGS, b.qp_access_flags, a.qp_access_flags);
  take(IBV_QP_PKEY_INDEX, b.pkey_index, a.pkey_index);
  take(IBV_QP_PORT, b.port_num, a.port_num);
  take(IBV_QP_QKEY, b.qkey, a.qkey);
  take(IBV_QP_PATH_MTU, b.path_mtu, code(a.path_mtu));
  take(IBV_QP_TIMEOUT, b.timeout, a.timeout);
  take(IBV_QP_RETRY_CNT, b.retry_cnt, a.retry_cnt);
  take(IBV_QP_RNR_RETRY, b.rnr_retry, a.rnr_retry);
  take(IBV_QP_RQ_PSN, b.rq_psn, a.rq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, b.max_rd_atomic, a.max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, b.min_rnr_timer, a.min_rnr_timer);
  take(IBV_QP_SQ_PSN, b.sq_psn, a.sq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, b.max_dest_rd_atomic, a.max_dest_rd_atomic);
  take(IBV_QP_PATH_MIG_STATE, b.path_mig_state, code(a.path_mig_state));
  take(IBV_QP_DEST_QPN, b.dest_qp_num, a.dest_qp_num);
  if ((mask & IBV_QP_AV) != 0) b.ah_attr = VectorOf(a.ah_attr);
  return b;
}

ibv_qp_cap ToIbv(const control::QpCaps& caps) {
  return {.max_send_wr = caps.max_send_wr,
          .max_recv_wr = caps.max_recv_wr,
          .max_send_sge = caps.max_send_sge,
          .max_recv_sge = caps.max_recv_sge,
          .max_inline_data = caps.max_inline_data};
}

control::QpCaps FromIbv(const ibv_qp_cap& cap) {
  return {.max_send_wr = cap.max_send_wr,
          .max_recv_wr = cap.max_recv_wr,
          .max_send_sge = cap.max_send_sge,
          .max_recv_sge = cap.max_recv_sge,
          .max_inline_data = cap.max_inline_data};
}

absl::StatusOr<QpService> ServiceOf(const ibv_qp_init_attr& attr,
                                    const urnic_device_kind& kind) {
  const uint32_t type = Number(attr.qp_type);
  switch (type) {
    case IBV_QPT_RC:
      return control::HasService(kind, QpService::kIwarp) ? QpService::kIwarp
                                                          : QpService::kRc;
    case IBV_QPT_UC:
      return QpService::kUc;
    case IBV_QPT_UD:
      return QpService::kUd;
    case IBV_QPT_XRC_SEND:
      return QpService::kXrcInitiator;
    case IBV_QPT_XRC_RECV:
      return QpService::kXrcTarget;
    case IBV_QPT_DRIVER:
      return Refusal(ErrorCode::kBadAttribute,
                     "create_qp: windows of RUD, which are of type DRIVER, are "
                     "made by urnic_dv_create_window()");
    case IBV_QPT_RAW_PACKET:
      return Refusal(ErrorCode::kNotBuilt,
                     absl::StrCat("create_qp: type ", type, " is not built"));
    default:
      return Refusal(ErrorCode::kBadAttribute,
                     absl::StrCat("create_qp: unknown type ", type));
  }
}

}  // namespace

control::AddressVector VectorOf(const ibv_ah_attr& a) {
  control::AddressVector vector;
  std::memcpy(vector.dgid.bytes.data(), a.grh.dgid.raw, 16);
  vector.flow_label = a.grh.flow_label;
  vector.sgid_index = a.grh.sgid_index;
  vector.hop_limit = a.grh.hop_limit;
  vector.traffic_class = a.grh.traffic_class;
  vector.sl = a.sl;
  vector.rate_mbps = RateMbps(a.static_rate);
  vector.is_global = a.is_global;
  vector.port_num = a.port_num;
  return vector;
}

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return MakeQp(pd->context, pd, nullptr, attr);
}

namespace {

// Fails if any of them belongs to another context.
absl::Status CheckContexts(const ibv_context* context, const ibv_pd* pd,
                           const ibv_xrcd* xrcd, const ibv_qp_init_attr& attr) {
  for (const ibv_context* of :
       {pd != nullptr ? pd->context : context,
        xrcd != nullptr ? xrcd->context : context,
        attr.send_cq != nullptr ? attr.send_cq->context : context,
        attr.recv_cq != nullptr ? attr.recv_cq->context : context,
        attr.srq != nullptr ? attr.srq->context : context}) {
    if (of == context) continue;
    return Refusal(ErrorCode::kForeignObject,
                   "create_qp: domain and queues are of different contexts");
  }
  return absl::OkStatus();
}

control::QpRequest RequestOf(QpService service, ProtectionDomain* domain,
                             XrcDomain* xrc_domain,
                             const ibv_qp_init_attr& attr) {
  control::QpRequest request;
  request.service = service;
  if (domain != nullptr) {
    request.pd = &domain->control();
    request.single_threaded = domain->thread_domain != nullptr;
    request.allocator = domain->allocator.get();
  }
  if (xrc_domain != nullptr) request.xrcd = xrc_domain->control.get();
  if (attr.srq != nullptr) {
    request.srq = SharedReceiveQueue::From(attr.srq)->control.get();
  }
  if (attr.send_cq != nullptr) {
    request.send_cq = CompletionQueueHandle::From(attr.send_cq)->control.get();
  }
  if (attr.recv_cq != nullptr) {
    request.recv_cq = CompletionQueueHandle::From(attr.recv_cq)->control.get();
  }
  request.caps = FromIbv(attr.cap);
  request.sq_sig_all = attr.sq_sig_all != 0;
  return request;
}

}  // namespace

ibv_qp* Keep(ibv_context* ibv, Handle<QueuePair> handle) {
  handle->posting = &handle->control->posting();
  handle->block = handle->control->block();
  handle->parts = handle->control->parts();
  handle->context = Context::From(ibv);
  ibv_qp& qp = handle->qp;
  qp.context = ibv;
  qp.handle = qp.qp_num = handle->control->qpn();
  pthread_mutex_init(&qp.mutex, nullptr);
  pthread_cond_init(&qp.cond, nullptr);
  if (handle->domain != nullptr) ++handle->domain->users;
  if (handle->xrc_domain != nullptr) ++handle->xrc_domain->users;
  handle->context->Add(handle.get(), qp.qp_num);
  return &handle.release()->qp;
}

ibv_qp* MakeQp(ibv_context* ibv, ibv_pd* pd, ibv_xrcd* xrcd,
               ibv_qp_init_attr* attr) {
  Context* context = Context::From(ibv);
  const absl::StatusOr<QpService> service =
      ServiceOf(*attr, context->device().kind());
  if (!service.ok()) return FailNull(ibv, service.status());
  if (const int error = InspectAll(ibv, "create_qp", pd, xrcd, attr->send_cq,
                                   attr->recv_cq, attr->srq)) {
    return FailNull(error);
  }
  if (absl::Status s = CheckContexts(ibv, pd, xrcd, *attr); !s.ok()) {
    return FailNull(ibv, s);
  }
  auto handle = MakeHandle<QueuePair>();
  // A target belongs to an XRC domain, all others to a protection domain.
  const bool target = *service == QpService::kXrcTarget;
  if (!target && pd != nullptr) handle->domain = ProtectionDomain::From(pd);
  if (target && xrcd != nullptr) handle->xrc_domain = XrcDomain::From(xrcd);
  control::QpRequest request =
      RequestOf(*service, handle->domain, handle->xrc_domain, *attr);
  request.events = context;
  request.user = handle.get();
  auto created = control::Qp::Create(context->device(), request);
  if (!created.ok()) return FailNull(ibv, created.status());
  handle->control = *std::move(created);
  handle->sq_sig_all = attr->sq_sig_all;
  ibv_qp& qp = handle->qp;
  qp.qp_context = attr->qp_context;
  // For targets, too, as in libibverbs: librdmacm uses the domain that it gave.
  qp.pd = pd;
  qp.send_cq = attr->send_cq;
  qp.recv_cq = attr->recv_cq;
  qp.srq = attr->srq;
  qp.state = IBV_QPS_RESET;
  qp.qp_type = attr->qp_type;
  attr->cap = ToIbv(handle->control->caps());
  return Keep(ibv, std::move(handle));
}

ibv_qp* OpenQp(ibv_context* ibv, ibv_qp_open_attr* attr) {
  constexpr uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  if (const uint32_t bits = attr->comp_mask & ~kKnown) {
    return FailNull(
        ibv, Refusal(ErrorCode::kNotBuilt,
                     absl::StrCat("open_qp: comp_mask 0x", absl::Hex(bits),
                                  " is not known")));
  }
  if ((attr->comp_mask & kNeeded) != kNeeded || attr->xrcd == nullptr ||
      attr->xrcd->context != ibv ||
      Number(attr->qp_type) != uint32_t{IBV_QPT_XRC_RECV}) {
    return FailNull(ibv, Refusal(ErrorCode::kBadAttribute,
                                 "open_qp: needs the number of an XRC target "
                                 "and its domain, opened in "
                                 "this context"));
  }
  if (const int error = InspectAll(ibv, "open_qp", attr->xrcd))
    return FailNull(error);
  auto handle = MakeHandle<QueuePair>();
  handle->xrc_domain = XrcDomain::From(attr->xrcd);
  handle->control =
      control::Qp::Open(*handle->xrc_domain->control, attr->qp_num,
                        Context::From(ibv), handle.get());
  if (handle->control == nullptr) {
    return FailNull(
        ibv,
        Refusal(ErrorCode::kBadAttribute,
                absl::StrCat("open_qp: the domain has no target queue pair ",
                             attr->qp_num)));
  }
  if ((attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) {
    handle->qp.qp_context = attr->qp_context;
  }
  handle->qp.state =
      static_cast<ibv_qp_state>(handle->control->Query().qp_state);
  handle->qp.qp_type = IBV_QPT_XRC_RECV;
  return Keep(ibv, std::move(handle));
}

int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int ibv_mask) {
  const uint32_t mask = static_cast<uint32_t>(ibv_mask);
  const auto unknown = [](const ibv_qp_state& state) {
    return Number(state) > uint32_t{IBV_QPS_ERR};
  };
  if (((mask & IBV_QP_STATE) != 0 && unknown(attr->qp_state)) ||
      ((mask & IBV_QP_CUR_STATE) != 0 && unknown(attr->cur_qp_state))) {
    return Fail(qp->context,
                Refusal(ErrorCode::kBadAttribute,
                        absl::StrCat("qp ", qp->qp_num, ": unknown state")));
  }
  return Fail(qp->context,
              QueuePair::From(qp)->control->Modify(FromIbv(*attr, mask), mask));
}

int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init_attr) {
  QueuePair* handle = QueuePair::From(qp);
  const QpAttributes a = handle->control->Query();
  *attr = ibv_qp_attr{};
  attr->qp_state = static_cast<ibv_qp_state>(a.qp_state);
  attr->cur_qp_state = static_cast<ibv_qp_state>(a.cur_qp_state);
  attr->path_mtu = static_cast<ibv_mtu>(a.path_mtu);
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->rq_psn = a.rq_psn;
  attr->qkey = a.qkey;
  attr->sq_psn = a.sq_psn;
  attr->dest_qp_num = a.dest_qp_num;
  attr->qp_access_flags = a.qp_access_flags;
  attr->cap = ToIbv(handle->control->caps());
  attr->ah_attr = ToIbv(a.ah_attr);
  attr->pkey_index = a.pkey_index;
  attr->en_sqd_async_notify = a.en_sqd_async_notify;
  attr->sq_draining = a.sq_draining;
  attr->max_rd_atomic = a.max_rd_atomic;
  attr->max_dest_rd_atomic = a.max_dest_rd_atomic;
  attr->min_rnr_timer = a.min_rnr_timer;
  attr->port_num = a.port_num;
  attr->timeout = a.timeout;
  attr->retry_cnt = a.retry_cnt;
  attr->rnr_retry = a.rnr_retry;
  *init_attr = ibv_qp_init_attr{};
  init_attr->qp_context = qp->qp_context;
  init_attr->send_cq = qp->send_cq;
  init_attr->recv_cq = qp->recv_cq;
  init_attr->srq = qp->srq;
  init_attr->cap = attr->cap;
  init_attr->qp_type = qp->qp_type;
  init_attr->sq_sig_all = handle->sq_sig_all;
  return 0;
}

namespace {

// After End(): waits until the thread that builds a list has noticed, but not
// for a thread that never completes its list.
void AwaitBuilder(const QueuePair& handle) {
  constexpr int kPatienceMs = 1000;
  for (int ms = 0; handle.builder.load() != 0 && ms < kPatienceMs; ++ms)
    usleep(1000);
}

}  // namespace

int DestroyQp(ibv_qp* qp) {
  QueuePair* handle = QueuePair::From(qp);
  // ibv_create_qp(3): detach it first. Closing the device leaves groups itself.
  if (handle->control->IsInGroup()) {
    return Fail(qp->context,
                Refusal(ErrorCode::kInUse,
                        absl::StrCat("destroy_qp: qp ", qp->qp_num,
                                     " is attached to a multicast group")));
  }
  EndOwnList(*handle);
  if (!handle->context->End(handle))
    return FailEnding(qp->context, "destroy_qp");
  AwaitBuilder(*handle);
  handle->LetGo();
  // From now on there are no more events. Unread ones are removed, and the
  // others must be acknowledged.
  uint32_t events = handle->async_events;
  if (events != 0) {
    events -= handle->context->events().Drop(reinterpret_cast<uint64_t>(qp));
  }
  handle->context->AwaitAcknowledged(
      &qp->mutex, &qp->cond, absl::StrCat("qp ", qp->qp_num),
      [&] { return qp->events_completed == events; });
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  ProtectionDomain* domain = handle->domain;
  XrcDomain* xrc_domain = handle->xrc_domain;
  handle->context->Delete(handle);
  if (domain != nullptr) --domain->users;
  if (xrc_domain != nullptr) --xrc_domain->users;
  return 0;
}

int QueryEce(ibv_qp*, ibv_ece* ece) {
  *ece = {};
  return 0;
}

int SetEce(ibv_qp* qp, ibv_ece* ece) {
  if (ece->vendor_id == 0 && ece->options == 0 && ece->comp_mask == 0) return 0;
  return Fail(qp->context, Refusal(ErrorCode::kBadAttribute,
                                   absl::StrCat("set_ece: qp ", qp->qp_num,
                                                " has no options of vendor 0x",
                                                absl::Hex(ece->vendor_id))));
}

namespace {

wire::Gid GidOf(const ibv_gid* gid) { return wire::Gid::FromIpv6(gid->raw); }

}  // namespace

int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return Fail(qp->context, QueuePair::From(qp)->control->JoinGroup(GidOf(gid)));
}

int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return Fail(qp->context,
              QueuePair::From(qp)->control->LeaveGroup(GidOf(gid)));
}

}  // namespace urnic::provider
