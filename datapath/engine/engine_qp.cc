#include "datapath/engine/engine_qp.h"

#include <bit>
#include <utility>

#include "transport/rc/image.h"
#include "transport/uc/image.h"
#include "transport/ud/image.h"

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
  if (config.service == QpService::kXrcTarget) return nullptr;  // by the packet
  return config.srq != nullptr ? &config.srq->ring : &own;
}

}  // namespace

EngineQp::EngineQp(const EngineQpConfig& config, mem::MrTable* mrs)
    : service_(config.service),
      wire_service_(WireService(config.service)),
      qpn_(config.limits.qpn),
      pd_(config.limits.pd),
      xrc_domain_(config.xrc_domain),
      recv_sges_(new urnic_sge[config.limits.max_sge_recv]),
      own_ring_(config.rq, config.limits.max_sge_recv),
      recv_queue_(RingOf(config, own_ring_), recv_sges_.get(),
                  RingOf(config, own_ring_) != &own_ring_),
      events_(config.events),
      owner_(config.owner),
      srq(config.srq),
      send_cq(config.send_cq),
      recv_cq(config.recv_cq) {
  switch (service_) {
    case QpService::kRc:
    case QpService::kXrcInitiator:
    case QpService::kXrcTarget: {
      const uint32_t entries = config.sq.entries();
      records_.reset(new rc::SendRecord[entries]);
      transport_.emplace<rc::Qp>(
          config.limits, config.sq,
          std::span<rc::SendRecord>(records_.get(), entries),
          std::span<rc::ReplaySlot>(), &recv_queue_, mrs);
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

void EngineQp::MakeRoomForReads(uint32_t reads) {
  if (!is_rc()) return;
  rc::Qp& qp = *std::get_if<rc::Qp>(&transport_);
  if (reads <= qp.replay_capacity()) return;
  const uint32_t slots = std::bit_ceil(reads);
  std::unique_ptr<rc::ReplaySlot[]> larger(new rc::ReplaySlot[slots]);
  qp.MoveReplayTo({larger.get(), slots});
  replay_ = std::move(larger);
}

void EngineQp::AppendImage(Time now, std::string& out) const {
  Ask([&](const auto& transport) {
    const size_t begin = out.size();
    const size_t bytes = ExtractImage(transport, now, {});
    out.resize(begin + bytes);
    ExtractImage(transport, now,
                 {reinterpret_cast<uint8_t*>(out.data()) + begin, bytes});
  });
}

RequesterCounters EngineQp::counters() const {
  return is_rc() ? rc().send_state().counters : RequesterCounters{};
}

}  // namespace urnic
