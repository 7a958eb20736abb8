#include "tests/support/engine_node.h"

#include <atomic>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/qp_table.h"

namespace urnic::testing {
namespace {

constexpr uint32_t kCqEntries = 256;

}  // namespace

EngineNode::EngineNode(std::unique_ptr<Port> port, uint32_t ip)
    : NicNode(std::move(port), wire::Gid::FromIpv4(ip), {}, kCqEntries),
      rings_(kSendEntries, 1, 0, kReceiveEntries, 1) {
  EngineQpConfig qp;
  qp.limits = {.pd = kNodePd, .max_sge_send = 1, .max_sge_recv = 1};
  qp.sq = rings_.sq().view();
  qp.rq = rings_.rq().view();
  qp.send_cq = qp.recv_cq = &cq();
  qp.events = this;
  Engine::ControlScope scope(engine());
  qp_ = &RoceQp::Of(**engine().qps().Create(qp));
}

EngineNode::~EngineNode() { End(); }

void EngineNode::DestroyQp() {
  Engine::ControlScope scope(engine());
  engine().qps().Destroy(std::exchange(qp_, nullptr));
}

void EngineNode::End() {
  if (ended()) return;
  if (qp_ != nullptr) DestroyQp();
  EndNic();
}

void EngineNode::Connect(const net::Path& path, const QpConfig& config) {
  Engine::ControlScope scope(engine());
  qp_->path = RocePath(path);
  for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts})
    engine().qps().Modify(*qp_, state, config);
}

void EngineNode::RingSend(uint32_t count) {
  std::atomic_ref(rings_.sq().indices().producer)
      .fetch_add(count, std::memory_order_release);
  engine().Doorbell(*qp_);
}

void EngineNode::RingReceive(uint32_t count) {
  std::atomic_ref(rings_.rq().indices().producer)
      .fetch_add(count, std::memory_order_release);
}

NodePair::NodePair(std::unique_ptr<Port> port_a, std::unique_ptr<Port> port_b)
    : a(std::move(port_a), 0x0a010001), b(std::move(port_b), 0x0a010002) {
  QpConfig config;
  config.access = kNodeRights;
  config.mtu = 1024;
  // Long: these tests lose nothing, and their thread may wait for a CPU.
  config.timeout = Duration::Seconds(4);
  config.max_rd_atomic = config.max_dest_rd_atomic = 4;
  config.dest_qpn = b.qp().qpn();
  a.Connect(FindPath(a, b), config);
  config.dest_qpn = a.qp().qpn();
  b.Connect(FindPath(b, a), config);
}

}  // namespace urnic::testing
