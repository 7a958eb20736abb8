#pragma once

// The sending side of a service without acknowledgements (UC, UD): work
// requests become packets, and a request is done when its last packet has been
// handed over. Sans-IO, one thread at a time.
//
//   head <= next <= posted
//
// head..next: sent, completion not taken yet; the first `stale` of them are
// flushed instead.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "ras/metrics/counters.h"
#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/work/error_counters.h"
#include "transport/work/request.h"
#include "transport/work/send_request.h"
#include "transport/work/types.h"
#include "transport/work/work_queue.h"

namespace urnic {

class UnreliableSender {
 public:
  // The part of a work request that goes into one packet.
  struct Part {
    const urnic_sq_wqe& wqe;
    uint32_t message_bytes;
    bool first;
    bool last;
    Psn psn;
  };

  // `requests`: those that the service supports. `mrs` and `counters` outlive
  // it.
  UnreliableSender(const QpLimits& limits, WorkQueueView sq,
                   RequestSet requests, mem::MrTable& mrs,
                   RoceCounters& counters)
      : limits_(limits),
        sq_(sq),
        requests_(requests),
        mrs_(&mrs),
        counters_(&counters) {}

  // --- States: RTS, SQD and back, RESET, ERR ------------------------------

  void Start(const QpConfig& config) {
    psn_ = config.sq_psn;
    Resume(config);
  }
  // From SQD or from SQE. In SQE the failed request and those posted before
  // this call are flushed: Poll() returns them.
  void Resume(const QpConfig& config) {
    config_ = config;
    if (flushing_) {
      const uint32_t posted = sq_.Posted(next_);
      if (posted != UINT32_MAX) stale_ = posted;
      posted_ = next_ += stale_;
    }
    running_ = true;
    draining_ = flushing_ = false;
  }
  void Drain() {
    draining_ = true;
    drain_limit_ = offset_ == 0 ? next_ : next_ + 1;
    drain_reported_ = false;
  }
  void Reset() {
    const uint32_t posted = sq_.Posted(head_);
    if (posted != UINT32_MAX) head_ += posted;
    next_ = posted_ = head_;
    offset_ = stale_ = 0;
    loaded_ = running_ = draining_ = failed_ = flushing_ = false;
    Publish();
  }
  // Nothing is sent any more; all posted requests, and later ones, are flushed.
  void Stop() {
    running_ = false;
    flushing_ = true;
  }
  void Reconfigure(const QpConfig& config) { config_ = config; }

  // --- Sending -------------------------------------------------------------

  // Fills up to slots.size() slots: gathers the payload, and calls write(slot,
  // part) once per packet for the headers. `mtu_is_limit`: a message of more
  // than one packet is not sent at all.
  template <typename Write>
  uint32_t Transmit(std::span<TxSlot> slots, bool mtu_is_limit, Write&& write) {
    uint32_t count = 0;
    while (count < slots.size() && Ready()) {
      //= IBTA C10-93.1.1: a datagram longer than the MTU is not sent, and its
      //= request completes without an error
      if (mtu_is_limit && length_ > config_.mtu) {
        Finish();
        continue;
      }
      if (!Build(slots[count], write)) break;
      ++count;
    }
    return count;
  }
  bool HasWork() const {
    if (!running_ || failed_) return false;
    if (draining_ && next_ == drain_limit_) return false;
    return loaded_ || sq_.Posted(next_) != 0;
  }

  // A packet of work request `index` was filled, but cannot be sent after all;
  // later packets were not sent either.
  void FailAt(uint32_t index, uint8_t status) {
    next_ = index;
    offset_ = 0;
    loaded_ = false;
    failed_ = true;
    failed_status_ = status;
  }

  // The next completion in posting order; false when there is none. `fatal`
  // becomes true with the completion of a failed request.
  bool Poll(SendCompletion& out, bool& fatal) {
    const bool any = Next(out, fatal);
    Publish();
    return any;
  }

  // True once when state SQD has been reached.
  bool TakeDrained() {
    if (!draining_ || drain_reported_ || head_ != drain_limit_) return false;
    return drain_reported_ = true;
  }
  Psn psn() const { return psn_; }
  bool draining() const { return draining_ && !drain_reported_; }
  // For queries and tests: the ring, and the next request to complete.
  const WorkQueueView& sq() const { return sq_; }
  uint32_t head() const { return head_; }
  bool failed() const { return failed_; }

  void CheckInvariants() const {
    URNIC_CHECK(next_ - head_ <= sq_.entries() && stale_ <= next_ - head_);
    URNIC_CHECK(static_cast<int32_t>(posted_ - next_) >= 0);
    URNIC_CHECK(!running_ || offset_ == 0 || offset_ < length_);
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  bool Next(SendCompletion& out, bool& fatal) {
    while (head_ != next_) {
      const auto wqe = sq_.Read<urnic_sq_wqe>(head_++);
      if (stale_ != 0) {
        --stale_;
        out = EndOf(wqe, URNIC_WC_WR_FLUSH_ERR);
        CountSendError(out.status, *counters_);
        return true;
      }
      if (!limits_.sq_sig_all && (wqe.flags & URNIC_SEND_SIGNALED) == 0) {
        continue;
      }
      out = EndOf(wqe, URNIC_WC_SUCCESS);
      return true;
    }
    if (failed_) {
      failed_ = false;
      fatal = true;
      return Fail(out, failed_status_);
    }
    if (!flushing_) return false;
    const uint32_t posted = sq_.Posted(head_);
    if (posted == 0 || posted == UINT32_MAX) return false;
    return Fail(out, URNIC_WC_WR_FLUSH_ERR);
  }

  bool Fail(SendCompletion& out, uint8_t status) {
    out = EndOf(sq_.Read<urnic_sq_wqe>(head_), status);
    CountSendError(status, *counters_);
    posted_ = next_ = ++head_;
    return true;
  }

  static SendCompletion EndOf(const urnic_sq_wqe& wqe, uint8_t status) {
    return {.status = status,
            .opcode = CompletionOpcode(wqe.opcode),
            .wr_id = wqe.wr_id};
  }

  void Publish() {
    if (head_ == published_) return;
    published_ = head_;
    sq_.PublishConsumer(head_);
  }

  // Whether a packet may be sent now. Loads the work request if necessary, and
  // executes requests that need no packet.
  bool Ready() {
    while (ReadyToGo()) {
      if (!Contains(kLocalRequests, current_.wqe.opcode)) return true;
      if (current_.ExecuteLocal(*mrs_, limits_) != mem::MemFault::kNone) {
        FailAt(next_, current_.LocalFailure());
        return false;
      }
      Finish();
    }
    return false;
  }

  bool ReadyToGo() {
    if (!running_ || failed_) return false;
    if (draining_ && next_ == drain_limit_) return false;
    if (loaded_) return true;
    if (next_ == posted_) {
      const uint32_t ready = sq_.Posted(next_);
      if (ready == 0) return false;
      if (ready == UINT32_MAX || ready + (next_ - head_) > sq_.entries()) {
        FailAt(next_, URNIC_WC_LOC_QP_OP_ERR);
        return false;
      }
      posted_ = next_ + ready;
    }
    if (const uint8_t status = Load(); status != URNIC_WC_SUCCESS) {
      FailAt(next_, status);
      return false;
    }
    return loaded_ = true;
  }

  // Copies the work request out of the ring: once, and once more if a part of
  // it had been sent when the queue pair was restored from an image.
  uint8_t Load() {
    const uint32_t begun = offset_ != 0 ? length_ : 0;
    const uint8_t status = LoadCurrent();
    if (begun != 0 && begun != length_) return URNIC_WC_LOC_QP_OP_ERR;
    return status;
  }
  uint8_t LoadCurrent() {
    uint64_t length = 0;
    const bool ok = current_.Load(sq_, next_, limits_, length);
    const uint8_t opcode = current_.wqe.opcode;
    if (!ok || opcode > 31 || !Contains(requests_, opcode)) {
      return URNIC_WC_LOC_QP_OP_ERR;
    }
    if (length > URNIC_MAX_MESSAGE_BYTES) return URNIC_WC_LOC_LEN_ERR;
    length_ = static_cast<uint32_t>(length);
    // A long message is checked before any of it is sent.
    return length_ <= config_.mtu ||
                   current_.Check(sq_, next_, *mrs_, limits_.pd, length_,
                                  mem::kLocalRead)
               ? URNIC_WC_SUCCESS
               : URNIC_WC_LOC_PROT_ERR;
  }

  template <typename Write>
  bool Build(TxSlot& slot, Write&& write) {
    const uint32_t left = length_ - offset_;
    const uint32_t chunk = std::min(left, config_.mtu);
    slot.from_responder = false;
    slot.origin = next_;
    slot.address_handle = 0;
    slot.payload_bytes = chunk;
    slot.pad_bytes = static_cast<uint8_t>(-chunk & 3);
    slot.segment_count = 0;
    if (!current_.Gather(sq_, next_, *mrs_, limits_.pd, offset_, chunk, slot)) {
      FailAt(next_, URNIC_WC_LOC_PROT_ERR);
      return false;
    }
    write(slot, Part{current_.wqe, length_, offset_ == 0, chunk == left, psn_});
    psn_ = psn_ + 1;
    offset_ += chunk;
    if (chunk == left) Finish();
    return true;
  }

  void Finish() {
    ++next_;
    offset_ = 0;
    loaded_ = false;
  }

  QpLimits limits_;
  QpConfig config_;
  WorkQueueView sq_;
  RequestSet requests_;
  mem::MrTable* mrs_;
  RoceCounters* counters_;  // of the engine

  uint32_t head_ = 0;
  uint32_t next_ = 0;
  uint32_t stale_ = 0;
  uint32_t posted_ = 0;  // as last seen
  uint32_t published_ = 0;
  uint32_t drain_limit_ = 0;
  Psn psn_;

  bool running_ = false;
  bool draining_ = false;
  bool drain_reported_ = false;
  bool failed_ = false;
  bool flushing_ = false;
  uint8_t failed_status_ = 0;

  // The work request under transmission, read once from the ring.
  bool loaded_ = false;
  uint32_t length_ = 0;
  uint32_t offset_ = 0;  // bytes of it already transmitted
  SendRequest current_;
};

}  // namespace urnic
