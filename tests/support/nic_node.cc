#include "tests/support/nic_node.h"

#include <chrono>
#include <thread>
#include <utility>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/memory/guarded_memory.h"
#include "datapath/port/port_factory.h"
#include "transport/base/check.h"

namespace urnic::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

NicConfig WithAddress(NicConfig config, const wire::Gid& gid) {
  const uint8_t bits = gid.is_ipv4() ? 96 + 24 : 64;
  config.addresses = {{gid, bits}};
  return config;
}

}  // namespace

std::unique_ptr<Port> OpenTestPort(const std::string& dev,
                                   const std::string& fault) {
  PortConfig config;
  config.dev = dev;
  config.fault = fault;
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

NicNode::NicNode(std::unique_ptr<Port> port, const wire::Gid& gid,
                 NicConfig config, uint32_t cq_entries)
    : gid_(gid),
      cq_ring_(cq_entries),
      cq_(cq_ring_.data(), &cq_indices_, cq_entries, this, nullptr),
      memory_(new uint8_t[kMemoryBytes]()) {
  InstallMemoryGuard(nullptr, nullptr);
  nic_ = std::make_unique<Nic>(std::move(port),
                               WithAddress(std::move(config), gid));
  Engine::ControlScope scope(engine());
  key_ = network().mrs().Register(kNodePd, address(0), address(0), kMemoryBytes,
                                  kNodeRights);
}

NicNode::~NicNode() = default;

void NicNode::OnCqOverflow(CompletionQueue&) {
  URNIC_CHECK(may_overflow_);  // the test leaves completions unread
}

bool NicNode::Poll(urnic_cqe& out) {
  if (cq_indices_.consumer == cq_indices_.producer) return false;
  out = cq_ring_[cq_indices_.consumer & (cq_ring_.size() - 1)];
  ++cq_indices_.consumer;
  return true;
}

net::Path FindPath(NicNode& from, NicNode& to) {
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

}  // namespace urnic::testing
