// Posting work requests: translates libibverbs' lists directly into the ring.
// ops.h says what is refused.

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/error_code.h"
#include "transport/work/request.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

namespace {

using Posting = control::Qp::Posting;

static_assert(URNIC_WR_SEND_WITH_INV == int{IBV_WR_SEND_WITH_INV} &&
              URNIC_WR_BIND_MW == int{IBV_WR_BIND_MW} &&
              URNIC_WR_LOCAL_INV == int{IBV_WR_LOCAL_INV} &&
              URNIC_WR_ATOMIC_WRITE == int{IBV_WR_ATOMIC_WRITE} &&
              URNIC_WR_ATOMIC_FETCH_AND_ADD ==
                  int{IBV_WR_ATOMIC_FETCH_AND_ADD} &&
              URNIC_WR_RDMA_READ == int{IBV_WR_RDMA_READ});
static_assert(URNIC_SEND_FENCE == int{IBV_SEND_FENCE} &&
              URNIC_SEND_SIGNALED == int{IBV_SEND_SIGNALED} &&
              URNIC_SEND_SOLICITED == int{IBV_SEND_SOLICITED} &&
              URNIC_SEND_INLINE == int{IBV_SEND_INLINE});
static_assert(sizeof(ibv_sge) == sizeof(urnic_sge) &&
              offsetof(ibv_sge, length) == offsetof(urnic_sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(urnic_sge, lkey));

constexpr uint32_t kSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
// A request names an address handle that cannot be used; see SuspectAddress().
constexpr int kSuspectAddress = -1;
constexpr uint32_t Bit(uint32_t opcode) { return 1u << opcode; }
constexpr RequestSet kAtomics = RequestsOf(RequestFamily::kAtomic);
// struct ibv_send_wr cannot express these; only ibv_wr_flush can.
constexpr uint32_t kListOnly = Bit(URNIC_WR_FLUSH);
// The largest opcode of libibverbs; some smaller ones are not built.
constexpr uint32_t kLastOpcode = IBV_WR_ATOMIC_WRITE;

// Returns 0, or the errno of a request that cannot go into the ring.
inline int Check(const Posting& posting, const ibv_send_wr& wr) {
  const uint32_t opcode = Number(wr.opcode);
  if (opcode > kLastOpcode) return EINVAL;
  if ((Bit(opcode) & posting.opcodes & ~kListOnly) == 0) {
    constexpr RequestSet kBuilt = kAllRequests & ~kListOnly;
    return (Bit(opcode) & kBuilt) == 0 ? EOPNOTSUPP : EINVAL;
  }
  if ((wr.send_flags & ~kSendFlags) != 0) return EINVAL;
  if (static_cast<uint32_t>(wr.num_sge) > posting.max_send_sge) return EINVAL;
  if ((Bit(opcode) & kAnsweredRequests) != 0) {
    if ((wr.send_flags & IBV_SEND_INLINE) != 0 &&
        opcode != IBV_WR_ATOMIC_WRITE) {
      return EINVAL;
    }
    if (!posting.may_read.load(std::memory_order_relaxed)) return EINVAL;
  }
  return 0;
}

// Copies inline data after the header. Returns EINVAL if it is too long.
inline int CopyInline(const Posting& posting, const ibv_send_wr& wr,
                      urnic_sq_wqe* wqe) {
  auto* to = reinterpret_cast<uint8_t*>(wqe + 1);
  uint32_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length > posting.max_inline - bytes) return EINVAL;
    if (sge.length == 0) continue;
    std::memcpy(to + bytes, reinterpret_cast<const void*>(sge.addr),
                sge.length);
    bytes += sge.length;
  }
  wqe->inline_bytes = static_cast<uint16_t>(bytes);
  return 0;
}

[[gnu::cold, gnu::noinline]] int WriteLocal(const ibv_send_wr& wr,
                                            urnic_sq_wqe* wqe) {
  wqe->flags &= static_cast<uint8_t>(~URNIC_SEND_INLINE);
  wqe->num_sge = 0;
  if (wr.opcode == IBV_WR_LOCAL_INV) return 0;  // the key is written
  if (wr.bind_mw.mw == nullptr || wr.bind_mw.mw->type != IBV_MW_TYPE_2) {
    return EINVAL;
  }
  return WriteBind(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, wqe);
}

inline int WriteSend(const Posting& posting, const ibv_send_wr& wr,
                     uint8_t* entry) {
  if (const int error = Check(posting, wr)) return error;
  auto* wqe = reinterpret_cast<urnic_sq_wqe*>(entry);
  wqe->opcode = static_cast<uint8_t>(wr.opcode);
  wqe->flags = static_cast<uint8_t>(wr.send_flags);
  wqe->num_sge = static_cast<uint16_t>(wr.num_sge);
  wqe->imm_or_key = wr.imm_data;
  wqe->wr_id = wr.wr_id;
  // RDMA and atomic requests have it at the same offset.
  wqe->remote_addr = wr.wr.rdma.remote_addr;
  if (__builtin_expect((Bit(wr.opcode) & (kAtomics | kLocalRequests)) != 0,
                       0)) {
    if ((Bit(wr.opcode) & kLocalRequests) != 0) return WriteLocal(wr, wqe);
    wqe->rkey = wr.wr.atomic.rkey;
    wqe->xrc_srqn = wr.qp_type.xrc.remote_srqn;
    wqe->compare_add = wr.wr.atomic.compare_add;
    wqe->swap = wr.wr.atomic.swap;
  } else if (posting.datagrams) {
    AddressHandle* const ah = AddressHandle::From(wr.wr.ud.ah);
    if (ah == nullptr) return EINVAL;
    if (__builtin_expect(!HasStartMark(ah), 0)) return kSuspectAddress;
    wqe->to.address_handle = ah->number;
    wqe->to.qpn = wr.wr.ud.remote_qpn;
    wqe->remote_qkey = wr.wr.ud.remote_qkey;
  } else {
    wqe->rkey = wr.wr.rdma.rkey;
    if (__builtin_expect(posting.xrc, 0)) {
      wqe->xrc_srqn = wr.qp_type.xrc.remote_srqn;
    }
  }
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    return CopyInline(posting, wr, wqe);
  }
  auto* to = reinterpret_cast<ibv_sge*>(wqe + 1);
  for (int i = 0; i < wr.num_sge; ++i) to[i] = wr.sg_list[i];
  return 0;
}
static_assert(offsetof(ibv_send_wr, wr.rdma.remote_addr) ==
              offsetof(ibv_send_wr, wr.atomic.remote_addr));

inline int WriteRecv(uint32_t max_sge, const ibv_recv_wr& wr, uint8_t* entry) {
  if (static_cast<uint32_t>(wr.num_sge) > max_sge) return EINVAL;
  auto* wqe = reinterpret_cast<urnic_rq_wqe*>(entry);
  wqe->wr_id = wr.wr_id;
  wqe->num_sge = static_cast<uint32_t>(wr.num_sge);
  wqe->reserved = 0;
  auto* to = reinterpret_cast<ibv_sge*>(wqe + 1);
  for (int i = 0; i < wr.num_sge; ++i) to[i] = wr.sg_list[i];
  return 0;
}

// Writes the list into the ring and publishes it. Returns 0, or the errno of
// the request at which it stopped, to which `wr` then points.
template <typename Wr, typename Write>
inline int Fill(control::WorkRing& ring, Wr*& wr, Write&& write) {
  const uint32_t before = ring.producer();
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    uint8_t* entry = ring.Next();
    error = entry == nullptr ? ENOMEM : write(*wr, entry);
    if (error != 0) break;
    ring.Advance();
  }
  if (ring.producer() != before) ring.Publish();
  return error;
}

// The reason for refusing a request, in words.
std::string WhyRefused(const Posting& posting, const ibv_send_wr& wr) {
  const uint32_t opcode = Number(wr.opcode);
  if (!posting.may_send.load(std::memory_order_relaxed))
    return "the queue pair is not in state RTS";
  if (opcode > kLastOpcode || (Bit(opcode) & posting.opcodes) == 0)
    return absl::StrCat("opcode ", opcode, " is not one of its service");
  if (static_cast<uint32_t>(wr.num_sge) > posting.max_send_sge) {
    return absl::StrCat("num_sge ", wr.num_sge, ", max_send_sge is ",
                        posting.max_send_sge);
  }
  if ((Bit(opcode) & kAnsweredRequests) != 0 &&
      !posting.may_read.load(std::memory_order_relaxed)) {
    return absl::StrCat("opcode ", opcode, ", but max_rd_atomic is 0");
  }
  return absl::StrCat("opcode ", opcode, ", send_flags 0x",
                      absl::Hex(wr.send_flags), ", max_inline_data is ",
                      posting.max_inline);
}

std::string WhyRefused(const Posting& posting, const ibv_recv_wr& wr) {
  if (posting.shares_receives) return "it uses a shared receive queue";
  if (!posting.may_recv.load(std::memory_order_relaxed))
    return "the queue pair is in state RESET";
  return absl::StrCat("num_sge ", wr.num_sge, ", max_recv_sge is ",
                      posting.max_recv_sge);
}

ErrorCode CodeOfErrno(int error) {
  if (error == EPERM) return ErrorCode::kForeignObject;
  return error == EOPNOTSUPP ? ErrorCode::kNotBuilt : ErrorCode::kBadAttribute;
}

// Reports the request at which a call stopped.
template <typename Wr, typename Why>
[[gnu::cold, gnu::noinline]] int Refuse(int error, ibv_context* context,
                                        Failure failure, Wr* wr, Wr** bad,
                                        const Why& why) {
  if (IsMistake(error))
    NoteRefusedPost(error, context, std::move(failure), why());
  *bad = wr;
  errno = error;
  return error;
}

// Refuses the whole list.
template <typename Wr>
int RefuseAll(int error, Wr* wr, Wr** bad) {
  *bad = wr;
  return errno = error;
}

// A parent domain is another name of its domain.
bool OneDomain(ibv_pd* a, ibv_pd* b) {
  return &ProtectionDomain::From(a)->control() ==
         &ProtectionDomain::From(b)->control();
}

}  // namespace

void NoteRefusedPost(int error, ibv_context* context, Failure failure,
                     std::string why) {
  failure.code = CodeOfErrno(error);
  failure.text = std::move(why);
  Context::From(context)->device().NotePostRefusal(std::move(failure));
}

const char* WhyNoBind(int error) {
  return error == EPERM
             ? "window and region are of different protection domains"
             : "a window, a region or access flags that cannot be bound";
}

int WriteBind(ibv_mw* mw, uint32_t new_key, const ibv_mw_bind_info& info,
              urnic_sq_wqe* wqe) {
  constexpr unsigned kRights = IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_ATOMIC;
  constexpr unsigned kKnown =
      kRights | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED;
  if (mw == nullptr || !HasStartMark(MemoryWindow::From(mw)) ||
      (info.mr != nullptr && !HasStartMark(Ours(info.mr))) ||
      (info.mw_access_flags & ~kKnown) != 0 ||
      (info.mr == nullptr && (info.addr != 0 || info.length != 0))) {
    return EINVAL;
  }
  if (info.mr != nullptr && !OneDomain(info.mr->pd, mw->pd)) return EPERM;
  wqe->imm_or_key = new_key;
  wqe->remote_addr = info.addr;
  wqe->bind = {.window = mw->rkey,
               .region = info.mr != nullptr ? info.mr->rkey : 0,
               .length = info.length,
               .access = info.mw_access_flags &
                         (kRights | unsigned{IBV_ACCESS_ZERO_BASED})};
  return 0;
}

int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  QueuePair* const handle = QueuePair::From(qp);
  const Presence inside(handle);
  if (__builtin_expect(!MayUse(inside, handle), 0))
    return RefuseAll(WhyNot(inside, qp, "post_send"), wr, bad);
  Posting& posting = *handle->posting;
  int error = WhyNoPost(posting.may_send, posting);
  if (__builtin_expect(error == 0, 1)) {
    posting.engine_qp->Prefetch();
    {
      const SendLock lock(*handle);
      if (!lock) return RefuseAll(EDEADLK, wr, bad);
      error = Fill(posting.sq, wr, [&](const ibv_send_wr& r, uint8_t* entry) {
        return WriteSend(posting, r, entry);
      });
    }
    posting.engine->Doorbell(*posting.engine_qp);
  }
  if (__builtin_expect(error == 0, 1)) return 0;
  if (error == kSuspectAddress) {
    AddressHandle* const ah = AddressHandle::From(wr->wr.ud.ah);
    return RefuseAll(RefuseSuspect(SuspectOf(ah, qp->context), "post_send"), wr,
                     bad);
  }
  return Refuse(error, qp->context, {.qpn = qp->qp_num}, wr, bad,
                [&] { return "post_send: " + WhyRefused(posting, *wr); });
}

int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  QueuePair* const handle = QueuePair::From(qp);
  const Presence inside(handle);
  if (__builtin_expect(!MayUse(inside, handle), 0))
    return RefuseAll(WhyNot(inside, qp, "post_recv"), wr, bad);
  Posting& posting = *handle->posting;
  int error =
      posting.shares_receives ? EINVAL : WhyNoPost(posting.may_recv, posting);
  if (__builtin_expect(error == 0, 1)) {
    {
      control::OptionalLock lock(posting.rq_lock);
      error = Fill(posting.rq, wr, [&](const ibv_recv_wr& r, uint8_t* entry) {
        return WriteRecv(posting.max_recv_sge, r, entry);
      });
    }
    // A compiler barrier is enough: if the queue pair fails at this moment, the
    // engine checks it once more (FlowScheduler).
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(posting.engine_qp->wants_recv_doorbell(), 0)) {
      posting.engine->Doorbell(*posting.engine_qp);
    }
  }
  if (__builtin_expect(error == 0, 1)) return 0;
  return Refuse(error, qp->context, {.qpn = qp->qp_num}, wr, bad,
                [&] { return "post_recv: " + WhyRefused(posting, *wr); });
}

int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  SharedReceiveQueue* const handle = SharedReceiveQueue::From(srq);
  const Presence inside(handle);
  if (__builtin_expect(!MayUse(inside, handle), 0))
    return RefuseAll(WhyNot(inside, srq, "post_srq_recv"), wr, bad);
  control::Srq::Posting& posting = handle->control->posting();
  int error = control::IsFailing(*posting.mailbox) ? EBUSY : 0;
  if (__builtin_expect(error == 0, 1)) {
    control::OptionalLock lock(posting.lock);
    error = Fill(posting.ring, wr, [&](const ibv_recv_wr& r, uint8_t* entry) {
      return WriteRecv(posting.max_sge, r, entry);
    });
  }
  if (__builtin_expect(error == 0, 1)) return 0;
  const uint32_t srqn = handle->control->number();
  return Refuse(error, srq->context, {.srqn = srqn}, wr, bad, [&] {
    return absl::StrCat("post_srq_recv: num_sge ", wr->num_sge, ", max_sge is ",
                        posting.max_sge);
  });
}

int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  Posting& posting = *QueuePair::From(qp)->posting;
  const auto refuse = [&](int error, const char* why) {
    NoteRefusedPost(error, qp->context, {.qpn = qp->qp_num},
                    absl::StrCat("bind_mw: ", why));
    return error;
  };
  if (const int error = WhyNoPost(posting.may_send, posting))
    return error == EBUSY ? error
                          : refuse(error, "the queue pair is not in state RTS");
  if ((Bit(IBV_WR_BIND_MW) & posting.opcodes) == 0)
    return refuse(EINVAL, "its service binds no windows");
  if ((bind->send_flags & ~kSendFlags) != 0)
    return refuse(EINVAL, "send_flags has an unknown flag");
  const uint32_t new_key = ibv_inc_rkey(mw->rkey);
  int error = 0;
  {
    const SendLock lock(*QueuePair::From(qp));
    if (!lock) return EDEADLK;
    uint8_t* entry = posting.sq.Next();
    if (entry == nullptr) return ENOMEM;
    auto* wqe = reinterpret_cast<urnic_sq_wqe*>(entry);
    wqe->opcode = URNIC_WR_BIND_MW;
    wqe->flags = static_cast<uint8_t>(bind->send_flags & ~IBV_SEND_INLINE);
    wqe->num_sge = 0;
    wqe->wr_id = bind->wr_id;
    error = WriteBind(mw, new_key, bind->bind_info, wqe);
    if (error == 0) {
      posting.sq.Advance();
      posting.sq.Publish();
      mw->rkey = new_key;
    }
  }
  if (error != 0) return refuse(error, WhyNoBind(error));
  posting.engine->Doorbell(*posting.engine_qp);
  return 0;
}

}  // namespace urnic::provider
