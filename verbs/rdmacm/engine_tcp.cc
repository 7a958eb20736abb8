#include "verbs/rdmacm/engine_tcp.h"

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/iwarp_qp.h"
#include "datapath/engine/network.h"
#include "transport/base/check.h"

namespace urnic::rdmacm {

namespace {

// `taken`: the errno for a place that is already taken.
int ErrnoOf(const absl::Status& status, int taken) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kAlreadyExists:
      return taken;
    case absl::StatusCode::kFailedPrecondition:
      return ECONNRESET;
    case absl::StatusCode::kResourceExhausted:
      return ENOMEM;
    default:
      return EINVAL;
  }
}

TcpListenerId IdOf(IwarpListener* listener) {
  return static_cast<TcpListenerId>(reinterpret_cast<uintptr_t>(listener));
}
TcpConnectionId IdOf(IwarpConnection* connection) {
  return static_cast<TcpConnectionId>(reinterpret_cast<uintptr_t>(connection));
}
IwarpConnection* Of(TcpConnectionId id) {
  return reinterpret_cast<IwarpConnection*>(static_cast<uintptr_t>(id));
}

// The depths that the peer requests: its incoming reads are our outgoing ones.
std::optional<ReadDepths> Asked(const mpa::SetupFrame& request) {
  if (!request.enhanced.has_value()) return std::nullopt;
  return ReadDepths{request.enhanced->ord(), request.enhanced->ird()};
}

}  // namespace

void EngineTcp::Open(Engine& engine, Network& network) {
  URNIC_CHECK(network.serves_iwarp());
  table_ = &engine.connections();
  network_ = &network;
}

const iwarp::Options& EngineTcp::options() const {
  return network_->iwarp_options();
}

uint32_t EngineTcp::size() const { return table_->size(); }

int EngineTcp::Refused(const absl::Status& status, int taken) {
  const int error = ErrnoOf(status, taken);
  if (error != 0) {
    refusal_ = status;
    refusal_errno_ = error;
  }
  return error;
}

absl::Status EngineTcp::TakeRefusal(int error) {
  if (error != refusal_errno_) return absl::OkStatus();
  refusal_errno_ = 0;
  return std::exchange(refusal_, absl::OkStatus());
}

IwarpQp* EngineTcp::FindQp(uint32_t qpn) const {
  EngineQp* const qp = network_->iwarp_qps().Find(qpn);
  return qp == nullptr ? nullptr : &IwarpQp::Of(*qp);
}

int EngineTcp::Listen(const wire::Gid& local, uint16_t port, uint32_t backlog,
                      const mpa::SetupOptions& setup, TcpListenerId& out) {
  ListenerConfig config;
  config.local = local;
  config.port = port;
  config.backlog = backlog;
  config.setup = setup;
  config.events = this;
  const auto listener = table_->Listen(config);
  if (!listener.ok()) return Refused(listener.status(), EADDRINUSE);
  out = IdOf(*listener);
  return 0;
}

void EngineTcp::Unlisten(TcpListenerId listener) {
  table_->Unlisten(
      reinterpret_cast<IwarpListener*>(static_cast<uintptr_t>(listener)));
}

int EngineTcp::Connect(const net::Path& path, const TcpConnectRequest& request,
                       const mpa::SetupOptions& setup, TcpConnectionId& out) {
  IwarpQp* const qp = FindQp(request.qpn);
  if (qp == nullptr) return EINVAL;
  ConnectConfig config;
  config.path = path;
  config.local_port = request.local_port;
  config.remote_port = request.remote_port;
  config.setup = setup;
  config.ird = request.depths.ird;
  config.ord = request.depths.ord;
  config.events = this;
  config.user = request.user;
  const auto connection = table_->Connect(*qp, config, request.private_data);
  if (!connection.ok()) return Refused(connection.status(), EADDRNOTAVAIL);
  out = IdOf(*connection);
  return 0;
}

void EngineTcp::Adopt(TcpConnectionId connection, uint64_t user) {
  Of(connection)->set_owner(this, user);
}

int EngineTcp::Accept(TcpConnectionId connection, uint32_t qpn,
                      const ReadDepths& depths,
                      std::span<const uint8_t> private_data) {
  IwarpQp* const qp = FindQp(qpn);
  if (qp == nullptr) return EINVAL;
  return Refused(table_->Accept(*Of(connection), *qp, depths.ird, depths.ord,
                                private_data),
                 EINVAL);
}

int EngineTcp::Reject(TcpConnectionId connection,
                      std::span<const uint8_t> private_data) {
  return Refused(table_->Reject(*Of(connection), private_data), EINVAL);
}

void EngineTcp::Disconnect(TcpConnectionId connection) {
  table_->Disconnect(*Of(connection));
}

void EngineTcp::Forget(TcpConnectionId connection) {
  table_->Forget(Of(connection));
}

uint32_t EngineTcp::farewells() const {
  uint32_t count = 0;
  table_->ForEach([&count](const IwarpConnection& connection) {
    count += connection.is_forgotten() ? 1 : 0;
  });
  return count;
}

void EngineTcp::OnConnectionEvent(IwarpConnection& connection,
                                  iwarp::Event event) {
  const iwarp::Endpoint& endpoint = connection.endpoint();
  TcpEvent out;
  out.kind = event;
  out.connection = IdOf(&connection);
  out.user = connection.user();
  out.addresses = connection.tuple();
  out.failure = endpoint.failure();
  const iwarp::SetUp& set_up = endpoint.set_up();
  switch (event) {
    case iwarp::Event::kRequest:
      out.depths = Asked(set_up.responder().request());
      out.private_data = endpoint.private_data();
      break;
    case iwarp::Event::kConnected:
      out.depths = {set_up.agreement().ird, set_up.agreement().ord};
      if (set_up.initiates()) out.private_data = endpoint.private_data();
      break;
    case iwarp::Event::kRejected:
      out.private_data = endpoint.private_data();
      break;
    default:
      break;
  }
  events_->OnTcpEvent(out);
}

}  // namespace urnic::rdmacm
