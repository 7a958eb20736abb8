// Windows of RUD: the functions behind urnic_dv.h, which says what they do.

#include "verbs/provider/rud_ops.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/rud_memory.h"
#include "verbs/control/rud_verbs.h"
#include "verbs/direct/provider_table.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"
#include "verbs/provider/verb.h"

namespace urnic::provider {

int RefuseMask(ibv_context* ibv, const char* verb, uint64_t mask) {
  return Fail(ibv, Refusal(ErrorCode::kNotBuilt,
                           absl::StrCat(verb, ": comp_mask 0x", absl::Hex(mask),
                                        " is not known")));
}

control::Qp* WindowOf(ibv_qp* qp, const char* verb) {
  control::Qp* const control = QueuePair::From(qp)->control.get();
  if (control->rud() != nullptr) return control;
  static_cast<void>(
      Fail(qp->context, Refusal(ErrorCode::kBadAttribute,
                                absl::StrCat(verb, ": queue pair ", qp->qp_num,
                                             " is not a window of RUD"))));
  return nullptr;
}

namespace {

constexpr uint32_t kSendEntries = 256;
constexpr uint32_t kReceiveEntries = 1024;

// As programs choose by default. 0, which is of RoCE v1: there is none.
int32_t UsualGid(const control::GidTable& gids) {
  int32_t first = 0;
  for (const control::GidPair& pair : gids.Pairs()) {
    const auto index = static_cast<int32_t>(pair.index) + 1;
    if (pair.gid.is_ipv4()) return index;
    if (first == 0) first = index;
  }
  return first;
}

urnic_dv_window ToC(const control::Qp& qp) {
  const control::RudView& view = qp.rud()->view();
  return {.number = qp.qpn(),
          .job = view.job,
          .key = view.key,
          .max_payload = view.max_payload,
          .slot_bytes = view.slot_bytes,
          .send_entries = view.send_entries,
          .receive_entries = view.receive_entries,
          .gid_index = UsualGid(qp.device().gids()),
          .sends = view.sends,
          .send_indices = view.send_indices,
          .send_slots = view.send_slots,
          .receives = view.receives,
          .receive_indices = view.receive_indices,
          .receive_slots = view.receive_slots};
}

ibv_qp* CreateWindow(ibv_pd* pd, const urnic_dv_window_attr* attr,
                     urnic_dv_window* window) {
  ibv_context* const ibv = pd->context;
  if (attr->comp_mask != 0) {
    return FailNull(RefuseMask(ibv, "create_window", attr->comp_mask));
  }
  Context* const context = Context::From(ibv);
  auto handle = MakeHandle<QueuePair>();
  handle->domain = ProtectionDomain::From(pd);
  const auto or_else = [](uint32_t wanted, uint32_t usual) {
    return wanted != 0 ? wanted : usual;
  };
  control::QpRequest request;
  request.service = QpService::kRud;
  request.pd = &handle->domain->control();
  request.caps.max_send_wr = or_else(attr->send_entries, kSendEntries);
  request.caps.max_recv_wr = or_else(attr->receive_entries, kReceiveEntries);
  request.rud = {.job = attr->job, .slot_bytes = attr->slot_bytes};
  request.allocator = handle->domain->allocator.get();
  request.events = context;
  request.user = handle.get();
  auto created = control::Qp::Create(context->device(), request);
  if (!created.ok()) return FailNull(ibv, created.status());
  handle->control = *std::move(created);
  ibv_qp& qp = handle->qp;
  qp.qp_context = attr->qp_context;
  qp.pd = pd;
  qp.state = IBV_QPS_RTS;
  qp.qp_type = IBV_QPT_DRIVER;
  *window = ToC(*handle->control);
  return Keep(ibv, std::move(handle));
}

int AddPeer(ibv_qp* qp, const urnic_dv_peer_attr* attr, uint32_t* peer) {
  control::Qp* const window = WindowOf(qp, "add_peer");
  if (window == nullptr) return EINVAL;
  if (attr->comp_mask != 0)
    return RefuseMask(qp->context, "add_peer", attr->comp_mask);
  const auto number = control::AddRudPeer(
      *window, {VectorOf(attr->ah), attr->window, attr->key});
  if (!number.ok()) return Fail(qp->context, number.status());
  *peer = *number;
  return 0;
}

int RemovePeer(ibv_qp* qp, uint32_t peer) {
  control::Qp* const window = WindowOf(qp, "remove_peer");
  if (window == nullptr) return EINVAL;
  return Fail(qp->context, control::RemoveRudPeer(*window, peer));
}

int JoinGroup(ibv_qp* qp, const urnic_dv_group_attr* attr) {
  control::Qp* const window = WindowOf(qp, "join_group");
  if (window == nullptr) return EINVAL;
  if (attr->comp_mask != 0)
    return RefuseMask(qp->context, "join_group", attr->comp_mask);
  if (attr->count > control::kMaxRudGroupContexts ||
      (attr->count != 0 && attr->contexts == nullptr)) {
    return Fail(qp->context,
                Refusal(attr->contexts == nullptr ? ErrorCode::kBadAttribute
                                                  : ErrorCode::kNoPlace,
                        absl::StrCat("join_group: ", attr->count,
                                     " contexts, of at most ",
                                     control::kMaxRudGroupContexts)));
  }
  rud::Membership as;
  as.key = attr->key;
  for (uint32_t i = 0; i < attr->count; ++i)
    as.contexts.push_back(rud::ContextId::Of(attr->contexts[i]));
  as.pvo.value = attr->pvo;
  as.bytes = attr->bytes;
  return Fail(qp->context, control::JoinRudGroup(
                               *window, wire::Gid::FromIpv6(attr->group.raw),
                               attr->peer, as));
}

int LeaveGroup(ibv_qp* qp, const ibv_gid* group, uint32_t peer) {
  control::Qp* const window = WindowOf(qp, "leave_group");
  if (window == nullptr) return EINVAL;
  return Fail(qp->context, control::LeaveRudGroup(
                               *window, wire::Gid::FromIpv6(group->raw), peer));
}

int AcquireContexts(ibv_qp* qp, uint32_t count, uint64_t* contexts) {
  control::Qp* const window = WindowOf(qp, "acquire_contexts");
  if (window == nullptr) return EINVAL;
  return Fail(qp->context,
              control::AcquireRudContexts(*window, {contexts, count}));
}

int ReleaseContext(ibv_qp* qp, uint64_t rud_context) {
  control::Qp* const window = WindowOf(qp, "release_context");
  if (window == nullptr) return EINVAL;
  return Fail(qp->context, control::ReleaseRudContext(*window, rud_context));
}

// Calls f(memory), which returns a status.
template <typename F>
int WithMemory(ibv_context* ibv, F&& f) {
  const auto memory = control::RudMemory::Find();
  return Fail(ibv, memory.ok() ? f(**memory) : memory.status());
}

int RegisterMemory(ibv_context* ibv, uint32_t job, void* address,
                   uint64_t bytes, unsigned access, uint64_t* pvo) {
  return WithMemory(ibv, [&](control::RudMemory& memory) {
    const auto made =
        memory.Register(Context::From(ibv)->device(), job,
                        {.address = reinterpret_cast<uint64_t>(address),
                         .bytes = bytes,
                         .access = access});
    if (made.ok()) *pvo = made->value;
    return made.status();
  });
}

int Deregister(ibv_context* ibv, uint32_t job, uint64_t pvo) {
  return WithMemory(ibv, [&](control::RudMemory& memory) {
    return memory.Deregister(job, rud::Pvo{pvo});
  });
}

int Revoke(ibv_context* ibv, uint32_t job, uint64_t pvo) {
  return WithMemory(ibv, [&](control::RudMemory& memory) {
    return memory.Revoke(job, rud::Pvo{pvo});
  });
}

int RevokeJob(ibv_context* ibv, uint32_t job) {
  return WithMemory(ibv, [&](control::RudMemory& memory) {
    memory.RevokeJob(job);
    return absl::OkStatus();
  });
}

int ReadSnapshot(ibv_context* ibv, uint64_t* snapshot) {
  return WithMemory(ibv, [&](control::RudMemory& memory) {
    *snapshot = memory.Snapshot();
    return absl::OkStatus();
  });
}

// As those that post and poll.

int Ring(ibv_qp* qp) {
  QueuePair* const handle = QueuePair::From(qp);
  const Presence inside(handle);
  if (__builtin_expect(!MayUse(inside, handle), 0))
    return WhyNot(inside, qp, "ring");
  control::Qp::Posting& posting = *handle->posting;
  posting.engine->Doorbell(*posting.engine_qp);
  return 0;
}

int Progress(ibv_qp* qp) {
  QueuePair* const handle = QueuePair::From(qp);
  const Presence inside(handle);
  if (__builtin_expect(!MayUse(inside, handle), 0))
    return WhyNot(inside, qp, "progress");
  control::Qp::Posting& posting = *handle->posting;
  posting.engine->Progress();
  return control::HasFailed(*posting.mailbox) ? EBUSY : 0;
}

}  // namespace

extern "C" const urnic_dv_table urnic_dv_table_v1 = {
    .bytes = sizeof(urnic_dv_table),
    .create_window = kVerb<CreateWindow>,
    .add_peer = kVerb<AddPeer>,
    .remove_peer = kVerb<RemovePeer>,
    .acquire_contexts = kVerb<AcquireContexts>,
    .release_context = kVerb<ReleaseContext>,
    .register_memory = kVerb<RegisterMemory>,
    .deregister = kVerb<Deregister>,
    .ring = Ring,
    .progress = Progress,
    .revoke = kVerb<Revoke>,
    .revoke_job = kVerb<RevokeJob>,
    .read_snapshot = kVerb<ReadSnapshot>,
    .create_handler = kVerb<CreateHandler>,
    .destroy_handler = kVerb<DestroyHandler>,
    .arm_handler = kVerb<ArmHandler>,
    .disarm_handler = kVerb<DisarmHandler>,
    .bind_handlers = kVerb<BindHandlers>,
    .join_group = kVerb<JoinGroup>,
    .leave_group = kVerb<LeaveGroup>};

}  // namespace urnic::provider
