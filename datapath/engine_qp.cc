#include "datapath/engine_qp.h"

namespace urnic {

EngineQp::EngineQp(const EngineQpConfig& config, mem::MrTable* mrs)
    : service_(config.service),
      qpn_(config.limits.qpn),
      recv_sges_(new urnic_sge[config.limits.max_sge_recv]),
      own_ring_(config.rq, config.limits.max_sge_recv),
      recv_queue_(config.srq != nullptr ? &config.srq->ring : &own_ring_,
                  recv_sges_.get(), config.srq != nullptr),
      events_(config.events),
      owner_(config.owner),
      srq(config.srq),
      send_cq(config.send_cq),
      recv_cq(config.recv_cq) {
  switch (service_) {
    case QpService::kRc: {
      const uint32_t entries = config.sq.entries();
      records_.reset(new rc::SendRecord[entries]);
      replay_.reset(new rc::ReplaySlot[rc::kReplaySlots]);
      transport_.emplace<rc::Qp>(
          config.limits, config.sq,
          std::span<rc::SendRecord>(records_.get(), entries), replay_.get(),
          &recv_queue_, mrs);
      break;
    }
    case QpService::kUc:
      transport_.emplace<uc::Qp>(config.limits, config.sq, &recv_queue_, mrs);
      break;
    case QpService::kUd:
      transport_.emplace<ud::Qp>(config.limits, config.sq, &recv_queue_, mrs);
      break;
  }
}

RequesterCounts EngineQp::counts() const {
  if (service_ != QpService::kRc) return {};
  const rc::SendState& s = rc().send_state();
  return {.packets_sent = s.packets_sent,
          .packets_resent = s.packets_resent,
          .timeouts = s.timeouts,
          .sequence_naks = s.sequence_naks,
          .rnr_naks = s.rnr_naks};
}

}  // namespace urnic
