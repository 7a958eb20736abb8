// Extended completion queues: creation, and polling by an iterator whose fields
// are read one by one (ibv_create_cq_ex(3)). The completions come from poll.cc.

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "datapath/engine/environment.h"
#include "ras/errors/refusal.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

namespace {

bool Next(CompletionQueueHandle& handle) {
  if (!PollOne(handle)) return false;
  handle.extended.wr_id = handle.current.wr_id;
  handle.extended.status = handle.current.status;
  return true;
}

void EndBatch(CompletionQueueHandle& handle) {
  handle.poller.store(0, std::memory_order_relaxed);
  if (handle.batch_lock != nullptr) handle.batch_lock->Unlock();
}

bool IsOwnBatch(const CompletionQueueHandle& handle) {
  return handle.poller.load(std::memory_order_relaxed) == ThisThread();
}

[[gnu::cold, gnu::noinline]] int RefuseMask(CompletionQueueHandle& handle,
                                            uint32_t mask) {
  return Fail(
      handle.cq.context,
      Refusal(ErrorCode::kBadAttribute,
              absl::StrCat("start_poll: cq ", handle.control->number(),
                           ": comp_mask 0x", absl::Hex(mask), " must be 0")));
}

int StartPoll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  CompletionQueueHandle* const handle = CompletionQueueHandle::From(cq);
  const Presence inside(handle);
  if (!MayUse(inside, handle))
    return errno = WhyNot(inside, &handle->cq, "start_poll");
  if (attr != nullptr && attr->comp_mask != 0)
    return errno = RefuseMask(*handle, attr->comp_mask);
  // A signal handler calls this between start_poll and end_poll of its thread.
  if (IsOwnBatch(*handle)) return errno = EDEADLK;
  if (handle->batch_lock != nullptr) handle->batch_lock->Lock();
  handle->poller.store(ThisThread(), std::memory_order_relaxed);
  if (Next(*handle)) return 0;
  // After ENOENT, the program does not call end_poll.
  EndBatch(*handle);
  if (control::HasFailed(*handle->control->polling().mailbox))
    return errno = EBUSY;
  return ENOENT;
}

int NextPoll(ibv_cq_ex* cq) {
  CompletionQueueHandle* const handle = CompletionQueueHandle::From(cq);
  const Presence inside(handle);
  if (!MayUse(inside, handle))
    return errno = WhyNot(inside, &handle->cq, "next_poll");
  return Next(*handle) ? 0 : ENOENT;
}

void EndPoll(ibv_cq_ex* cq) {
  CompletionQueueHandle* const handle = CompletionQueueHandle::From(cq);
  if (HasStartMark(handle) && IsOwnBatch(*handle)) EndBatch(*handle);
}

// Reads one field of the current completion.
template <auto kField>
auto Read(ibv_cq_ex* cq) {
  return CompletionQueueHandle::From(cq)->current.*kField;
}
uint32_t ReadSlid(ibv_cq_ex* cq) { return Read<&ibv_wc::slid>(cq); }
// The field is in a union with the key that a peer has invalidated.
__be32 ReadImmData(ibv_cq_ex* cq) { return Read<&ibv_wc::imm_data>(cq); }

uint64_t ReadTime(ibv_cq_ex* cq) {
  return CompletionQueueHandle::From(cq)->current_time_ns;
}
uint64_t ReadWallClock(ibv_cq_ex* cq) {
  const Time then = Time::FromNs(static_cast<int64_t>(ReadTime(cq)));
  return static_cast<uint64_t>(Environment::WallClockNs(then));
}

// All standard fields are readable, requested or not.
void SetReaders(ibv_cq_ex& cq) {
  cq.start_poll = StartPoll;
  cq.next_poll = NextPoll;
  cq.end_poll = EndPoll;
  cq.read_opcode = Read<&ibv_wc::opcode>;
  cq.read_vendor_err = Read<&ibv_wc::vendor_err>;
  cq.read_byte_len = Read<&ibv_wc::byte_len>;
  cq.read_imm_data = ReadImmData;
  cq.read_qp_num = Read<&ibv_wc::qp_num>;
  cq.read_src_qp = Read<&ibv_wc::src_qp>;
  cq.read_wc_flags = Read<&ibv_wc::wc_flags>;
  cq.read_slid = ReadSlid;
  cq.read_sl = Read<&ibv_wc::sl>;
  cq.read_dlid_path_bits = Read<&ibv_wc::dlid_path_bits>;
  cq.read_completion_ts = ReadTime;
  cq.read_completion_wallclock_ns = ReadWallClock;
}

absl::Status CheckFeatures(const ibv_cq_init_attr_ex& attr) {
  constexpr uint32_t kMasks =
      IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const auto refuse = [](const char* what, uint64_t bits) {
    return Refusal(ErrorCode::kNotBuilt,
                   absl::StrCat("create_cq_ex: ", what, " 0x", absl::Hex(bits),
                                " are not built"));
  };
  constexpr uint64_t kFields =
      uint64_t{IBV_WC_STANDARD_FLAGS} |
      uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
      uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
  if (const uint64_t bits = attr.wc_flags & ~kFields) {
    return refuse("wc_flags", bits);
  }
  if (const uint32_t bits = attr.comp_mask & ~kMasks) {
    return refuse("comp_mask", bits);
  }
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) == 0) {
    return absl::OkStatus();
  }
  constexpr uint32_t kFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if (const uint32_t bits = attr.flags & ~kFlags) {
    return refuse("flags", bits);
  }
  return absl::OkStatus();
}

// The parent domain of the queue, if one is given.
absl::StatusOr<ProtectionDomain*> DomainOf(ibv_context* ibv,
                                           const ibv_cq_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) == 0) return nullptr;
  if (InspectAll(ibv, "create_cq_ex", attr.parent_domain) != 0) {
    return Refusal(ErrorCode::kObjectEnded,
                   "create_cq_ex: parent_domain cannot be used");
  }
  ProtectionDomain* domain = attr.parent_domain != nullptr
                                 ? ProtectionDomain::From(attr.parent_domain)
                                 : nullptr;
  if (domain == nullptr || domain->parent == nullptr ||
      domain->context != Context::From(ibv)) {
    return Refusal(
        ErrorCode::kForeignObject,
        "create_cq_ex: parent_domain is not a parent domain of this context");
  }
  return domain;
}

}  // namespace

void EndOwnBatch(CompletionQueueHandle& handle) {
  if (IsOwnBatch(handle)) EndBatch(handle);
}

ibv_cq_ex* CreateCqEx(ibv_context* ibv, ibv_cq_init_attr_ex* attr) {
  if (absl::Status s = CheckFeatures(*attr); !s.ok()) return FailNull(ibv, s);
  const absl::StatusOr<ProtectionDomain*> domain = DomainOf(ibv, *attr);
  if (!domain.ok()) return FailNull(ibv, domain.status());
  control::CqRequest request;
  request.entries = attr->cqe;
  request.comp_vector = attr->comp_vector;
  request.single_threaded =
      ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
       (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) ||
      (*domain != nullptr && (*domain)->thread_domain != nullptr);
  request.ignore_overrun =
      (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
      (attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  if (*domain != nullptr) request.allocator = (*domain)->allocator.get();
  CompletionQueueHandle* handle = MakeCq(ibv, request, attr->channel);
  if (handle == nullptr) return nullptr;
  if (!request.single_threaded) {
    handle->batch_lock = &handle->batch_lock_storage;
  }
  handle->domain = *domain;
  if (handle->domain != nullptr) ++handle->domain->users;
  SetReaders(handle->extended);
  return &handle->extended;
}

}  // namespace urnic::provider
