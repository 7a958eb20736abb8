#include "transport/work/unreliable_qp.h"

#include "transport/work/placement_fault.h"

namespace urnic {

void UnreliableQp::Modify(QpState target, const QpConfig& config) {
  const QpState from = std::exchange(state_, target);
  config_ = config;
  switch (target) {
    case QpState::kReset:
      sender_.Reset();
      rq_->Reset();
      event_ = QpEvent::kNone;
      recv_status_ = URNIC_WC_WR_FLUSH_ERR;
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) {
        sender_.Start(config);
      } else {
        sender_.Resume(config);
      }
      break;
    case QpState::kSqd:
      sender_.Drain();
      break;
    case QpState::kErr:
      sender_.Stop();
      break;
    default:
      break;
  }
}

void UnreliableQp::FailPlacement(const Placement& placement,
                                 std::span<RecvCompletion> completions) {
  FailReceive(FailReceives(placement, RxVerdict::kAccept, completions));
  CountFailedReceives(completions, *counters_);
}

void UnreliableQp::FailReceive(uint8_t status) {
  recv_status_ = status;
  if (state_ == QpState::kErr) return;
  state_ = QpState::kErr;
  sender_.Stop();
  event_ = QpEvent::kFatal;
}

}  // namespace urnic
