#include "transport/iwarp/rdmap/image_fields.h"

namespace urnic {
namespace {

using rdmap::Answer;
using rdmap::SendRecord;

constexpr uint32_t kImpossible = UINT32_MAX;

bool IsAfter(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

void CheckRecord(ImageReader& f, const SendRecord& record) {
  const RequestKind* kind = FindRequest(record.opcode);
  if (!f.Require(
          kind != nullptr && Contains(rdmap::kSupportedRequests, record.opcode),
          "opcode", record.opcode, "is not a request of iWARP")) {
    return;
  }
  f.Require(record.bytes <= URNIC_MAX_MESSAGE_BYTES, "bytes", record.bytes,
            "is more than a message can have");
  f.Require(kind->fixed_length == kAnyLength ||
                record.bytes == static_cast<uint32_t>(kind->fixed_length),
            "bytes", record.bytes, "does not fit the request");
  f.Require(record.answered || kind->answered(), "answered", record.answered,
            "belongs to a request without an answer");
}

// The request that is being cut.
void CheckCut(ImageReader& f, const SendRecord& record, uint32_t offset,
              bool immediate_due) {
  const bool data =
      !Contains(kAnsweredRequests | kLocalRequests, record.opcode);
  f.Require(data || offset == 0, "offset", offset,
            "belongs to a request that is not divided");
  f.Require(!immediate_due || (Contains(kRequestsWithImm, record.opcode) &&
                               offset == record.bytes),
            "immediate_due", immediate_due, "does not fit the request");
  f.Require(immediate_due || offset == 0 || offset < record.bytes, "offset",
            offset, "is beyond the end of a request");
}

void CheckAnswer(ImageReader& f, const Answer& answer, uint32_t offset) {
  const bool read = answer.kind == Answer::Kind::kRead;
  f.Require(read || answer.bytes == 0, "bytes", answer.bytes,
            "belongs to an answer without a length");
  f.Require(offset == 0 || offset < answer.bytes, "offset", offset,
            "is beyond the end of an answer");
}

uint32_t RequestBytes(const SendRecord& record, const ddp::Source& source,
                      bool immediate) {
  if (Contains(kLocalRequests, record.opcode)) return kImpossible;
  if (immediate && Contains(kRequestsWithImm, record.opcode)) {
    return sizeof(wire::DdpUntagged) + sizeof(wire::RdmapImmediate);
  }
  if (record.opcode == URNIC_WR_RDMA_READ) {
    return sizeof(wire::DdpUntagged) + sizeof(wire::RdmapReadRequest);
  }
  if (Contains(kAnsweredRequests, record.opcode)) {
    return sizeof(wire::DdpUntagged) + sizeof(wire::RdmapAtomicRequest);
  }
  if (source.payload_bytes > ddp::kMaxPayloadBytes ||
      uint64_t{source.offset} + source.payload_bytes > record.bytes) {
    return kImpossible;
  }
  const bool send = Contains(RequestsOf(RequestFamily::kSend), record.opcode);
  return source.payload_bytes +
         static_cast<uint32_t>(send ? sizeof(wire::DdpUntagged)
                                    : sizeof(wire::DdpTagged));
}

uint32_t AnswerBytes(const Answer& answer, const ddp::Source& source) {
  if (answer.kind == Answer::Kind::kAtomic) {
    return sizeof(wire::DdpUntagged) + sizeof(wire::RdmapAtomicResponse);
  }
  if (source.payload_bytes > ddp::kMaxPayloadBytes ||
      uint64_t{source.offset} + source.payload_bytes > answer.bytes) {
    return kImpossible;
  }
  return static_cast<uint32_t>(sizeof(wire::DdpTagged)) + source.payload_bytes;
}

}  // namespace

void FieldsOf<rdmap::Requester>::Check(ImageReader& f,
                                       const rdmap::Requester& r,
                                       QpState state) {
  f.Require(r.running_ == (state == QpState::kRts), "running", r.running_,
            "does not fit the state");
  f.Require(r.flushing_ == (state == QpState::kErr), "flushing", r.flushing_,
            "does not fit the state");
  const uint32_t end = r.next_ + (r.begun_ ? 1 : 0);
  for (uint32_t i = r.head_; f.ok() && i != end; ++i) {
    CheckRecord(f, r.RecordOf(i));
  }
  if (!f.ok()) return;
  uint32_t waiting = 0;
  for (uint32_t i = r.una_; i != r.next_; ++i) {
    waiting += !r.RecordOf(i).answered;
  }
  f.Require(r.flushing_ || waiting == r.reads_in_flight_, "reads_in_flight",
            r.reads_in_flight_, "is not the sum over the requests");
  f.Require(r.begun_ || (r.offset_ == 0 && !r.immediate_due_), "offset",
            r.offset_, "belongs to no request");
  if (r.begun_) {
    CheckCut(f, r.RecordOf(r.next_), r.offset_, r.immediate_due_);
  }
  f.Require(r.answer_ - r.head_ <= r.next_ - r.head_, "answer", r.answer_,
            "is not in head..next");
  if (!f.ok()) return;
  if (r.running_ && r.received_ != 0) {
    uint32_t at = r.answer_;
    while (at != r.next_ && r.RecordOf(at).answered) ++at;
    f.Require(at != r.next_ && r.received_ < r.RecordOf(at).bytes, "received",
              r.received_, "is more than a read has");
  }
  f.Require(!r.failed_ || r.failed_index_ - r.una_ <= r.next_ - r.una_,
            "failed_index", r.failed_index_, "is not in una..next");
  f.Require(IsCompletionStatus(r.failed_status_), "failed_status",
            r.failed_status_, "is unknown");
}

void FieldsOf<rdmap::Responder>::Check(ImageReader& f,
                                       const rdmap::Responder& r, bool alive) {
  const uint32_t under_way = r.end_ - r.first_;
  f.Require(r.config_.ird <= r.mask_ + 1, "ird", r.config_.ird,
            "is more than there are answers");
  f.Require(under_way <= (alive ? r.config_.ird : 0), "end", r.end_,
            "is more than ird answers");
  f.Require(r.offset_ == 0 || r.cut_ != r.end_, "offset", r.offset_,
            "belongs to no answer");
  for (uint32_t i = r.first_; f.ok() && i != r.end_; ++i) {
    CheckAnswer(f, r.answers_[i & r.mask_], i == r.cut_ ? r.offset_ : 0);
  }
  f.Require(!alive || !r.immediate_expected_ || r.rq_->taken(),
            "immediate_expected", r.immediate_expected_,
            "has no receive request");
  f.Require(IsCompletionStatus(r.recv_status_), "recv_status", r.recv_status_,
            "is unknown");
}

void FieldsOf<rdmap::Qp>::Check(ImageReader& f, const rdmap::Qp& qp) {
  const QpState state = qp.state_;
  const bool alive = state == QpState::kRts;
  f.Require(alive || state == QpState::kReset || state == QpState::kInit ||
                state == QpState::kErr,
            "state", static_cast<uint64_t>(state), "is not a state of iWARP");
  f.Require(IsQpEvent(qp.event_), "event", static_cast<uint64_t>(qp.event_),
            "is unknown");
  f.Require(!qp.terminate_due_ || state == QpState::kErr, "terminate_due",
            qp.terminate_due_, "does not fit the state");
  f.Require(!qp.terminate_due_ || qp.terminate_bytes_ != 0, "terminate_bytes",
            0, "must not be 0");
  f.Require(!qp.rtr_due_ || alive, "rtr_due", qp.rtr_due_,
            "does not fit the state");
  f.Require(!alive || qp.queues_[wire::kSendQueue].offset_ == 0 ||
                qp.responder_.rq_->taken(),
            "taken", 0, "does not fit the send under way");
  FieldsOf<rdmap::Requester>::Check(f, qp.requester_, state);
  if (f.ok()) FieldsOf<rdmap::Responder>::Check(f, qp.responder_, alive);
}

bool FieldsOf<rdmap::Qp>::HasSmallAfter(const rdmap::Qp& qp, uint64_t packed) {
  const ddp::Source source = ddp::Source::Unpack(packed);
  const rdmap::Requester& r = qp.requester_;
  const uint32_t index = r.MessageAfter(source.IndexNear(r.head_));
  return source.kind == ddp::SourceKind::kRequest && index != r.next_ &&
         r.MayKeep(r.RecordOf(index));
}

uint32_t FieldsOf<rdmap::Qp>::UlpduBytes(const rdmap::Qp& qp, uint64_t packed) {
  const ddp::Source source = ddp::Source::Unpack(packed);
  if (source.kind == ddp::SourceKind::kRequest) {
    const rdmap::Requester& r = qp.requester_;
    const uint32_t index = source.IndexNear(r.head_);
    // The request is done, or was flushed.
    if (IsAfter(r.head_, index)) return 0;
    const uint32_t end = r.next_ + (r.InMessage() ? 1 : 0);
    if (index - r.head_ >= end - r.head_) return kImpossible;
    return RequestBytes(r.RecordOf(index), source,
                        source.offset == rdmap::Requester::kImmediateMark);
  }
  if (source.kind == ddp::SourceKind::kAnswer) {
    if (qp.state_ != QpState::kRts) return 0;
    const rdmap::Responder& r = qp.responder_;
    const uint32_t index = source.IndexNear(r.first_);
    const uint32_t end = r.cut_ + (r.offset_ != 0 ? 1 : 0);
    if (index - r.first_ >= end - r.first_) return kImpossible;
    return AnswerBytes(r.answers_[index & r.mask_], source);
  }
  switch (source.index) {
    case rdmap::Qp::kTerminate:
      // Otherwise it could become another one.
      if (qp.state_ == QpState::kRts) return kImpossible;
      return static_cast<uint32_t>(sizeof(wire::DdpUntagged)) +
             qp.terminate_bytes_;
    case rdmap::Qp::kRtrWrite:
      return sizeof(wire::DdpTagged);
    case rdmap::Qp::kRtrRead:
      return sizeof(wire::DdpUntagged) + sizeof(wire::RdmapReadRequest);
    default:
      return kImpossible;
  }
}

void FieldsOf<rdmap::Qp>::Attach(ImageReader& f, rdmap::Qp& qp) {
  rdmap::Requester& r = qp.requester_;
  const uint32_t posted = r.sq_.Posted(r.head_);
  f.Require(
      posted != UINT32_MAX && posted >= r.next_ - r.head_ + (r.begun_ ? 1 : 0),
      "head", r.head_, "is not where the program's send ring is");
  f.Require(FieldsOf<RecvQueue>::Attach(*qp.responder_.rq_), "receive_ring", 0,
            "is not where the program's receive ring is");
  if (!f.ok()) return;
  r.published_ = r.head_;
  r.sq_.PublishConsumer(r.head_);
  r.posted_ = r.next_ + (r.begun_ ? 1 : 0);
  if (!r.begun_) return;
  uint64_t length = 0;
  r.current_.index = r.next_;
  r.current_.valid =
      r.current_.request.Load(r.sq_, r.next_, r.limits_, length) &&
      length == r.RecordOf(r.next_).bytes;
}

}  // namespace urnic
