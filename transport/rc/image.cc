#include "transport/rc/image.h"

#include "transport/rc/image_fields.h"

namespace urnic {
namespace {

using rc::ReplaySlot;
using rc::SendRecord;
using rc::SendState;

constexpr uint32_t kPsnMask = 0xffffff;

uint32_t PacketsOf(const SendRecord& record, uint32_t mtu) {
  const RequestKind* kind = FindRequest(record.opcode);
  if (kind->local()) return 0;
  if (kind->fixed_length != kAnyLength || record.length == 0) return 1;
  return static_cast<uint32_t>((uint64_t{record.length} + mtu - 1) / mtu);
}

// Checks each request by itself. Also checks that the PSNs of unacknowledged
// requests have no gap, and that una_psn is one of the oldest request's.
bool CheckRecords(ImageReader& f, const SendState& s) {
  uint32_t reads = 0;
  for (uint32_t i = s.head; i != s.assigned; ++i) {
    const SendRecord& record = s.RecordOf(i);
    if (!f.Require(FindRequest(record.opcode) != nullptr &&
                       Contains(RequestsOf(QpService::kRc), record.opcode),
                   "opcode", record.opcode,
                   "is not a request of this service") ||
        !f.Require(record.packets == PacketsOf(record, s.config.mtu), "packets",
                   record.packets, "does not fit the length")) {
      return false;
    }
    if (static_cast<int32_t>(i - s.una) < 0) continue;
    reads += record.reads_in_flight;
    f.Require(record.reads_in_flight == 0 ||
                  Contains(kAnsweredRequests, record.opcode),
              "reads_in_flight", record.reads_in_flight,
              "belongs to a request without an answer");
    f.Require(record.part_shift < 24 || record.executed(), "part_shift",
              record.part_shift, "is larger than any window");
    f.Require(!record.executed() || Contains(kLocalRequests, record.opcode),
              "part_shift", record.part_shift, "is for local operations");
    const uint32_t psn = record.first_psn.value();
    if (i == s.una) {
      f.Require((s.una_psn - record.first_psn) >= 0 &&
                    (static_cast<uint32_t>(s.una_psn - record.first_psn) <
                         record.packets ||
                     s.una_psn == record.first_psn),
                "una_psn", s.una_psn.value(), "is not of the oldest request");
    } else {
      const SendRecord& before = s.RecordOf(i - 1);
      f.Require(((before.first_psn.value() + before.packets) & kPsnMask) == psn,
                "first_psn", psn, "does not follow the request before");
    }
  }
  return f.Require(reads == s.reads_in_flight, "reads_in_flight",
                   s.reads_in_flight, "is not the sum over the requests") &&
         f.Require(reads <= s.config.max_rd_atomic, "reads_in_flight", reads,
                   "is more than max_rd_atomic") &&
         f.ok();
}

// Checks the transmit position against the requests.
void CheckPosition(ImageReader& f, const SendState& s) {
  f.Require(s.tx_psn - s.una_psn >= 0, "tx_psn", s.tx_psn.value(),
            "is before una_psn");
  f.Require(s.sent_psn - s.tx_psn >= 0, "sent_psn", s.sent_psn.value(),
            "is before tx_psn");
  if (s.next != s.assigned) {
    const SendRecord& record = s.RecordOf(s.next);
    f.Require(s.next_offset == 0 || s.next_offset < record.length,
              "next_offset", s.next_offset, "is beyond the end of a request");
    f.Require(s.next_offset % s.config.mtu == 0, "next_offset", s.next_offset,
              "is in the middle of a packet");
    const Psn psn =
        record.first_psn + static_cast<int32_t>(s.next_offset / s.config.mtu);
    f.Require(s.tx_psn == psn, "tx_psn", s.tx_psn.value(),
              "is not the next packet to send");
  }
  if (s.failed || !s.running) return;
  Psn end = s.una_psn;
  if (s.una != s.assigned) {
    const SendRecord& last = s.RecordOf(s.assigned - 1);
    end = last.first_psn + static_cast<int32_t>(last.packets);
  }
  f.Require(s.next_psn == end, "next_psn", s.next_psn.value(),
            "does not follow the last request");
  f.Require(s.next_psn - s.sent_psn >= 0, "sent_psn", s.sent_psn.value(),
            "is beyond the last request");
  if (s.next == s.assigned) {
    f.Require(s.tx_psn == end && s.sent_psn == end, "tx_psn", s.tx_psn.value(),
              "is not the end of all requests");
  }
}

void CheckFlags(ImageReader& f, const SendState& s, QpState state) {
  f.Require(s.running == (state == QpState::kRts || state == QpState::kSqd),
            "running", s.running, "does not fit the state");
  f.Require(s.flushing == (state == QpState::kErr), "flushing", s.flushing,
            "does not fit the state");
  f.Require(state != QpState::kRts || !s.draining, "draining", s.draining,
            "does not fit the state");
  f.Require(state != QpState::kSqd || s.draining, "draining", s.draining,
            "does not fit the state");
  f.Require(s.running || s.una == s.assigned, "assigned", s.assigned,
            "has requests under way in a state without requests");
  f.Require(s.running || (s.tx_psn == s.una_psn && s.sent_psn == s.una_psn),
            "sent_psn", s.sent_psn.value(),
            "has packets under way in a state without packets");
  f.Require(!s.failed || (s.running && s.failed_index == s.assigned),
            "failed_index", s.failed_index, "is not after the last request");
  f.Require(IsCompletionStatus(s.failed_status), "failed_status",
            s.failed_status, "is unknown");
  f.Require(!s.rnr_waiting || (s.running && !s.deadline().IsInfinite()),
            "rnr_waiting", s.rnr_waiting, "would never end");
  f.Require(!s.rnr_waiting || s.tx_psn == s.una_psn, "rnr_waiting",
            s.rnr_waiting, "has packets under way");
  f.Require(s.running || s.deadline().IsInfinite(), "deadline", 0,
            "is set in a state without deadlines");
  f.Require(!s.running || s.path->started(), "path", 0, "was never started");
}

void CheckSlot(ImageReader& f, const ReplaySlot& slot, const QpConfig& config) {
  f.Require(slot.kind != ReplaySlot::Kind::kFree, "kind", 0, "is a free slot");
  f.Require(slot.pending || slot.answered, "pending", 0,
            "is not set, and the request is not answered");
  uint32_t packets = 1;
  if (slot.kind == ReplaySlot::Kind::kRead && slot.length != 0) {
    packets = static_cast<uint32_t>((uint64_t{slot.length} + config.mtu - 1) /
                                    config.mtu);
  }
  f.Require(slot.packets == packets, "packets", slot.packets,
            "does not fit the length");
  f.Require(slot.length <= URNIC_MAX_MESSAGE_BYTES, "length", slot.length,
            "is more than a message can have");
  f.Require(slot.kind == ReplaySlot::Kind::kRead || slot.length == 0, "length",
            slot.length, "belongs to an answer without data");
  f.Require(slot.answer_begin <= slot.answer_next &&
                slot.answer_next <= slot.answer_end &&
                slot.answer_end <= slot.length,
            "answer_next", slot.answer_next, "is not within the answer");
  f.Require(slot.answer_begin % config.mtu == 0 &&
                (slot.answer_next % config.mtu == 0 ||
                 slot.answer_next == slot.answer_end),
            "answer_next", slot.answer_next, "is in the middle of a packet");
  f.Require(!slot.pending || slot.answer_next < slot.answer_end ||
                slot.answer_begin == slot.answer_end,
            "pending", 1, "is set, but nothing is left");
}

// Whether `syndrome` is 0 or that of a NAK.
bool IsNak(uint8_t syndrome) {
  return syndrome == 0 ||
         (syndrome & wire::kAethTypeMask) == wire::kAethRnrNak ||
         (syndrome >= wire::kNakPsnSequenceError &&
          syndrome <= wire::kNakRemoteOperationalError);
}

}  // namespace

bool FieldsOf<SendState>::Check(ImageReader& f, const SendState& s,
                                QpState state) {
  if (!CheckRecords(f, s)) return false;
  CheckPosition(f, s);
  CheckFlags(f, s, state);
  return f.ok();
}

bool FieldsOf<rc::Responder>::Check(ImageReader& f, const rc::Responder& r,
                                    QpState state, const SendState& send) {
  const bool alive = state == QpState::kRtr || state == QpState::kRts ||
                     state == QpState::kSqd;
  f.Require(!r.receiving_ || (alive && !r.failed_), "receiving", r.receiving_,
            "does not fit the state");
  f.Require(!r.established_ || r.receiving_, "established", r.established_,
            "does not fit the state");
  f.Require(!r.failed_ || state == QpState::kErr, "failed", r.failed_,
            "does not fit the state");
  f.Require(r.xrc_ || r.pd_ == send.limits.pd, "pd", r.pd_,
            "belongs to another domain");
  f.Require(!r.receiving_ || r.rq_->taken() ||
                r.message_ != rc::Responder::Message::kSend,
            "message", static_cast<uint64_t>(r.message_),
            "has no receive request");
  f.Require(r.offset_ <= URNIC_MAX_MESSAGE_BYTES, "offset", r.offset_,
            "is more than a message can have");
  f.Require(IsNak(r.nak_due_), "nak_due", r.nak_due_, "is not a NAK");
  f.Require(IsCompletionStatus(r.recv_status_), "recv_status", r.recv_status_,
            "is unknown");
  f.Require(IsQpEvent(r.event_), "event", static_cast<uint64_t>(r.event_),
            "is unknown");
  const rc::ReplayRing& ring = r.replay_;
  for (uint32_t i = ring.begin_; i != ring.end_; ++i) {
    const ReplaySlot& slot = ring.slots_[i & ring.mask_];
    CheckSlot(f, slot, send.config);
    f.Require(r.xrc_ || slot.pd == 0 || slot.pd == send.limits.pd, "pd",
              slot.pd, "belongs to another domain");
  }
  f.Require(ring.limit_ <= ring.capacity(), "limit", ring.limit_,
            "does not fit");
  return f.ok();
}

bool FieldsOf<rc::Qp>::Check(ImageReader& f, const rc::Qp& qp) {
  f.Require(qp.state_ != QpState::kSqe, "state",
            static_cast<uint64_t>(qp.state_), "is not a state of RC");
  f.Require(IsQpEvent(qp.event_), "event", static_cast<uint64_t>(qp.event_),
            "is unknown");
  return FieldsOf<SendState>::Check(f, qp.send_, qp.state_) &&
         FieldsOf<rc::Responder>::Check(f, qp.responder_, qp.state_, qp.send_);
}

// Derives what an image omits because it follows from the rest.
void FieldsOf<rc::Qp>::Derive(rc::Qp& qp) {
  SendState& s = qp.send_;
  s.posted = s.assigned;
  s.any_executed = false;
  for (uint32_t i = s.una; i != s.assigned; ++i) {
    s.any_executed |= s.RecordOf(i).executed();
  }
  s.pacer.SetRate(s.config.bits_per_second);
  s.published = s.head;
  rc::Responder& r = qp.responder_;
  r.Use(s.config);
  rc::ReplayRing& ring = r.replay_;
  ring.pending_ = 0;
  ring.first_pending_ = ring.end_;
  for (uint32_t i = ring.end_; i != ring.begin_;) {
    if (!ring.slots_[--i & ring.mask_].pending) continue;
    ++ring.pending_;
    ring.first_pending_ = i;
  }
}

void FieldsOf<rc::Qp>::Attach(ImageReader& f, rc::Qp& qp) {
  SendState& s = qp.send_;
  const uint32_t posted = s.sq.Posted(s.head);
  f.Require(posted != UINT32_MAX && posted >= s.assigned - s.head, "head",
            s.head, "is not where the program's send ring is");
  f.Require(FieldsOf<RecvQueue>::Attach(qp.responder_.recv_queue()),
            "receive_ring", 0, "is not where the program's receive ring is");
  if (f.ok()) s.sq.PublishConsumer(s.head);
}

namespace rc {

namespace {

void Read(ImageReader& reader, Qp& qp) {
  ReadShape(reader, FieldsOf<Qp>::ShapeOf(qp));
  reader.Element("", qp);
  reader.Finish();
  if (reader.ok() && FieldsOf<Qp>::Check(reader, qp)) FieldsOf<Qp>::Derive(qp);
}

}  // namespace

size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out) {
  ImageWriter writer(ImageKind::kRc, now, out);
  const ImageShape shape = FieldsOf<Qp>::ShapeOf(qp);
  writer.Element("shape", shape);
  writer.Element("", qp);
  return writer.Finish();
}

ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  ImageReader reader(image, now);
  Read(reader, qp);
  return reader.refusal();
}

ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  ImageReader reader(image, now);
  Read(reader, qp);
  if (reader.ok()) FieldsOf<Qp>::Attach(reader, qp);
  return reader.refusal();
}

void ShowState(const Qp& qp, Time now, std::string& out) {
  ImagePrinter printer(now, out);
  printer.Element("qp", qp);
}

}  // namespace rc
}  // namespace urnic
