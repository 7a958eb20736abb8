#pragma once

// An RNIC without verbs: a port, the engine that serves it, and the network
// that is behind it. Who wants to use the RNIC, whatever as (the verbs device
// of verbs/control, a test), starts here.
//
// Threads: as Engine and Network say.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/port/port.h"

namespace urnic {

struct NicConfig {
  // As NetworkConfig.
  uint16_t vlan = 0;
  std::vector<net::LocalAddress> addresses;
  std::vector<uint16_t> pkeys = {0xffff};
  uint32_t max_qps = kMaxQueuePairs;
  uint32_t max_mrs = 1u << 18;
  std::function<void(const net::PathMtuCache::Change&)> on_path_mtu = nullptr;
  Lessor* lessor = nullptr;
};

class Nic {
 public:
  Nic(std::unique_ptr<Port> port, const NicConfig& config);
  // REQUIRES: no queue pair is left and no other thread is inside.
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  Port& port() { return *port_; }
  const Port& port() const { return *port_; }
  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }
  Network& network() { return *network_; }

  // Waits until the port is up, or until waiting is no use: a second or two for
  // a device, 0.2 seconds for a peer. What is sent before is lost, and services
  // without retransmission do not send it again.
  void AwaitPort();

  // Finds the way to a GID: Network::Ask(), and runs the engine until there is
  // an answer, up to `timeout`. Without one it looks at what is known. Errors
  // of ToStatus(). REQUIRES: outside of a ControlScope.
  absl::StatusOr<net::Path> ResolvePath(const net::PathQuery& query,
                                        Duration timeout);

  // To a peer, frames that a fault delays (datapath/port/fault_port.h) have
  // left already: waits for them, in bounded time.
  void AwaitHeldFrames();

 private:
  // In this order: who is used outlives who uses it.
  const std::unique_ptr<Port> port_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Network> network_;
};

}  // namespace urnic
