#include "datapath/engine/failures.h"

#include <utility>

#include "datapath/engine/engine_qp.h"
#include "transport/base/check.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

ErrorCode CodeOfStatus(uint8_t status) {
  switch (status) {
    case URNIC_WC_LOC_LEN_ERR:
      return ErrorCode::kLocalLength;
    case URNIC_WC_LOC_QP_OP_ERR:
      return ErrorCode::kLocalOperation;
    case URNIC_WC_LOC_PROT_ERR:
      return ErrorCode::kLocalProtection;
    case URNIC_WC_WR_FLUSH_ERR:
      return ErrorCode::kFlushed;
    case URNIC_WC_MW_BIND_ERR:
      return ErrorCode::kWindowBind;
    case URNIC_WC_BAD_RESP_ERR:
      return ErrorCode::kBadResponse;
    case URNIC_WC_LOC_ACCESS_ERR:
      return ErrorCode::kLocalAccess;
    case URNIC_WC_REM_INV_REQ_ERR:
      return ErrorCode::kRemoteInvalidRequest;
    case URNIC_WC_REM_ACCESS_ERR:
      return ErrorCode::kRemoteAccess;
    case URNIC_WC_REM_OP_ERR:
      return ErrorCode::kRemoteOperation;
    case URNIC_WC_RETRY_EXC_ERR:
      return ErrorCode::kRetriesExceeded;
    default:
      URNIC_CHECK(status == URNIC_WC_RNR_RETRY_EXC_ERR);
      return ErrorCode::kRnrRetriesExceeded;
  }
}

Failure FailureOf(Failure failure, const EngineQp& qp) {
  failure.qpn = qp.qpn();
  failure.qp = &qp;
  qp.DescribeFailure(failure);
  return failure;
}

void Failures::Add(Failure failure, TracePlace place) {
  failure.at = now_;
  ++counts_[IndexOf(failure.code)];
  const TraceSubject subject = {.qpn = failure.qpn, .iwarp = failure.iwarp};
  const auto code = static_cast<uint64_t>(failure.code);
  if (failure.code == ErrorCode::kPortUp ||
      failure.code == ErrorCode::kPortDown) {
    trace_.Add(TracePoint::kPortChanged, subject, {code}, place);
  } else if (!failure.text.empty()) {
    trace_.Add(TracePoint::kRefused, subject, {code, failure.cqn, failure.srqn},
               place);
  } else if (failure.qpn == 0) {
    trace_.Add(TracePoint::kQueueFailed, subject,
               {code, failure.cqn, failure.srqn}, place);
  } else {
    trace_.Add(TracePoint::kFailed, subject,
               {code, failure.wr_id, failure.status}, place);
  }
  // Some programs repeat a refused call for a long time: count, do not add.
  Failure* const last = entries_.last();
  if (!failure.text.empty() && last != nullptr && last->code == failure.code &&
      last->iwarp == failure.iwarp && last->qpn == failure.qpn &&
      last->srqn == failure.srqn && last->text == failure.text) {
    ++last->times;
    return;
  }
  const EngineQp* const qp = std::exchange(failure.qp, nullptr);
  if (qp != nullptr && MayKeepState()) {
    std::string state;
    qp->DescribeFailed(failure, state);
    failure.state = std::move(state);
  }
  failure.keys = {};
  entries_.Add(failure);
  for (const auto& [watcher, on_added] : watchers_) on_added();
}

bool Failures::MayKeepState() {
  if (now_ - states_since_ >= Duration::Seconds(1)) {
    states_since_ = now_;
    states_in_time_ = 0;
  }
  return states_in_time_++ < kStatesPerSecond;
}

}  // namespace urnic
