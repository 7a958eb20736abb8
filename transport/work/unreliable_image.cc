#include "transport/work/unreliable_image.h"

namespace urnic {

void FieldsOf<UnreliableSender>::Check(ImageReader& f,
                                       const UnreliableSender& s, QpState state,
                                       uint32_t mtu) {
  const bool flushes = state == QpState::kErr || state == QpState::kSqe;
  f.Require(s.next_ - s.head_ <= s.sq_.entries(), "next", s.next_,
            "is farther from head than the ring's length");
  f.Require(s.stale_ <= s.next_ - s.head_, "stale", s.stale_,
            "is more than there are requests");
  f.Require(s.running_ == (state == QpState::kRts || state == QpState::kSqd),
            "running", s.running_, "does not fit the state");
  f.Require(s.flushing_ == flushes, "flushing", s.flushing_,
            "does not fit the state");
  f.Require(state != QpState::kRts || !s.draining_, "draining", s.draining_,
            "does not fit the state");
  f.Require(state != QpState::kSqd || s.draining_, "draining", s.draining_,
            "does not fit the state");
  f.Require(IsCompletionStatus(s.failed_status_), "failed_status",
            s.failed_status_, "is unknown");
  if (!s.running_) return;
  f.Require(s.length_ <= URNIC_MAX_MESSAGE_BYTES, "length", s.length_,
            "is more than a message can have");
  f.Require(s.offset_ == 0 || s.offset_ < s.length_, "offset", s.offset_,
            "is beyond the end of a request");
  f.Require(s.offset_ % mtu == 0, "offset", s.offset_,
            "is in the middle of a packet");
  f.Require(!s.failed_ || s.offset_ == 0, "offset", s.offset_,
            "is of a request that has failed");
}

void FieldsOf<UnreliableSender>::Derive(UnreliableSender& s,
                                        const QpConfig& config) {
  s.config_ = config;
  s.posted_ = s.next_;
  s.published_ = s.head_;
  s.loaded_ = false;
}

bool FieldsOf<UnreliableSender>::Attach(UnreliableSender& s) {
  const uint32_t posted = s.sq_.Posted(s.head_);
  if (posted == UINT32_MAX || posted < s.next_ - s.head_) return false;
  s.sq_.PublishConsumer(s.head_);
  return true;
}

void FieldsOf<UnreliableQp>::Check(ImageReader& f, const UnreliableQp& qp) {
  f.Require(IsCompletionStatus(qp.recv_status_), "recv_status", qp.recv_status_,
            "is unknown");
  f.Require(IsQpEvent(qp.event_), "event", static_cast<uint64_t>(qp.event_),
            "is unknown");
  FieldsOf<UnreliableSender>::Check(f, qp.sender_, qp.state_, qp.config_.mtu);
}

void FieldsOf<UnreliableQp>::Derive(UnreliableQp& qp) {
  FieldsOf<UnreliableSender>::Derive(qp.sender_, qp.config_);
}

void FieldsOf<UnreliableQp>::Attach(ImageReader& f, UnreliableQp& qp) {
  f.Require(FieldsOf<UnreliableSender>::Attach(qp.sender_), "head", 0,
            "is not where the program's send ring is");
  f.Require(FieldsOf<RecvQueue>::Attach(*qp.rq_), "receive_ring", 0,
            "is not where the program's receive ring is");
}

ImageShape FieldsOf<UnreliableQp>::ShapeOf(const UnreliableQp& qp,
                                           QpService service) {
  return {.service = service,
          .limits = qp.limits_,
          .sq_entries = qp.sender_.sq_.entries(),
          .shared_receives = qp.rq_->shared()};
}

}  // namespace urnic
