#include "transport/iwarp/rdmap/requester.h"

#include <cstring>

#include "transport/base/mutation.h"

namespace urnic::rdmap {
namespace {

using wire::RdmapOpcode;

constexpr RequestSet kSends = RequestsOf(RequestFamily::kSend);

bool IsAfter(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

// The length of the headers in a segment of a send or write.
uint32_t HeaderBytes(const SendRecord& record) {
  return Contains(kSends, record.opcode) ? sizeof(wire::DdpUntagged)
                                         : sizeof(wire::DdpTagged);
}

}  // namespace

Requester::Requester(const QpLimits& limits, WorkQueueView sq,
                     std::span<SendRecord> records, mem::MrTable* mrs)
    : sq_(sq), records_(records.data()), mrs_(mrs), limits_(limits) {
  URNIC_CHECK(records.size() == sq.entries());
  URNIC_CHECK(records.size() <= 1u << 14);  // Source::IndexNear() is unique
}

void Requester::Start(const Config& config) {
  config_ = config;
  running_ = true;
}

void Requester::Reset() {
  const uint32_t posted = sq_.Posted(head_);
  if (posted != UINT32_MAX) head_ += posted;
  una_ = next_ = posted_ = answer_ = head_;
  offset_ = received_ = reads_in_flight_ = 0;
  scattered_ = SgeCursor{};
  next_send_msn_ = next_read_msn_ = 1;
  running_ = begun_ = immediate_due_ = rtr_read_ = false;
  failed_ = flushing_ = fatal_ = false;
  current_.valid = resent_.valid = false;
  Publish();
}

void Requester::EnterError() {
  running_ = false;
  flushing_ = true;
}

// --- Cutting -----------------------------------------------------------------

bool Requester::Ready() {
  while (running_ && !(failed_ && next_ == failed_index_)) {
    if (!begun_) {
      if (next_ == posted_ && !RefreshPosted()) return false;
      if (!Load()) return false;
    }
    if (Blocked()) return false;
    if (!Contains(kLocalRequests, RecordOf(next_).opcode)) return true;
    if (!ExecuteLocal()) return false;
  }
  return false;
}

bool Requester::RefreshPosted() {
  const uint32_t ready = sq_.Posted(next_);
  if (ready == UINT32_MAX || ready + (next_ - head_) > sq_.entries()) {
    return Fail(URNIC_WC_LOC_QP_OP_ERR);
  }
  posted_ = next_ + ready;
  return ready != 0;
}

// Copies the next work request out of the ring and makes its record.
bool Requester::Load() {
  current_.valid = true;
  current_.index = next_;
  SendRequest& request = current_.request;
  uint64_t length = 0;
  if (!request.Load(sq_, next_, limits_, length)) {
    return Fail(URNIC_WC_LOC_QP_OP_ERR);
  }
  const uint8_t status = CheckLoaded(length);
  if (status != URNIC_WC_SUCCESS) return Fail(status);
  const uint8_t opcode = request.wqe.opcode;
  const bool answered = Contains(kAnsweredRequests, opcode);
  SendRecord& record = RecordOf(next_);
  record =
      SendRecord{.bytes = static_cast<uint32_t>(length),
                 .opcode = opcode,
                 .signaled = limits_.sq_sig_all ||
                             (request.wqe.flags & URNIC_SEND_SIGNALED) != 0,
                 .solicited = (request.wqe.flags & URNIC_SEND_SOLICITED) != 0,
                 .answered = !answered};
  begun_ = true;
  return true;
}

uint8_t Requester::CheckLoaded(uint64_t length) const {
  const SendRequest& request = current_.request;
  const uint8_t opcode = request.wqe.opcode;
  if (opcode > 31 || !Contains(kSupportedRequests, opcode)) {
    return URNIC_WC_LOC_QP_OP_ERR;
  }
  const RequestKind& kind = *FindRequest(opcode);
  if (kind.fixed_length != kAnyLength &&
      length != static_cast<uint64_t>(kind.fixed_length)) {
    return URNIC_WC_LOC_LEN_ERR;
  }
  //= RFC 5040 5.2: a message has at most 2^32 - 1 bytes; verbs allow 2^31
  if (length > URNIC_MAX_MESSAGE_BYTES) return URNIC_WC_LOC_LEN_ERR;
  if (kind.answered() && (config_.ord == 0 || request.is_inline())) {
    return URNIC_WC_LOC_QP_OP_ERR;
  }
  if (kind.with_imm) {
    const auto needed = kind.family == RequestFamily::kSend
                            ? ImmediateData::kMerged
                            : ImmediateData::kRfc7306;
    if (config_.immediate < needed) return URNIC_WC_LOC_QP_OP_ERR;
  }
  const uint32_t rights = kind.scatters() ? mem::kLocalWrite : mem::kLocalRead;
  return request.Check(sq_, next_, *mrs_, limits_.pd,
                       static_cast<uint32_t>(length), rights)
             ? URNIC_WC_SUCCESS
             : URNIC_WC_LOC_PROT_ERR;
}

// Whether the next request must wait for earlier ones.
bool Requester::Blocked() const {
  const SendRecord& record = RecordOf(next_);
  // Earlier segments may be sent again, and are then built with their keys.
  if (record.opcode == URNIC_WR_LOCAL_INV && una_ != next_) return true;
  if (InMessage()) return false;
  //= RFC 5040 5.2: a requester has at most ORD reads outstanding, for which the
  //= peer has room
  const uint32_t reads = reads_in_flight_ + MUTATION(iwarp_forgets_read_of_rtr,
                                                     uint32_t{rtr_read_}, 0u);
  if (Contains(kAnsweredRequests, record.opcode) &&
      MUTATION(iwarp_exceeds_ord, reads >= config_.ord, reads > config_.ord))
    return true;
  //= RFC 5040 5.5: a fenced request waits for all earlier reads and atomics
  return MUTATION(iwarp_ignores_fences, reads_in_flight_ != 0, false) &&
         (current_.request.wqe.flags & URNIC_SEND_FENCE) != 0;
}

bool Requester::ExecuteLocal() {
  if (current_.request.ExecuteLocal(*mrs_, limits_) != mem::MemFault::kNone) {
    return Fail(current_.request.LocalFailure());
  }
  RecordOf(next_).acked = true;
  FinishCut();
  SkipDone();
  return true;
}

// Ends the next request with a local error; returns false.
bool Requester::Fail(uint8_t status) {
  FailAt(next_, status, RxVerdict::kAccept);
  return false;
}

ddp::Cut Requester::NextCut(uint32_t mulpdu, bool can_keep) {
  URNIC_CHECK(mulpdu >= ddp::kMinMulpdu);
  if (!Ready()) return {};
  SendRecord& record = RecordOf(next_);
  if (!Contains(kAnsweredRequests, record.opcode)) {
    return CutData(record, mulpdu, can_keep);
  }
  const bool read = record.opcode == URNIC_WR_RDMA_READ;
  const ddp::Source source{.index = static_cast<uint16_t>(next_)};
  record.msn = next_read_msn_++;
  ++reads_in_flight_;
  FinishCut();
  return {.source = source.Pack(),
          .ulpdu_bytes =
              static_cast<uint32_t>(sizeof(wire::DdpUntagged) +
                                    (read ? sizeof(wire::RdmapReadRequest)
                                          : sizeof(wire::RdmapAtomicRequest)))};
}

bool Requester::NextIsSmall(uint32_t mulpdu) {
  if (!Ready() || InMessage()) return false;
  const SendRecord& record = RecordOf(next_);
  return MayKeep(record) && HeaderBytes(record) + record.bytes <= mulpdu;
}

ddp::Source Requester::SmallAfter(const ddp::Source& source) const {
  const uint32_t index = MessageAfter(source.IndexNear(head_));
  URNIC_CHECK(index != next_);
  return {.index = static_cast<uint16_t>(index),
          .payload_bytes = RecordOf(index).bytes};
}

uint32_t Requester::MessageAfter(uint32_t index) const {
  do {
    ++index;
  } while (IsAfter(next_, index) &&
           Contains(kLocalRequests, RecordOf(index).opcode));
  return IsAfter(next_, index) ? index : next_;
}

// Whether the message may complete when it has been sent, if it is one segment.
bool Requester::MayKeep(const SendRecord& record) const {
  return !Contains(kAnsweredRequests, record.opcode) &&
         !Contains(kRequestsWithImm, record.opcode) &&
         MUTATION(iwarp_completes_long_messages_when_sent,
                  record.bytes <= config_.keep_bytes, true);
}

// A segment of a send or write, or the immediate data after it.
ddp::Cut Requester::CutData(SendRecord& record, uint32_t mulpdu,
                            bool can_keep) {
  const bool send = Contains(kSends, record.opcode);
  ddp::Source source{.index = static_cast<uint16_t>(next_)};
  if (immediate_due_) {
    source.offset = kImmediateMark;
    immediate_due_ = false;
    FinishCut();
    return {.source = source.Pack(),
            .ulpdu_bytes = static_cast<uint32_t>(sizeof(wire::DdpUntagged) +
                                                 sizeof(wire::RdmapImmediate))};
  }
  const bool with_imm = Contains(kRequestsWithImm, record.opcode);
  if (offset_ == 0) {
    //= RFC 5041 5.1: each message of an untagged queue has the next MSN
    record.msn = next_send_msn_;
    next_send_msn_ +=
        uint32_t{send} + MUTATION(iwarp_imm_has_no_msn, uint32_t{with_imm}, 0u);
  }
  const uint32_t header_bytes = HeaderBytes(record);
  source.offset = offset_;
  source.payload_bytes =
      ddp::PayloadBytes(record.bytes - offset_, header_bytes, mulpdu);
  const bool whole = source.payload_bytes == record.bytes;
  const bool keep = can_keep && whole && MayKeep(record);
  offset_ += source.payload_bytes;
  if (offset_ == record.bytes) {
    if (with_imm) {
      immediate_due_ = true;
    } else {
      FinishCut();
    }
  }
  return {.source = source.Pack(),
          .ulpdu_bytes = header_bytes + source.payload_bytes,
          .keep = !keep                              ? ddp::Keep::kNo
                  : !send && config_.peer_is_urnic() ? ddp::Keep::kShared
                                                     : ddp::Keep::kMay};
}

void Requester::FinishCut() {
  ++next_;
  offset_ = 0;
  begun_ = false;
}

void Requester::SkipDone() {
  while (una_ != next_ && RecordOf(una_).done()) ++una_;
}

void Requester::OnAcked(const ddp::Source& source) {
  const uint32_t index = source.IndexNear(head_);
  // A request that was kept may have completed long ago.
  if (IsAfter(una_, index) || !IsAfter(next_, index)) return;
  SendRecord& record = RecordOf(index);
  const bool last =
      Contains(kAnsweredRequests, record.opcode) ||
      (Contains(kRequestsWithImm, record.opcode)
           ? source.offset == kImmediateMark
           : source.offset + source.payload_bytes == record.bytes);
  MUTATION_SKIPS(iwarp_completes_with_first_ack)
  if (!last) return;
  record.acked = true;
  SkipDone();
}

// --- Building ----------------------------------------------------------------

// The entry of request `index`, read once from the ring. Null: it is not there
// any more, or has another length than its record.
SendRequest* Requester::RequestOf(uint32_t index) {
  const bool sent = !IsAfter(head_, index) && IsAfter(next_, index);
  if (!sent && !(index == next_ && InMessage())) return nullptr;
  if (current_.valid && current_.index == index) return &current_.request;
  if (!resent_.valid || resent_.index != index) {
    uint64_t length = 0;
    resent_.index = index;
    resent_.valid = resent_.request.Load(sq_, index, limits_, length) &&
                    length == RecordOf(index).bytes;
  }
  return resent_.valid ? &resent_.request : nullptr;
}

bool Requester::Build(const ddp::Source& source, TxSlot& slot) {
  const uint32_t index = source.IndexNear(head_);
  SendRequest* request = RequestOf(index);
  if (request == nullptr) return false;
  const SendRecord& record = RecordOf(index);
  slot.from_responder = false;
  slot.origin = index;
  slot.segment_count = 0;
  slot.payload_bytes = 0;
  slot.pad_bytes = 0;
  if (source.offset == kImmediateMark &&
      Contains(kRequestsWithImm, record.opcode)) {
    BuildImmediate(record, *request, slot);
    return true;
  }
  if (record.opcode == URNIC_WR_RDMA_READ) {
    BuildRead(record, *request, index, slot);
    return true;
  }
  if (Contains(kAnsweredRequests, record.opcode)) {
    BuildAtomic(record, *request, index, slot);
    return true;
  }
  return BuildSend(source, record, *request, index, slot);
}

bool Requester::BuildSend(const ddp::Source& source, const SendRecord& record,
                          SendRequest& request, uint32_t index, TxSlot& slot) {
  const bool last = source.offset + source.payload_bytes == record.bytes;
  if (!Contains(kSends, record.opcode)) {
    ddp::WriteTagged(slot, RdmapOpcode::kWrite, last, request.wqe.rkey,
                     request.wqe.remote_addr + source.offset);
  } else {
    ddp::UntaggedFields fields{
        .opcode =
            record.solicited ? RdmapOpcode::kSendSolicited : RdmapOpcode::kSend,
        .last = last,
        .queue = wire::kSendQueue,
        .msn = record.msn,
        .offset = MUTATION(iwarp_message_offset_is_zero, source.offset, 0u)};
    if (record.opcode == URNIC_WR_SEND_WITH_INV) {
      fields.opcode = record.solicited ? RdmapOpcode::kSendSolicitedInvalidate
                                       : RdmapOpcode::kSendInvalidate;
      fields.stag = request.wqe.imm_or_key;
    } else if (record.opcode == URNIC_WR_SEND_WITH_IMM) {
      fields.opcode = RdmapOpcode::kSend;
      fields.stag = kImmediateFollows;
    }
    ddp::WriteUntagged(slot, fields);
  }
  slot.payload_bytes = source.payload_bytes;
  return request.Gather(sq_, index, *mrs_, limits_.pd, source.offset,
                        source.payload_bytes, slot);
}

//= RFC 7306 6.1: an immediate-data message carries eight bytes on the queue of
//= the sends
// The message has eight bytes. The four bytes of verbs come first.
void Requester::BuildImmediate(const SendRecord& record,
                               const SendRequest& request, TxSlot& slot) const {
  const bool send = Contains(kSends, record.opcode);
  ddp::WriteUntagged(
      slot, {.opcode = record.solicited ? RdmapOpcode::kImmediateSolicited
                                        : RdmapOpcode::kImmediate,
             .queue = wire::kSendQueue,
             .msn = record.msn + uint32_t{send}});
  wire::RdmapImmediate immediate;
  std::memcpy(immediate.data, &request.wqe.imm_or_key,
              sizeof(request.wqe.imm_or_key));
  ddp::Append(slot, immediate);
}

// The STag and offset of the sink, which the peer repeats in its responses.
// They only identify the read: our own list determines the place of the data.
urnic_sge Requester::SinkOf(uint32_t index) const {
  if (NumSge(index) == 0) return {};
  return sq_.ReadSge<urnic_sq_wqe>(index, 0);
}

//= RFC 5040 4.4: a read request names the sink, the length and the source
void Requester::BuildRead(const SendRecord& record, const SendRequest& request,
                          uint32_t index, TxSlot& slot) const {
  ddp::WriteUntagged(slot, {.opcode = RdmapOpcode::kReadRequest,
                            .queue = wire::kReadRequestQueue,
                            .msn = record.msn});
  const urnic_sge sink = SinkOf(index);
  wire::RdmapReadRequest read;
  read.sink_stag = wire::Be<uint32_t>(sink.lkey);
  read.sink_offset = wire::Be<uint64_t>(sink.addr);
  read.bytes = wire::Be<uint32_t>(record.bytes);
  read.source_stag = wire::Be<uint32_t>(request.wqe.rkey);
  read.source_offset = wire::Be<uint64_t>(request.wqe.remote_addr);
  ddp::Append(slot, read);
}

//= RFC 7306 5.2.1: an atomic request names the operation, an identifier, the
//= target, the operands and the masks
void Requester::BuildAtomic(const SendRecord& record,
                            const SendRequest& request, uint32_t index,
                            TxSlot& slot) const {
  ddp::WriteUntagged(slot, {.opcode = RdmapOpcode::kAtomicRequest,
                            .queue = wire::kReadRequestQueue,
                            .msn = record.msn});
  const urnic_sq_wqe& wqe = request.wqe;
  const bool swap = record.opcode == URNIC_WR_ATOMIC_CMP_AND_SWP;
  wire::RdmapAtomicRequest atomic;
  atomic.operation = wire::Be<uint32_t>(swap ? wire::kAtomicCompareSwap
                                             : wire::kAtomicFetchAdd);
  atomic.request_id = wire::Be<uint32_t>(index);
  atomic.stag = wire::Be<uint32_t>(wqe.rkey);
  atomic.offset = wire::Be<uint64_t>(wqe.remote_addr);
  atomic.swap_or_add = wire::Be<uint64_t>(swap ? wqe.swap : wqe.compare_add);
  if (swap) {
    // All bits take part.
    atomic.swap_or_add_mask = wire::Be<uint64_t>(UINT64_MAX);
    atomic.compare = wire::Be<uint64_t>(wqe.compare_add);
    atomic.compare_mask = wire::Be<uint64_t>(UINT64_MAX);
  }
  ddp::Append(slot, atomic);
}

// --- Answers -----------------------------------------------------------------

// Moves to the oldest request that waits for an answer. True if it is one with
// this opcode; kNoOpcode: an atomic.
bool Requester::SeekAnswer(uint8_t opcode) {
  if (IsAfter(head_, answer_)) answer_ = head_;
  while (answer_ != next_ && RecordOf(answer_).answered) ++answer_;
  if (answer_ == next_) return false;
  const uint8_t waiting = RecordOf(answer_).opcode;
  return opcode == kNoOpcode ? waiting != URNIC_WR_RDMA_READ
                             : waiting == opcode;
}

bool Requester::FindRead(const ddp::ReceivedSegment& segment, uint32_t& index) {
  // Requests that are looked at: others may be between the reads.
  constexpr uint32_t kLimit = 64;
  if (rtr_read_) return false;
  const uint32_t first = IsAfter(head_, answer_) ? head_ : answer_;
  uint32_t unanswered = reads_in_flight_;
  bool found = false;
  for (uint32_t i = first; i != next_ && unanswered != 0; ++i) {
    if (i - first == kLimit) return false;
    const SendRecord& record = RecordOf(i);
    if (record.answered) continue;
    --unanswered;
    if (record.opcode != URNIC_WR_RDMA_READ) continue;
    const urnic_sge sink = SinkOf(i);
    const uint64_t offset = segment.offset - sink.addr;
    if (segment.stag != sink.lkey || offset > record.bytes ||
        segment.payload_bytes > record.bytes - offset) {
      continue;
    }
    if (found) return false;
    found = true;
    index = i;
  }
  return found;
}

ddp::StreamError Requester::OnRtrAnswer(const ddp::ReceivedSegment& segment) {
  if (!segment.last() || segment.payload_bytes != 0)
    return ddp::kStreamCatastrophic;
  rtr_read_ = false;
  return ddp::kNoError;
}

void Requester::FinishAnswer() {
  RecordOf(answer_).answered = true;
  --reads_in_flight_;
  received_ = 0;
  scattered_ = SgeCursor{};
  ++answer_;
  SkipDone();
}

// --- Errors and completions --------------------------------------------------

// Request `index` ends in error once all before it are done.
void Requester::FailAt(uint32_t index, uint8_t status, RxVerdict cause) {
  if (IsAfter(una_, index)) return;  // it is done
  if (failed_ && !IsAfter(failed_index_, index)) return;
  failed_ = true;
  failed_index_ = index;
  failed_status_ = status;
  failed_cause_ = cause;
}

// The request may have been answered in the same burst.
void Requester::OnPlacementFault(uint32_t index) {
  URNIC_CHECK(!IsAfter(head_, index));
  if (IsAfter(una_, index)) una_ = index;
  FailAt(index, URNIC_WC_LOC_PROT_ERR, RxVerdict::kDdpMemory);
}

// The request that a Terminate's copies of headers name. siw copies a read
// request with a wrong MSN, so reads are known by their source.
bool Requester::FindTerminated(const Terminate& terminate,
                               uint32_t& index) const {
  if (!terminate.has_header) return false;
  const ddp::ReceivedSegment& segment = terminate.segment;
  for (index = una_; index != next_ + (InMessage() ? 1 : 0); ++index) {
    const SendRecord& record = RecordOf(index);
    if (segment.tagged()) {
      const auto wqe = sq_.Read<urnic_sq_wqe>(index);
      if (Contains(RequestsOf(RequestFamily::kWrite), record.opcode) &&
          wqe.rkey == segment.stag &&
          segment.offset - wqe.remote_addr < std::max(record.bytes, 1u)) {
        return true;
      }
    } else if (terminate.has_read_request) {
      const auto wqe = sq_.Read<urnic_sq_wqe>(index);
      if (record.opcode == URNIC_WR_RDMA_READ &&
          wqe.rkey == terminate.read_request.source_stag.value() &&
          wqe.remote_addr == terminate.read_request.source_offset.value()) {
        return true;
      }
    } else if (record.msn == segment.msn) {
      const bool sends = segment.queue == wire::kSendQueue;
      if (Contains(sends ? kSends : kAnsweredRequests, record.opcode)) {
        return true;
      }
    }
  }
  return false;
}

void Requester::OnTerminate(const Terminate& terminate) {
  uint32_t index = 0;
  if (FindTerminated(terminate, index)) {
    const ddp::StreamError& error = terminate.error;
    const bool access =
        (error.layer == ddp::kRdmapLayer &&
         error.type == ddp::kProtectionType) ||
        (error.layer == ddp::kDdpLayer && error.type == ddp::kTaggedType);
    const uint8_t status = access                   ? URNIC_WC_REM_ACCESS_ERR
                           : error == ddp::kTooLong ? URNIC_WC_REM_INV_REQ_ERR
                                                    : URNIC_WC_REM_OP_ERR;
    FailAt(index, status, RxVerdict::kTerminateReceived);
  }
  EnterError();
}

bool Requester::PollBefore(SendCompletion& out, uint32_t limit) {
  while (head_ != limit && head_ != una_) {
    const SendRecord& record = RecordOf(head_);
    const uint32_t index = head_++;
    if (!record.signaled) continue;
    out = SendCompletion{.opcode = CompletionOpcode(record.opcode),
                         .byte_len = record.bytes,
                         .wr_id = sq_.Read<urnic_sq_wqe>(index).wr_id};
    Publish();
    return true;
  }
  Publish();
  return false;
}

bool Requester::Poll(SendCompletion& out) {
  if (PollBefore(out, una_)) return true;
  if (failed_ && head_ == failed_index_ && !flushing_) {
    fatal_ = true;
    EnterError();
    return false;
  }
  return flushing_ && PollFlush(out);
}

// After an error each request completes, signaled or not.
bool Requester::PollFlush(SendCompletion& out) {
  const uint32_t posted = sq_.Posted(head_);
  if (posted == 0 || posted == UINT32_MAX) return false;
  const auto wqe = sq_.Read<urnic_sq_wqe>(head_);
  out = SendCompletion{.status = URNIC_WC_WR_FLUSH_ERR,
                       .opcode = CompletionOpcode(wqe.opcode),
                       .wr_id = wqe.wr_id};
  if (failed_ && head_ == failed_index_) {
    out.status = failed_status_;
    out.cause = failed_cause_;
    failed_ = false;
  }
  ++head_;
  if (IsAfter(head_, una_)) una_ = head_;
  if (IsAfter(head_, next_)) {
    next_ = posted_ = head_;
    offset_ = 0;
    begun_ = immediate_due_ = false;
  }
  Publish();
  return true;
}

void Requester::CheckInvariants() const {
  URNIC_CHECK(una_ - head_ <= sq_.entries());
  URNIC_CHECK(!IsAfter(head_, una_) && !IsAfter(una_, next_));
  URNIC_CHECK(flushing_ || next_ - head_ <= sq_.entries());
  URNIC_CHECK(!begun_ || offset_ <= RecordOf(next_).bytes);
  uint32_t waiting = 0;
  for (uint32_t i = una_; i != next_; ++i) waiting += !RecordOf(i).answered;
  URNIC_CHECK(flushing_ || waiting == reads_in_flight_);
}

}  // namespace urnic::rdmap
