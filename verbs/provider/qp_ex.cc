// Extended queue pairs: creation, and posting work requests that are built call
// by call (ibv_wr_post(3)). Refuses what post.cc refuses; after the first
// refusal, wr_complete posts nothing.

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

namespace {

using Posting = control::Qp::Posting;

constexpr unsigned kSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

// --- Building ---------------------------------------------------------------

void Refuse(WorkList& list, int error, const char* why) {
  if (list.error == 0) {
    list.error = error;
    list.why = why;
  }
  list.last = nullptr;
}

// Whether this thread builds a list on the queue pair.
bool IsOwnList(const QueuePair& qp) {
  return qp.builder.load(std::memory_order_relaxed) == ThisThread();
}

// Whether the calls of a list have an effect.
bool Builds(const QueuePair& qp) {
  return HasStartMark(&qp) && IsOwnList(qp) && qp.list.nested == 0;
}

// The request that setters apply to; nullptr: none.
urnic_sq_wqe* Last(const QueuePair& qp) {
  return Builds(qp) ? qp.list.last : nullptr;
}

// Starts the next request of the list and sets its common fields. nullptr: the
// list has failed, for example because the queue is full.
urnic_sq_wqe* Begin(ibv_qp_ex* ex, uint8_t opcode) {
  QueuePair& qp = *QueuePair::From(ex);
  WorkList& list = qp.list;
  if (!Builds(qp) || list.error != 0) return nullptr;
  uint8_t* entry = qp.posting->sq.Next();
  if (entry == nullptr) {
    Refuse(list, ENOMEM, "the send queue is full");
    return nullptr;
  }
  if ((ex->wr_flags & ~kSendFlags) != 0) {
    Refuse(list, EINVAL, "wr_flags has an unknown flag");
    return nullptr;
  }
  qp.posting->sq.Advance();
  auto* wqe = reinterpret_cast<urnic_sq_wqe*>(entry);
  wqe->opcode = opcode;
  // The setters set IBV_SEND_INLINE.
  wqe->flags = static_cast<uint8_t>(ex->wr_flags & ~IBV_SEND_INLINE);
  wqe->num_sge = 0;
  wqe->wr_id = ex->wr_id;
  list.last = wqe;
  return wqe;
}

// Starts a request that is answered and so counts toward max_rd_atomic.
urnic_sq_wqe* BeginAnswered(ibv_qp_ex* ex, uint8_t opcode) {
  QueuePair& qp = *QueuePair::From(ex);
  if (!Builds(qp)) return nullptr;
  if (!qp.posting->may_read.load(std::memory_order_relaxed)) {
    Refuse(qp.list, EINVAL, "a read or an atomic, but max_rd_atomic is 0");
  }
  return Begin(ex, opcode);
}

void Target(urnic_sq_wqe* wqe, uint32_t rkey, uint64_t remote_addr) {
  if (wqe == nullptr) return;
  wqe->rkey = rkey;
  wqe->remote_addr = remote_addr;
}

void WrSend(ibv_qp_ex* ex) { Begin(ex, URNIC_WR_SEND); }

void WrSendImm(ibv_qp_ex* ex, __be32 imm) {
  if (urnic_sq_wqe* wqe = Begin(ex, URNIC_WR_SEND_WITH_IMM)) {
    wqe->imm_or_key = imm;
  }
}

void WrSendInv(ibv_qp_ex* ex, uint32_t key) {
  if (urnic_sq_wqe* wqe = Begin(ex, URNIC_WR_SEND_WITH_INV)) {
    wqe->imm_or_key = key;
  }
}

void WrWrite(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) {
  Target(Begin(ex, URNIC_WR_RDMA_WRITE), rkey, remote_addr);
}

void WrWriteImm(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr,
                __be32 imm) {
  urnic_sq_wqe* wqe = Begin(ex, URNIC_WR_RDMA_WRITE_WITH_IMM);
  if (wqe != nullptr) wqe->imm_or_key = imm;
  Target(wqe, rkey, remote_addr);
}

void WrRead(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr) {
  Target(BeginAnswered(ex, URNIC_WR_RDMA_READ), rkey, remote_addr);
}

void WrCompareSwap(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr,
                   uint64_t compare, uint64_t swap) {
  urnic_sq_wqe* wqe = BeginAnswered(ex, URNIC_WR_ATOMIC_CMP_AND_SWP);
  if (wqe != nullptr) {
    wqe->compare_add = compare;
    wqe->swap = swap;
  }
  Target(wqe, rkey, remote_addr);
}

void WrFetchAdd(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr,
                uint64_t add) {
  urnic_sq_wqe* wqe = BeginAnswered(ex, URNIC_WR_ATOMIC_FETCH_AND_ADD);
  if (wqe != nullptr) wqe->compare_add = add;
  Target(wqe, rkey, remote_addr);
}

void WrAtomicWrite(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr,
                   const void* value) {
  constexpr uint16_t kBytes = 8;
  urnic_sq_wqe* wqe = BeginAnswered(ex, URNIC_WR_ATOMIC_WRITE);
  if (wqe != nullptr) {
    wqe->flags |= URNIC_SEND_INLINE;
    wqe->inline_bytes = kBytes;
    std::memcpy(wqe + 1, value, kBytes);
  }
  Target(wqe, rkey, remote_addr);
}

// From release 45 on: types IBV_FLUSH_GLOBAL, .._PERSISTENT, levels
// IBV_FLUSH_RANGE, .._MR.
void WrFlush(ibv_qp_ex* ex, uint32_t rkey, uint64_t remote_addr, size_t bytes,
             uint8_t type, uint8_t level) {
  urnic_sq_wqe* wqe = BeginAnswered(ex, URNIC_WR_FLUSH);
  if (wqe != nullptr) {
    const bool known =
        (type & ~(URNIC_FLUSH_GLOBAL | URNIC_FLUSH_PERSISTENT)) == 0 &&
        level <= 1 && bytes <= UINT32_MAX;
    if (!known) {
      Refuse(QueuePair::From(ex)->list, EINVAL,
             "a flush of an unknown type or level, or of more than 4 GiB");
    }
    wqe->compare_add = type | (level != 0 ? unsigned{URNIC_FLUSH_MR} : 0u);
    wqe->swap = bytes;
  }
  Target(wqe, rkey, remote_addr);
}

void WrLocalInv(ibv_qp_ex* ex, uint32_t key) {
  urnic_sq_wqe* wqe = Begin(ex, URNIC_WR_LOCAL_INV);
  if (wqe == nullptr) return;
  wqe->imm_or_key = key;
  QueuePair::From(ex)->list.last = nullptr;
}

void WrBindMw(ibv_qp_ex* ex, ibv_mw* mw, uint32_t key,
              const ibv_mw_bind_info* info) {
  urnic_sq_wqe* wqe = Begin(ex, URNIC_WR_BIND_MW);
  if (wqe == nullptr) return;
  WorkList& list = QueuePair::From(ex)->list;
  const int error = mw == nullptr || mw->type != IBV_MW_TYPE_2
                        ? EINVAL
                        : WriteBind(mw, key, *info, wqe);
  if (error != 0) Refuse(list, error, WhyNoBind(error));
  list.last = nullptr;
}

// --- Data and destination of the last request --------------------------------

void SetSgeList(ibv_qp_ex* ex, size_t count, const ibv_sge* sges) {
  QueuePair& qp = *QueuePair::From(ex);
  urnic_sq_wqe* wqe = Last(qp);
  if (wqe == nullptr) return;
  if (count > qp.posting->max_send_sge) {
    Refuse(qp.list, EINVAL, "more SGEs than max_send_sge");
    return;
  }
  wqe->flags &= static_cast<uint8_t>(~URNIC_SEND_INLINE);
  wqe->num_sge = static_cast<uint16_t>(count);
  auto* to = reinterpret_cast<ibv_sge*>(wqe + 1);
  for (size_t i = 0; i < count; ++i) to[i] = sges[i];
}

void SetSge(ibv_qp_ex* ex, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge = {address, length, lkey};
  SetSgeList(ex, 1, &sge);
}

void SetInlineDataList(ibv_qp_ex* ex, size_t count,
                       const ibv_data_buf* buffers) {
  QueuePair& qp = *QueuePair::From(ex);
  urnic_sq_wqe* wqe = Last(qp);
  if (wqe == nullptr) return;
  auto* to = reinterpret_cast<uint8_t*>(wqe + 1);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i].length > qp.posting->max_inline - bytes) {
      Refuse(qp.list, EINVAL, "more bytes than max_inline_data");
      return;
    }
    if (buffers[i].length == 0) continue;
    std::memcpy(to + bytes, buffers[i].addr, buffers[i].length);
    bytes += buffers[i].length;
  }
  wqe->flags |= URNIC_SEND_INLINE;
  wqe->inline_bytes = static_cast<uint16_t>(bytes);
}

void SetInlineData(ibv_qp_ex* ex, void* address, size_t length) {
  const ibv_data_buf buffer = {address, length};
  SetInlineDataList(ex, 1, &buffer);
}

void SetUdAddr(ibv_qp_ex* ex, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  QueuePair& qp = *QueuePair::From(ex);
  urnic_sq_wqe* wqe = Last(qp);
  if (wqe == nullptr) return;
  if (ah == nullptr || !HasStartMark(AddressHandle::From(ah))) {
    Refuse(qp.list, EINVAL, "no address handle, or one that was destroyed");
    return;
  }
  wqe->to = {.address_handle = AddressHandle::From(ah)->number, .qpn = qpn};
  wqe->remote_qkey = qkey;
}

void SetXrcSrqn(ibv_qp_ex* ex, uint32_t srqn) {
  if (urnic_sq_wqe* wqe = Last(*QueuePair::From(ex))) {
    wqe->xrc_srqn = srqn;
  }
}

// --- The list ---------------------------------------------------------------

// WrComplete() says what is wrong with a queue pair that cannot be used.
void WrStart(ibv_qp_ex* ex) {
  QueuePair& qp = *QueuePair::From(ex);
  // In a signal handler, in the middle of a list of its thread.
  if (HasStartMark(&qp) && IsOwnList(qp)) {
    ++qp.list.nested;
    return;
  }
  const Presence inside(&qp);
  if (!MayUse(inside, &qp)) return;
  Posting& posting = *qp.posting;
  const int error = WhyNoPost(posting.may_send, posting);
  SendLock lock(qp);
  lock.Keep();
  qp.builder.store(ThisThread(), std::memory_order_relaxed);
  qp.list = {.begin = posting.sq.producer(),
             .error = error,
             .why = "the queue pair is not in state RTS"};
}

void Unlock(QueuePair& qp) {
  // This comes first: afterwards another thread may own the list.
  qp.builder.store(0, std::memory_order_relaxed);
  if (qp.posting->sq_lock != nullptr) qp.posting->sq_lock->Unlock();
}

// The end of a list that a handler began in the middle of another.
bool EndNested(QueuePair& qp) {
  if (!HasStartMark(&qp) || !IsOwnList(qp) || qp.list.nested == 0) return false;
  --qp.list.nested;
  return true;
}

// The queue pair was destroyed meanwhile: the destroying thread waits for this.
void LeaveEnded(QueuePair& qp) {
  if (IsOwnList(qp)) qp.builder.store(0, std::memory_order_release);
}

void DropList(QueuePair& qp) {
  qp.posting->sq.Rewind(qp.list.begin);
  Unlock(qp);
}

int WrComplete(ibv_qp_ex* ex) {
  QueuePair& qp = *QueuePair::From(ex);
  if (EndNested(qp)) return errno = EDEADLK;
  const Presence inside(&qp);
  if (!MayUse(inside, &qp)) {
    if (inside) LeaveEnded(qp);
    return errno = WhyNot(inside, &qp.qp, "wr_complete");
  }
  if (!IsOwnList(qp)) {
    NoteRefusedPost(EINVAL, qp.qp.context, {.qpn = qp.qp.qp_num},
                    "wr_complete: no list was started");
    return errno = EINVAL;
  }
  Posting& posting = *qp.posting;
  const int error = qp.list.error;
  if (error != 0) posting.sq.Rewind(qp.list.begin);
  const bool any = posting.sq.producer() != qp.list.begin;
  if (any) posting.sq.Publish();
  Unlock(qp);
  if (any) posting.engine->Doorbell(*posting.engine_qp);
  if (error == 0) return 0;
  if (IsMistake(error)) {
    NoteRefusedPost(error, qp.qp.context, {.qpn = qp.qp.qp_num},
                    absl::StrCat("wr_complete: ", qp.list.why));
  }
  errno = error;
  return error;
}

void WrAbort(ibv_qp_ex* ex) {
  QueuePair& qp = *QueuePair::From(ex);
  if (EndNested(qp)) return;
  const Presence inside(&qp);
  if (inside && !HasStartMark(&qp)) LeaveEnded(qp);
  if (MayUse(inside, &qp) && IsOwnList(qp)) DropList(qp);
}

// --- Creation ----------------------------------------------------------------

constexpr uint64_t kWithFlush = 1 << 11;  // IBV_QP_EX_WITH_FLUSH

struct SendOp {
  uint64_t flag;  // enum ibv_qp_create_send_ops_flags
  uint32_t opcode;
};
constexpr SendOp kSendOps[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, URNIC_WR_RDMA_WRITE},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, URNIC_WR_RDMA_WRITE_WITH_IMM},
    {IBV_QP_EX_WITH_SEND, URNIC_WR_SEND},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, URNIC_WR_SEND_WITH_IMM},
    {IBV_QP_EX_WITH_RDMA_READ, URNIC_WR_RDMA_READ},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, URNIC_WR_ATOMIC_CMP_AND_SWP},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, URNIC_WR_ATOMIC_FETCH_AND_ADD},
    {IBV_QP_EX_WITH_LOCAL_INV, URNIC_WR_LOCAL_INV},
    {IBV_QP_EX_WITH_BIND_MW, URNIC_WR_BIND_MW},
    {IBV_QP_EX_WITH_SEND_WITH_INV, URNIC_WR_SEND_WITH_INV},
    {kWithFlush, URNIC_WR_FLUSH},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, URNIC_WR_ATOMIC_WRITE},
};

// The flags of the operations that a queue pair with `opcodes` has here.
uint64_t SendOpsOf(uint32_t opcodes) {
  uint64_t flags = 0;
  for (const SendOp& op : kSendOps) {
    if ((opcodes >> op.opcode & 1) != 0) flags |= op.flag;
  }
  if (QpExBytes() < kQpExBytes44)
    flags &= ~uint64_t{IBV_QP_EX_WITH_ATOMIC_WRITE};
  if (QpExBytes() < kQpExBytes45) flags &= ~kWithFlush;
  return flags;
}

// Sets a pointer beyond the struct of the oldest release.
template <typename Function>
void PutAt(ibv_qp_ex* ex, size_t offset, Function* function) {
  std::memcpy(reinterpret_cast<uint8_t*>(ex) + offset, &function,
              sizeof(function));
}

// Only requested operations can be built.
void SetBuilders(ibv_qp_ex* ex, uint64_t ops) {
  const auto set = [ops](uint64_t flag, auto& member, auto function) {
    if ((ops & flag) != 0) member = function;
  };
  set(IBV_QP_EX_WITH_RDMA_WRITE, ex->wr_rdma_write, WrWrite);
  set(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, ex->wr_rdma_write_imm, WrWriteImm);
  set(IBV_QP_EX_WITH_SEND, ex->wr_send, WrSend);
  set(IBV_QP_EX_WITH_SEND_WITH_IMM, ex->wr_send_imm, WrSendImm);
  set(IBV_QP_EX_WITH_RDMA_READ, ex->wr_rdma_read, WrRead);
  set(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, ex->wr_atomic_cmp_swp, WrCompareSwap);
  set(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, ex->wr_atomic_fetch_add, WrFetchAdd);
  set(IBV_QP_EX_WITH_LOCAL_INV, ex->wr_local_inv, WrLocalInv);
  set(IBV_QP_EX_WITH_BIND_MW, ex->wr_bind_mw, WrBindMw);
  set(IBV_QP_EX_WITH_SEND_WITH_INV, ex->wr_send_inv, WrSendInv);
  if ((ops & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
    PutAt(ex, kQpExBytes43, WrAtomicWrite);
  }
  if ((ops & kWithFlush) != 0) PutAt(ex, kQpExBytes44, WrFlush);
  ex->wr_set_ud_addr = SetUdAddr;
  ex->wr_set_xrc_srqn = SetXrcSrqn;
  ex->wr_set_inline_data = SetInlineData;
  ex->wr_set_inline_data_list = SetInlineDataList;
  ex->wr_set_sge = SetSge;
  ex->wr_set_sge_list = SetSgeList;
  ex->wr_start = WrStart;
  ex->wr_complete = WrComplete;
  ex->wr_abort = WrAbort;
}

absl::Status CheckAttributes(const ibv_qp_init_attr_ex& attr) {
  constexpr uint32_t kMasks = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                              IBV_QP_INIT_ATTR_CREATE_FLAGS |
                              IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (const uint32_t bits = attr.comp_mask & ~kMasks) {
    return Refusal(ErrorCode::kNotBuilt,
                   absl::StrCat("create_qp_ex: comp_mask 0x", absl::Hex(bits),
                                " is not built"));
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
      attr.create_flags != 0) {
    return Refusal(
        ErrorCode::kNotBuilt,
        absl::StrCat("create_qp_ex: create_flags 0x",
                     absl::Hex(attr.create_flags), " are not built"));
  }
  return absl::OkStatus();
}

}  // namespace

void EndOwnList(QueuePair& qp) {
  if (IsOwnList(qp)) DropList(qp);
}

size_t QpExBytes() {
  static const size_t bytes = [] {
    for (const size_t end : {kQpExBytes43, kQpExBytes44, kQpExBytes45}) {
      alignas(16) uint8_t probe[kQpExBytesMax] = {};
      std::memcpy(probe + end, &kVerbsQpEx, sizeof(kVerbsQpEx));
      if (ibv_qp_to_qp_ex(reinterpret_cast<ibv_qp*>(probe)) != nullptr) {
        return end;
      }
    }
    return size_t{0};
  }();
  return bytes;
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  if (absl::Status s = CheckAttributes(*attr); !s.ok())
    return FailNull(context, s);
  // struct ibv_qp_init_attr_ex begins like struct ibv_qp_init_attr.
  ibv_qp* qp = MakeQp(
      context,
      (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr->pd : nullptr,
      (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 ? attr->xrcd : nullptr,
      reinterpret_cast<ibv_qp_init_attr*>(attr));
  if (qp == nullptr ||
      (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0) {
    return qp;
  }
  QueuePair& handle = *QueuePair::From(qp);
  const uint64_t possible = SendOpsOf(handle.posting->opcodes);
  if (QpExBytes() == 0 || (attr->send_ops_flags & ~possible) != 0) {
    const absl::Status refused =
        Refusal(ErrorCode::kNotBuilt,
                absl::StrCat("create_qp_ex: send_ops_flags 0x",
                             absl::Hex(attr->send_ops_flags),
                             ", possible are 0x", absl::Hex(possible)));
    DestroyQp(qp);
    return FailNull(context, refused);
  }
  SetBuilders(handle.extended(), attr->send_ops_flags);
  std::memcpy(reinterpret_cast<uint8_t*>(qp) + QpExBytes(), &kVerbsQpEx,
              sizeof(kVerbsQpEx));
  return qp;
}

}  // namespace urnic::provider
