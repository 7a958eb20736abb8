#include "datapath/engine/roce_qp.h"

#include "datapath/engine/qp_of.h"
#include "transport/base/check.h"

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

}  // namespace

RoceQp::RoceQp(Kind kind, const EngineQpConfig& config)
    : EngineQp(kind, config),
      xrc_domain_(config.xrc_domain),
      receives_(config) {
  wire_service_ = WireService(config.service);
}

void RoceQp::DescribePeer(Failure& failure) const {
  failure.has_peer = service_ != QpService::kUd && path.remote != wire::Gid{};
  failure.remote = path.remote;
  failure.remote_qpn = config().dest_qpn;
}

std::unique_ptr<RoceQp> RoceQp::Create(const EngineQpConfig& config,
                                       mem::MrTable* mrs,
                                       rc::RecoveryPool* pool) {
  switch (config.service) {
    case QpService::kUc:
      return std::unique_ptr<RoceQp>(new (config.memory)
                                         UcQp(config, mrs, pool));
    case QpService::kUd:
      return std::unique_ptr<RoceQp>(new (config.memory)
                                         UdQp(config, mrs, pool));
    default:
      return std::unique_ptr<RoceQp>(new (config.memory)
                                         RcQp(config, mrs, pool));
  }
}

}  // namespace urnic
