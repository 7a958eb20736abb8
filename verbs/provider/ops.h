#pragma once

// The provider's operations, by file. Any thread. They return what libibverbs
// expects: 0 or an errno, or a pointer (nullptr with errno). Programs call them
// through verb.h, which makes the checks of entry.h, and sets errno on each
// failure.

#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "verbs/control/mailbox.h"
#include "verbs/provider/objects.h"
#include "verbs/provider/private_interface.h"

namespace urnic::provider {

// The size of struct ibv_qp_ex in the libibverbs that has loaded us, found by a
// trial (qp_ex.cc); 0: unknown.
size_t QpExBytes();

// query.cc
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t bytes);
// The RNIC's clock in nanoseconds, which also stamps completions.
int QueryRtValues(ibv_context* context, ibv_values_ex* values);
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr);
// The product of the width and the speed of QueryPort(), in 100 Mb/s.
// libibverbs 62 and later ask for it.
int QueryPortSpeed(ibv_context* context, uint32_t port, uint64_t* speed);

// domain_ops.cc
ibv_pd* AllocPd(ibv_context* context);
int DeallocPd(ibv_pd* pd);
ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attr);
int DeallocTd(ibv_td* td);
ibv_pd* AllocParentDomain(ibv_context* context,
                          ibv_parent_domain_init_attr* attr);
ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr);
int DestroyAh(ibv_ah* ah);

// mr_ops.cc
//
// reg_mr with IBV_ACCESS_ON_DEMAND does not check that the memory is mapped,
// and (nullptr, SIZE_MAX) then means the whole address space.
ibv_mr* RegMr(ibv_pd* pd, void* address, size_t bytes, uint64_t iova,
              int access);
// EBUSY: a memory window is bound to it.
int DeregMr(verbs_mr* mr);
// On failure the region does not change.
int ReregMr(verbs_mr* mr, int flags, ibv_pd* pd, void* address, size_t bytes,
            int access);
ibv_mr* AllocNullMr(ibv_pd* pd);
// Errnos as in ibv_advise_mr(3).
int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags,
             ibv_sge* sges, uint32_t num_sge);
// EINVAL: no such type.
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int DeallocMw(ibv_mw* mw);

// srq_ops.cc
ibv_srq* CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attr);
// Basic and XRC queues; EOPNOTSUPP: tag matching.
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* attr);
int GetSrqNum(ibv_srq* srq, uint32_t* number);
// EAGAIN: the file has no domain, and O_CREAT is not set. EINVAL: it has one,
// and O_EXCL is set. EBADF: not an open file.
ibv_xrcd* OpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int CloseXrcd(ibv_xrcd* xrcd);
int ModifySrq(ibv_srq* srq, ibv_srq_attr* attr, int mask);
int QuerySrq(ibv_srq* srq, ibv_srq_attr* attr);
int DestroySrq(ibv_srq* srq);

// cq_ops.cc
ibv_cq* CreateCq(ibv_context* context, int cqe, ibv_comp_channel* channel,
                 int comp_vector);
// Shared by both ways to create a queue. Returns the queue as requested (but
// sets its own `events` and `user`), or nullptr with errno.
CompletionQueueHandle* MakeCq(ibv_context* context, control::CqRequest request,
                              ibv_comp_channel* channel);
int DestroyCq(ibv_cq* cq);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);
int ResizeCq(ibv_cq* cq, int cqe);
int ModifyCq(ibv_cq* cq, ibv_modify_cq_attr* attr);

// cq_ex.cc
//
// Supports the standard fields of a completion and its time. EOPNOTSUPP: VLANs,
// flow tags, tag matching. EINVAL: sizes and vectors as for CreateCq, or a
// domain that is not a parent domain of this device. There is no lock if the
// program says that one thread uses the queue, by the flag or by a parent
// domain with a thread domain.
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr);
// Call this before a queue is destroyed. If this thread is polling a batch from
// it, ends the batch, so that no other thread waits for its lock.
void EndOwnBatch(CompletionQueueHandle& handle);

// poll.cc
int PollCq(ibv_cq* cq, int entries, ibv_wc* wc);
// Puts the next completion into handle.current. False: there is none.
bool PollOne(CompletionQueueHandle& handle);

// qp_ops.cc
ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr);
// Shared by both ways to create a queue pair. An XRC target has an XRC domain
// instead of `pd`.
ibv_qp* MakeQp(ibv_context* context, ibv_pd* pd, ibv_xrcd* xrcd,
               ibv_qp_init_attr* attr);
// Finishes a new or opened queue pair, which then belongs to the program.
ibv_qp* Keep(ibv_context* context, Handle<QueuePair> handle);
// Opens an existing XRC target of the domain. EINVAL: the domain has no such
// queue pair, or belongs to another context. EOPNOTSUPP: unknown masks and
// types.
ibv_qp* OpenQp(ibv_context* context, ibv_qp_open_attr* attr);
int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int mask,
            ibv_qp_init_attr* init_attr);
int DestroyQp(ibv_qp* qp);
// There are no ECE options: the vendor is 0, and no other value can be set.
int QueryEce(ibv_qp* qp, ibv_ece* ece);
int SetEce(ibv_qp* qp, ibv_ece* ece);
int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
// The contents of ibv_ah_attr, except for fields that RoCE does not use.
control::AddressVector VectorOf(const ibv_ah_attr& attr);

// qp_ex.cc
//
// Supports comp_mask PD, SEND_OPS_FLAGS and CREATE_FLAGS (but no such flags).
// EOPNOTSUPP: other masks, operations that the service does not have.
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr);
// Call this before a queue pair is destroyed. If this thread is building a list
// on it, discards the list, so that no other thread waits for its lock.
void EndOwnList(QueuePair& qp);

// post.cc
//
// post_send: EINVAL for a state before RTS, too many SGEs, more inline bytes
// than granted, flags or opcodes that the service does not have, a datagram
// without address handle, and reads or atomics on a queue pair with
// max_rd_atomic 0. (mlx5 returns ENOMEM for too many inline bytes, but programs
// take that for a full queue and retry forever.) EOPNOTSUPP for opcodes that
// are not built, ENOMEM for a full queue.
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
// post_recv: EINVAL in state RESET, for too many SGEs and for a queue pair that
// uses a shared queue; ENOMEM when full.
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
// For windows of type 1: the window's key changes. Errnos as for post_send.
// (libibverbs itself returns EPERM if the two ibv_pd are different pointers.)
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// Shared by the two ways of posting, for windows of type 2. 0; EINVAL; or EPERM
// if window and region belong to different domains.
int WriteBind(ibv_mw* mw, uint32_t new_key, const ibv_mw_bind_info& info,
              urnic_sq_wqe* wqe);
// The reason for an errno of WriteBind(), in words.
const char* WhyNoBind(int error);
// Whether a call that posts was refused for a mistake of the program. These do
// not count: a full queue, because programs post until then; a forked child,
// which has no device; and a failing device, which is reported in other ways.
inline bool IsMistake(int error) {
  return error != ENOMEM && error != EIO && error != EBUSY;
}
// Reports such a mistake to `urnic show error` and the logs. `failure` names
// the object of the call. REQUIRES: IsMistake(error)
void NoteRefusedPost(int error, ibv_context* context, Failure failure,
                     std::string why);
// 0, or the errno if posting is not possible. EBUSY: the device fails. EINVAL:
// the state of the queue pair does not allow it. A queue pair that failed by
// itself accepts requests in any state but RESET, and flushes them. REQUIRES:
// no spin lock is held.
inline int WhyNoPost(const std::atomic<bool>& may,
                     control::Qp::Posting& posting) {
  if (control::IsFailing(*posting.mailbox)) return EBUSY;
  return may.load(std::memory_order_relaxed) ||
                 posting.engine_qp->wants_recv_doorbell() ||
                 control::Qp::FindConnected(posting)
             ? 0
             : EINVAL;
}

// Returns the errno of a control call, 0 for OK. If the call was refused,
// records its code and message (Failures) and writes them to the debug log.
int Fail(ibv_context* context, const absl::Status& status);
// The same, but sets errno.
std::nullptr_t FailNull(ibv_context* context, const absl::Status& status);
std::nullptr_t FailNull(int error);
// For a verb that destroys an object while another thread destroys it (EINVAL),
// or makes another object with it (EBUSY). Returns the error.
int FailEnding(ibv_context* context, const char* verb, int error = EINVAL);

}  // namespace urnic::provider
