#include "tests/support/engine_node.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "datapath/port/port_factory.h"
#include "transport/base/check.h"

namespace urnic::testing {
namespace {

constexpr uint32_t kCqEntries = 256;
constexpr auto kPatience = std::chrono::seconds(30);

net::Path FindPath(EngineNode& from, EngineNode& to) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto path = from.nic().ResolvePath(
        {.local = from.gid(), .remote = to.gid(), .udp_src_port = 50000},
        Duration::Milliseconds(1));
    if (path.ok()) return *path;
    URNIC_CHECK(std::chrono::steady_clock::now() < end);
    to.engine().Progress();
  }
}

}  // namespace

std::unique_ptr<Port> OpenTestPort(const std::string& dev) {
  PortConfig config;
  config.dev = dev;
  auto port = CreatePort(config);
  URNIC_CHECK(port.ok());
  const auto end = std::chrono::steady_clock::now() + kPatience;
  // A ring's end exists immediately, but another thread starts it.
  while ((*port)->info().state == PortState::kStarting) {
    URNIC_CHECK(std::chrono::steady_clock::now() < end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::move(*port);
}

EngineNode::EngineNode(const std::string& dev, uint32_t ip)
    : gid_(wire::Gid::FromIpv4(ip)),
      rings_(kSendEntries, 1, 0, kReceiveEntries, 1),
      cq_ring_(kCqEntries),
      cq_(cq_ring_.data(), &cq_indices_, kCqEntries, this, nullptr),
      memory_(new uint8_t[kMemoryBytes]()) {
  InstallMemoryGuard(nullptr, nullptr);
  NicConfig config;
  config.addresses = {{gid_, 96 + 24}};
  nic_ = std::make_unique<Nic>(OpenTestPort(dev), config);
  EngineQpConfig qp;
  qp.limits = {.pd = kNodePd, .max_sge_send = 1, .max_sge_recv = 1};
  qp.sq = rings_.sq().view();
  qp.rq = rings_.rq().view();
  qp.send_cq = qp.recv_cq = &cq_;
  qp.events = this;
  Engine::ControlScope scope(engine());
  qp_ = &RoceQp::Of(**engine().qps().Create(qp));
  key_ = network().mrs().Register(kNodePd, address(0), address(0), kMemoryBytes,
                                  kNodeRights);
}

EngineNode::~EngineNode() { End(); }

void EngineNode::DestroyQp() {
  Engine::ControlScope scope(engine());
  engine().qps().Destroy(std::exchange(qp_, nullptr));
}

void EngineNode::End() {
  if (nic_ == nullptr) return;
  if (qp_ != nullptr) DestroyQp();
  nic_.reset();
}

void EngineNode::OnCqOverflow(CompletionQueue&) {
  URNIC_CHECK(!"the test leaves completions unread");
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

bool EngineNode::Poll(urnic_cqe& out) {
  if (cq_indices_.consumer == cq_indices_.producer) return false;
  out = cq_ring_[cq_indices_.consumer & (kCqEntries - 1)];
  ++cq_indices_.consumer;
  return true;
}

NodePair::NodePair(const std::string& name)
    : a("ring:" + name + ":a", 0x0a010001),
      b("ring:" + name + ":b", 0x0a010002) {
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
