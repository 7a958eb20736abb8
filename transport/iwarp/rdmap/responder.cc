#include "transport/iwarp/rdmap/responder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/work/placement_fault.h"

namespace urnic::rdmap {

Responder::Responder(const QpLimits& limits, RecvQueue* recv_queue,
                     std::span<Answer> answers, mem::MrTable* mrs)
    : mrs_(mrs), rq_(recv_queue), stream_{.pd = limits.pd, .qpn = limits.qpn} {
  UseAnswers(answers);
}

void Responder::UseAnswers(std::span<Answer> answers) {
  URNIC_CHECK(answers.empty() || std::has_single_bit(answers.size()));
  URNIC_CHECK(answers.size() <= 1u << 14);  // Source::IndexNear() is unique
  URNIC_CHECK(first_ == end_);
  answers_ = answers.data();
  mask_ = static_cast<uint32_t>(answers.size()) - 1;
}

void Responder::Start(const Config& config) {
  URNIC_CHECK(config.ird <= mask_ + 1);
  config_ = config;
}

void Responder::Reset() {
  Stop();
  rq_->Reset();
  recv_status_ = URNIC_WC_WR_FLUSH_ERR;
  immediate_expected_ = after_write_ = false;
  write_bytes_ = last_write_bytes_ = 0;
  next_answer_msn_ = known_sends_ = 1;
  refused_ = {};
  refused_request_ = RefusedAccess::kNoRequest;
}

void Responder::Stop() {
  first_ = cut_ = end_;
  offset_ = 0;
}

//= RFC 5041 7.1: a message for which no buffer is posted ends the stream
ddp::StreamError Responder::TakeReceive() {
  switch (rq_->Take()) {
    case RecvQueue::TakeResult::kTaken:
      return ddp::kNoError;
    case RecvQueue::TakeResult::kEmpty:
      return ddp::kNoBuffer;
    default:
      return ddp::kDdpCatastrophic;
  }
}

//= RFC 5040 4.8: the code of a failed invalidation says whether the STag is
//= unknown or cannot be invalidated
ddp::StreamError Responder::Invalidate(uint32_t stag) {
  const RemoteRange range{.key = MrKey{stag}};
  switch (mrs_->Invalidate(range.key, stream_.pd, stream_.qpn)) {
    case mem::MemFault::kNone:
      return ddp::kNoError;
    case mem::MemFault::kPd:
    case mem::MemFault::kRights:
      return RefuseAccess(range, URNIC_WR_SEND_WITH_INV,
                          ddp::kInvalidateRefused);
    default:
      return RefuseAccess(range, URNIC_WR_SEND_WITH_INV,
                          ddp::kInvalidateUnknown);
  }
}

ddp::StreamError Responder::RefuseWrite(const ddp::ReceivedSegment& segment,
                                        const ddp::StreamError& error) {
  return RefuseAccess(
      {segment.offset, segment.payload_bytes, MrKey{segment.stag}},
      URNIC_WR_RDMA_WRITE, error);
}

ddp::StreamError Responder::RefuseAccess(const RemoteRange& range,
                                         uint8_t request,
                                         const ddp::StreamError& error) {
  refused_ = range;
  refused_request_ = request;
  return error;
}

Answer* Responder::Add() {
  if (end_ - first_ >= config_.ird) return nullptr;
  Answer& answer = AnswerAt(end_++);
  answer = Answer{};
  return &answer;
}

ddp::StreamError Responder::LocateSource(const Answer& answer, uint32_t begin,
                                         uint32_t bytes, uint64_t& host) const {
  if (bytes == 0) return ddp::kNoError;
  return ddp::AsSourceError(ddp::Locate(*mrs_, stream_, answer.stag,
                                        answer.address + begin, bytes,
                                        mem::kRemoteRead, host));
}

ddp::StreamError Responder::OnReadRequest(const ddp::ReceivedSegment& segment) {
  wire::RdmapReadRequest request;
  //= RFC 5041 7.1: a message longer than its buffer is an error; the buffer of
  //= a read request has the size of its header
  if (segment.offset + segment.payload_bytes > sizeof(request)) {
    return ddp::kTooLong;
  }
  if (segment.payload_bytes != sizeof(request) || !segment.last()) {
    return ddp::kStreamCatastrophic;
  }
  segment.CopyPayload(reinterpret_cast<uint8_t*>(&request), sizeof(request));
  Answer wanted{.stag = request.source_stag.value(),
                .address = request.source_offset.value(),
                .bytes = request.bytes.value(),
                .sink_stag = request.sink_stag.value(),
                .sink_offset = request.sink_offset.value()};
  //= RFC 5040 5.2: the source STag of a read of zero bytes is not checked
  if (wanted.bytes != 0) {
    uint64_t host = 0;
    const ddp::StreamError error =
        (config_.access & mem::kRemoteRead) == 0
            ? ddp::kAccessRights
            : LocateSource(wanted, 0, wanted.bytes, host);
    if (error) {
      return RefuseAccess({wanted.address, wanted.bytes, MrKey{wanted.stag}},
                          URNIC_WR_RDMA_READ, error);
    }
  }
  //= RFC 5040 5.2: the responder accepts at most IRD reads at a time
  Answer* answer = Add();
  if (answer == nullptr) return ddp::kNoBuffer;
  *answer = wanted;
  return ddp::kNoError;
}

ddp::StreamError Responder::AcceptAtomic(const ddp::ReceivedSegment& segment,
                                         Answer*& answer, uint64_t& host) {
  wire::RdmapAtomicRequest request;
  if (segment.offset + segment.payload_bytes > sizeof(request)) {
    return ddp::kTooLong;
  }
  if (segment.payload_bytes != sizeof(request) || !segment.last()) {
    return ddp::kStreamCatastrophic;
  }
  segment.CopyPayload(reinterpret_cast<uint8_t*>(&request), sizeof(request));
  MaskedAtomic masked{.swap_or_add = request.swap_or_add.value(),
                      .mask = request.swap_or_add_mask.value(),
                      .compare = request.compare.value(),
                      .compare_mask = request.compare_mask.value()};
  switch (request.operation.value() & 0x0f) {
    case wire::kAtomicFetchAdd:
      break;
    case wire::kAtomicSwap:
      masked.compare_mask = 0;  // whatever is there
      [[fallthrough]];
    case wire::kAtomicCompareSwap:
      masked.kind = MaskedAtomic::Kind::kCompareSwap;
      break;
    default:
      return ddp::kUnexpectedOpcode;
  }
  const uint64_t address = request.offset.value();
  ddp::StreamError error = ddp::kAccessRights;
  if ((config_.access & mem::kRemoteAtomic) != 0) {
    error = ddp::AsSourceError(ddp::Locate(*mrs_, stream_, request.stag.value(),
                                           address, sizeof(uint64_t),
                                           mem::kRemoteAtomic, host));
  }
  if (error) {
    return RefuseAccess(
        {address, sizeof(uint64_t), MrKey{request.stag.value()}},
        masked.kind == MaskedAtomic::Kind::kCompareSwap
            ? URNIC_WR_ATOMIC_CMP_AND_SWP
            : URNIC_WR_ATOMIC_FETCH_AND_ADD,
        error);
  }
  //= RFC 7306 5.1: the address of an atomic is a multiple of eight
  if (address % 8 != 0 || host % 8 != 0) return ddp::kStreamCatastrophic;
  //= RFC 7306 5.2.1: atomic requests use the queue of the read requests and
  //= count for its depth
  answer = Add();
  if (answer == nullptr) return ddp::kNoBuffer;
  answer->kind = Answer::Kind::kAtomic;
  answer->request_id = request.request_id.value();
  answer->msn = next_answer_msn_++;
  answer->masked = masked;
  return ddp::kNoError;
}

Placement Responder::PlacementOf(Answer& answer, uint64_t host,
                                 uint8_t position) {
  MaskedAtomic& masked = answer.masked;
  Placement placement{.kind = Placement::Kind::kMasked,
                      .packet = position,
                      .from_responder = true,
                      .bytes = sizeof(uint64_t),
                      .target = host,
                      .original = &masked.original};
  const bool add = masked.kind == MaskedAtomic::Kind::kFetchAdd;
  // The operations that every processor has.
  if (add ? masked.mask == 0
          : (masked.mask & masked.compare_mask) == UINT64_MAX) {
    placement.kind =
        add ? Placement::Kind::kFetchAdd : Placement::Kind::kCompareSwap;
    placement.compare = masked.compare;
    placement.swap_or_add = masked.swap_or_add;
  }
  return placement;
}

void Responder::OnPlacementFault(const Placement& placement,
                                 std::span<RecvCompletion> completions) {
  recv_status_ = FailReceives(placement, RxVerdict::kDdpMemory, completions);
}

// --- Answers -----------------------------------------------------------------

//= RFC 5040 5.5: reads and atomics are answered in the order of their requests
ddp::StreamError Responder::NextCut(uint32_t mulpdu, ddp::Cut& cut) {
  URNIC_CHECK(HasWork() && mulpdu >= ddp::kMinMulpdu);
  const Answer& answer = AnswerAt(cut_);
  ddp::Source source{.kind = ddp::SourceKind::kAnswer,
                     .index = static_cast<uint16_t>(cut_),
                     .offset = offset_};
  cut.keep = ddp::Keep::kMust;
  if (answer.kind == Answer::Kind::kAtomic) {
    cut.source = source.Pack();
    cut.ulpdu_bytes =
        sizeof(wire::DdpUntagged) + sizeof(wire::RdmapAtomicResponse);
    ++cut_;
    return ddp::kNoError;
  }
  source.payload_bytes = ddp::PayloadBytes(answer.bytes - offset_,
                                           sizeof(wire::DdpTagged), mulpdu);
  uint64_t host = 0;
  const ddp::StreamError error =
      LocateSource(answer, offset_, source.payload_bytes, host);
  if (error) {
    cut = ddp::Cut{};
    return RefuseAccess(
        {answer.address + offset_, source.payload_bytes, MrKey{answer.stag}},
        URNIC_WR_RDMA_READ, error);
  }
  cut.source = source.Pack();
  cut.ulpdu_bytes =
      static_cast<uint32_t>(sizeof(wire::DdpTagged)) + source.payload_bytes;
  offset_ += source.payload_bytes;
  if (offset_ == answer.bytes) {
    ++cut_;
    offset_ = 0;
  }
  return ddp::kNoError;
}

bool Responder::Build(const ddp::Source& source, TxSlot& slot) {
  const uint32_t index = source.IndexNear(first_);
  URNIC_CHECK(index - first_ < end_ - first_);
  const Answer& answer = AnswerAt(index);
  slot.from_responder = true;
  slot.origin = index;
  slot.segment_count = 0;
  slot.payload_bytes = 0;
  slot.pad_bytes = 0;
  if (answer.kind == Answer::Kind::kAtomic) {
    //= RFC 7306 5.2.2: an atomic response is sent on a queue of its own
    ddp::WriteUntagged(slot, {.opcode = wire::RdmapOpcode::kAtomicResponse,
                              .queue = wire::kAtomicResponseQueue,
                              .msn = answer.msn});
    wire::RdmapAtomicResponse response;
    response.request_id = wire::Be<uint32_t>(answer.request_id);
    response.original = wire::Be<uint64_t>(answer.masked.original);
    ddp::Append(slot, response);
    return true;
  }
  const uint32_t bytes = source.payload_bytes;
  uint64_t host = 0;
  if (LocateSource(answer, source.offset, bytes, host)) return false;
  ddp::WriteTagged(
      slot, wire::RdmapOpcode::kReadResponse,
      source.offset + bytes == answer.bytes, answer.sink_stag,
      answer.sink_offset +
          MUTATION(iwarp_answers_with_other_offset, source.offset, 0u));
  if (bytes != 0) {
    slot.segments[0] = {host, bytes};
    slot.segment_count = 1;
    slot.payload_bytes = bytes;
  }
  return true;
}

void Responder::OnSent(const ddp::Source& source) {
  const uint32_t index = source.IndexNear(first_);
  if (index != first_ || first_ == cut_) return;
  const Answer& answer = AnswerAt(index);
  if (answer.kind == Answer::Kind::kAtomic ||
      source.offset + source.payload_bytes == answer.bytes) {
    ++first_;
  }
}

bool Responder::PollFlush(RecvCompletion& out) {
  if (!rq_->TakeToFlush()) return false;
  out = RecvCompletion{.status = recv_status_, .wr_id = rq_->Consume()};
  recv_status_ = URNIC_WC_WR_FLUSH_ERR;
  PublishConsumer();
  return true;
}

void Responder::CheckInvariants() const {
  URNIC_CHECK(cut_ - first_ <= end_ - first_);
  URNIC_CHECK(end_ - first_ <= mask_ + 1);
  URNIC_CHECK(offset_ == 0 || cut_ != end_);
}

}  // namespace urnic::rdmap
