#pragma once

// An RNIC without verbs: a port, the engine that serves it, and its network.
// All users of the RNIC start here: the verbs device of verbs/control, and
// tests.
//
// Threads: see Engine and Network.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "datapath/engine/network_config.h"
#include "transport/base/permutation.h"
#include "transport/net/path.h"

namespace urnic {

class Engine;
class Network;
class Port;

struct NicConfig {
  // See NetworkConfig.
  uint16_t vlan = 0;
  std::vector<net::LocalAddress> addresses;
  std::vector<uint16_t> pkeys = {0xffff};
  NetworkLimits limits;
  std::function<void(const net::PathMtuCache::Change&)> on_path_mtu = nullptr;
  bool iwarp = false;
  iwarp::Options iwarp_options = {};
  ConnectionLimits connections;
  Lessor* lessor = nullptr;
  std::function<void(const wire::Gid& peer)> on_unfinished_checksum = nullptr;
  // None: the key is random. With the same key, networks draw the same numbers,
  // so that a queue pair that moves to another network finds its keys there.
  std::optional<NumberKey> number_key = std::nullopt;
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

  // Waits until the port is up, for at most a second or two for a device and
  // 0.2 seconds for a peer. Packets that are sent earlier are lost, and
  // services without retransmission do not send them again.
  void AwaitPort();

  // Finds the path to a GID: calls Network::Ask(), and runs the engine until
  // there is an answer, for up to `timeout`. With a zero `timeout` it uses only
  // what is known. Errors of ToStatus(). REQUIRES: outside of a ControlScope.
  absl::StatusOr<net::Path> ResolvePath(const net::PathQuery& query,
                                        Duration timeout);

  // Waits, for a bounded time, until the frames that an injected fault delays
  // (datapath/port/fault_port.h) have left, because the engine has already sent
  // them.
  void AwaitHeldFrames();

 private:
  // The order matters: each member uses those before it.
  const std::unique_ptr<Port> port_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Network> network_;
};

}  // namespace urnic
