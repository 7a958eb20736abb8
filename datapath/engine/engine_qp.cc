#include "datapath/engine/engine_qp.h"

#include "datapath/engine/input_tap.h"

namespace urnic {

namespace {

RecvRing* RingOf(const EngineQpConfig& config, RecvRing& own) {
  if (config.service == QpService::kXrcTarget) return nullptr;  // packets say
  return config.srq != nullptr ? &config.srq->ring : &own;
}

}  // namespace

QpReceives::QpReceives(const EngineQpConfig& config)
    : sges(config.place.sges, config.limits.max_sge_recv),
      own_ring(config.rq, config.limits.max_sge_recv),
      queue(RingOf(config, own_ring), sges.get(),
            RingOf(config, own_ring) != &own_ring) {}

EngineQp::EngineQp(Kind kind, const EngineQpConfig& config)
    : Flow(kind),
      service_(config.service),
      is_placed_(config.place.qp != nullptr),
      qpn_(config.limits.qpn),
      pd_(config.limits.pd),
      send_cq(config.send_cq),
      recv_cq(config.recv_cq),
      srq(config.srq),
      events_(config.events) {}

EngineQp::~EngineQp() { delete tap_; }

void EngineQp::SetTap(std::unique_ptr<InputTap> tap) {
  delete tap_;
  tap_ = tap.release();
  is_logged_ = tap_ != nullptr;
}

}  // namespace urnic
