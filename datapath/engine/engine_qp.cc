#include "datapath/engine/engine_qp.h"

#include "datapath/engine/qp_of.h"

namespace urnic {

namespace {

wire::Service WireService(QpService service) {
  switch (service) {
    case QpService::kRc:
      return wire::Service::kRc;
    case QpService::kUc:
      return wire::Service::kUc;
    case QpService::kUd:
      return wire::Service::kUd;
    default:
      return wire::Service::kXrc;
  }
}

RecvRing* RingOf(const EngineQpConfig& config, RecvRing& own) {
  if (config.service == QpService::kXrcTarget) return nullptr;  // per packet
  return config.srq != nullptr ? &config.srq->ring : &own;
}

}  // namespace

EngineQp::EngineQp(Kind kind, const EngineQpConfig& config)
    : Flow(kind),
      service_(config.service),
      wire_service_(WireService(config.service)),
      qpn_(config.limits.qpn),
      pd_(config.limits.pd),
      xrc_domain_(config.xrc_domain),
      send_cq(config.send_cq),
      recv_cq(config.recv_cq),
      srq(config.srq),
      events_(config.events),
      owner_(config.owner),
      recv_sges_(new urnic_sge[config.limits.max_sge_recv]),
      own_ring_(config.rq, config.limits.max_sge_recv),
      recv_queue_(RingOf(config, own_ring_), recv_sges_.get(),
                  RingOf(config, own_ring_) != &own_ring_) {}

std::unique_ptr<EngineQp> EngineQp::Create(const EngineQpConfig& config,
                                           mem::MrTable* mrs) {
  switch (config.service) {
    case QpService::kUc:
      return std::make_unique<UcQp>(config, mrs);
    case QpService::kUd:
      return std::make_unique<UdQp>(config, mrs);
    default:
      return std::make_unique<RcQp>(config, mrs);
  }
}

}  // namespace urnic
