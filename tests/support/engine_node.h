#pragma once

// An RNIC of RoCE without verbs for tests: a NicNode with one queue pair and
// its rings. Both directions complete to its one completion queue.

#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/fake_rings.h"
#include "tests/support/nic_node.h"

namespace urnic::testing {

class EngineNode : public NicNode, private QpEvents {
 public:
  static constexpr uint32_t kSendEntries = 64;
  static constexpr uint32_t kReceiveEntries = 64;

  // `ip` is the RNIC's address, in a network of 24 bits.
  EngineNode(std::unique_ptr<Port> port, uint32_t ip);
  EngineNode(const std::string& dev, uint32_t ip)
      : EngineNode(OpenTestPort(dev), ip) {}
  ~EngineNode();

  RoceQp& qp() { return *qp_; }
  FakeRings& rings() { return rings_; }

  // Brings the queue pair to RTS along `path`, which ResolvePath() found.
  void Connect(const net::Path& path, const QpConfig& config);

  // Its queue pair, once.
  void DestroyQp();
  // Ends queue pair, engine and port; its memory and rings stay.
  void End();

  // Posts what is already in the send ring, and more of what the receive ring
  // was filled with: both without touching the entries.
  void RingSend(uint32_t count);
  void RingReceive(uint32_t count);

 private:
  void OnQpEvent(EngineQp&, QpEvent) override {}

  FakeRings rings_;
  RoceQp* qp_ = nullptr;
};

// Two connected nodes at `ring:NAME`: 10.1.0.1 and 10.1.0.2.
struct NodePair {
  explicit NodePair(const std::string& name)
      : NodePair(OpenTestPort("ring:" + name + ":a"),
                 OpenTestPort("ring:" + name + ":b")) {}
  NodePair(std::unique_ptr<Port> port_a, std::unique_ptr<Port> port_b);
  EngineNode a;
  EngineNode b;
};

}  // namespace urnic::testing
