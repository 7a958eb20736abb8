// Polling a completion queue. A fast program spends most of its time here and
// in post.cc.

#include <cerrno>

#include "datapath/engine/engine.h"
#include "verbs/control/mailbox.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

namespace {

static_assert(URNIC_WC_RECV_RDMA_WITH_IMM == int{IBV_WC_RECV_RDMA_WITH_IMM} &&
              URNIC_WC_FETCH_ADD == int{IBV_WC_FETCH_ADD} &&
              URNIC_WC_RNR_RETRY_EXC_ERR == int{IBV_WC_RNR_RETRY_EXC_ERR} &&
              URNIC_WC_REM_ACCESS_ERR == int{IBV_WC_REM_ACCESS_ERR} &&
              URNIC_WC_WR_FLUSH_ERR == int{IBV_WC_WR_FLUSH_ERR} &&
              URNIC_WC_WITH_INV == int{IBV_WC_WITH_INV} &&
              URNIC_WC_WITH_IMM == int{IBV_WC_WITH_IMM});

// The engine must also run for a queue that is never found empty
// (docs/design/0002-the-token.md).
constexpr uint32_t kPollsPerProgress = 8;

inline void Translate(const urnic_cqe& cqe, ibv_wc& wc) {
  wc.wr_id = cqe.wr_id;
  wc.status = static_cast<ibv_wc_status>(cqe.status);
  wc.opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
  wc.vendor_err = cqe.vendor_err;
  wc.byte_len = cqe.byte_len;
  wc.imm_data = cqe.imm_or_key;
  wc.qp_num = cqe.qp_num;
  wc.src_qp = cqe.src_qp;
  wc.wc_flags = cqe.wc_flags;
  wc.pkey_index = 0;
  wc.slid = 0;
  wc.sl = cqe.sl;
  wc.dlid_path_bits = 0;
}

// Takes completions, but only if some can be seen without the lock.
template <typename Out>
inline uint32_t Take(control::Cq::Polling& polling, uint32_t max, Out&& out) {
  if (!polling.ring.MayHaveSome()) return 0;
  control::OptionalLock lock(polling.lock);
  return polling.ring.Poll(max, out);
}

// Hands up to `wanted` completions to out(const urnic_cqe&).
template <typename Out>
inline uint32_t Poll(CompletionQueueHandle& handle, uint32_t wanted,
                     Out&& out) {
  control::Cq::Polling& polling = handle.control->polling();
  uint32_t found = Take(polling, wanted, out);
  // The engine also runs if some completions were found: it sends the
  // acknowledgement for the previous ones, for which the peer may be waiting.
  const uint32_t polls =
      polling.polls_since_progress.load(std::memory_order_relaxed) + 1;
  if (found == wanted && polls < kPollsPerProgress) {
    polling.polls_since_progress.store(polls, std::memory_order_relaxed);
    return found;
  }
  polling.polls_since_progress.store(0, std::memory_order_relaxed);
  handle.engine->Progress();
  if (found < wanted) found += Take(polling, wanted - found, out);
  return found;
}

}  // namespace

int PollCq(ibv_cq* cq, int entries, ibv_wc* wc) {
  CompletionQueueHandle* const handle = CompletionQueueHandle::From(cq);
  const Presence inside(handle);
  if (__builtin_expect(!MayUse(inside, handle), 0)) {
    errno = WhyNot(inside, cq, "poll_cq");
    return -1;
  }
  if (entries <= 0) return 0;
  const auto translate = [&wc](const urnic_cqe& cqe) { Translate(cqe, *wc++); };
  uint32_t found = Poll(*handle, static_cast<uint32_t>(entries), translate);
  control::Cq::Polling& polling = handle->control->polling();
  if (found == 0 && control::HasFailed(*polling.mailbox)) {
    // Requests that were flushed before the device failed are visible by now.
    found = Take(polling, static_cast<uint32_t>(entries), translate);
    if (found == 0) {
      errno = EBUSY;
      return -1;
    }
  }
  return static_cast<int>(found);
}

bool PollOne(CompletionQueueHandle& handle) {
  const auto translate = [&handle](const urnic_cqe& cqe) {
    Translate(cqe, handle.current);
    handle.current_time_ns = cqe.time_ns;
  };
  if (Poll(handle, 1, translate) == 1) return true;
  // As in PollCq().
  control::Cq::Polling& polling = handle.control->polling();
  return control::HasFailed(*polling.mailbox) &&
         Take(polling, 1, translate) == 1;
}

}  // namespace urnic::provider
