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

QpPtr<RoceQp> RoceQp::Create(const EngineQpConfig& config, mem::MrTable* mrs,
                             rc::RecoveryPool* pool) {
  switch (config.service) {
    case QpService::kUc:
      return QpPtr<RoceQp>(PlaceQp<UcQp>(config, mrs, pool));
    case QpService::kUd:
      return QpPtr<RoceQp>(PlaceQp<UdQp>(config, mrs, pool));
    default:
      return QpPtr<RoceQp>(PlaceQp<RcQp>(config, mrs, pool));
  }
}

EngineQpBytes RoceQp::BytesOf(QpService service, uint32_t sq_entries) {
  switch (service) {
    case QpService::kUc:
      return {.qp = sizeof(UcQp)};
    case QpService::kUd:
      return {.qp = sizeof(UdQp)};
    default:
      return {.qp = sizeof(RcQp),
              .records = sq_entries * sizeof(rc::SendRecord)};
  }
}

}  // namespace urnic
