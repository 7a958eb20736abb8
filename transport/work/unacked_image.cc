#include "transport/work/unacked_image.h"

namespace urnic {

void FieldsOf<UnackedSender>::Check(ImageReader& f, const UnackedSender& s,
                                    QpState state, uint32_t mtu) {
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

void FieldsOf<UnackedSender>::Derive(UnackedSender& s, const QpConfig& config) {
  s.config_ = config;
  s.posted_ = s.next_;
  s.published_ = s.head_;
  s.loaded_ = false;
}

bool FieldsOf<UnackedSender>::Attach(UnackedSender& s) {
  const uint32_t posted = s.sq_.Posted(s.head_);
  if (posted == UINT32_MAX || posted < s.next_ - s.head_) return false;
  s.sq_.PublishConsumer(s.head_);
  return true;
}

void FieldsOf<UnackedQp>::Check(ImageReader& f, const UnackedQp& qp) {
  f.Require(IsCompletionStatus(qp.recv_status_), "recv_status", qp.recv_status_,
            "is unknown");
  f.Require(IsQpEvent(qp.event_), "event", static_cast<uint64_t>(qp.event_),
            "is unknown");
  FieldsOf<UnackedSender>::Check(f, qp.sender_, qp.state_, qp.config_.mtu);
}

void FieldsOf<UnackedQp>::Derive(UnackedQp& qp) {
  FieldsOf<UnackedSender>::Derive(qp.sender_, qp.config_);
}

void FieldsOf<UnackedQp>::Attach(ImageReader& f, UnackedQp& qp) {
  f.Require(FieldsOf<UnackedSender>::Attach(qp.sender_), "head", 0,
            "is not where the program's send ring is");
  f.Require(FieldsOf<RecvQueue>::Attach(*qp.rq_), "receive_ring", 0,
            "is not where the program's receive ring is");
}

ImageShape FieldsOf<UnackedQp>::ShapeOf(const UnackedQp& qp,
                                        QpService service) {
  return {.service = service,
          .limits = qp.limits_,
          .sq_entries = qp.sender_.sq_.entries(),
          .shared_receives = qp.rq_->shared()};
}

}  // namespace urnic
