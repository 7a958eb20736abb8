#pragma once

// The connections of an iWARP device on its engine (ConnectionTable), for the
// rdma_cm device.

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "datapath/engine/connection_events.h"
#include "verbs/rdmacm/tcp_connections.h"

namespace urnic {
class ConnectionTable;
class Engine;
class IwarpQp;
class Network;
}  // namespace urnic

namespace urnic::rdmacm {

class EngineTcp final : public TcpConnections, private ConnectionEvents {
 public:
  // Call this first, when the device has been opened. Both outlive this object.
  // REQUIRES: the network serves iWARP.
  void Open(Engine& engine, Network& network);

  const iwarp::Options& options() const override;
  void Attach(TcpEvents& events) override { events_ = &events; }
  int Listen(const wire::Gid& local, uint16_t port, uint32_t backlog,
             const mpa::SetupOptions& setup, TcpListenerId& out) override;
  void Unlisten(TcpListenerId listener) override;
  int Connect(const net::Path& path, const TcpConnectRequest& request,
              const mpa::SetupOptions& setup, TcpConnectionId& out) override;
  void Adopt(TcpConnectionId connection, uint64_t user) override;
  int Accept(TcpConnectionId connection, uint32_t qpn, const ReadDepths& depths,
             std::span<const uint8_t> private_data) override;
  int Reject(TcpConnectionId connection,
             std::span<const uint8_t> private_data) override;
  void Disconnect(TcpConnectionId connection) override;
  void Forget(TcpConnectionId connection) override;
  uint32_t size() const override;
  uint32_t farewells() const override;
  absl::Status TakeRefusal(int error) override;

 private:
  void OnConnectionEvent(IwarpConnection& connection,
                         iwarp::Event event) override;
  // The errno of `status`. Keeps its text, unless it is OK.
  int Refused(const absl::Status& status, int taken);
  // Null: there is none.
  IwarpQp* FindQp(uint32_t qpn) const;

  ConnectionTable* table_ = nullptr;
  Network* network_ = nullptr;
  TcpEvents* events_ = nullptr;
  absl::Status refusal_;  // TakeRefusal()
  int refusal_errno_ = 0;
};

}  // namespace urnic::rdmacm
