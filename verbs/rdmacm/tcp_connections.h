#pragma once

// The TCP connections of an iWARP device, with MPA: the interface that iw_cm
// requires of a driver in Linux. engine_tcp.h implements it with the engine's
// ConnectionTable; tests have a fake.
//
// All calls need the token. They return 0 or an errno; after an error nothing
// has changed:
//   EINVAL         there is no such queue pair, or it is not in INIT, or has a
//                  connection; the private data are too long; a depth is too
//                  large
//   EADDRINUSE     there is a listener at this place
//   EADDRNOTAVAIL  these addresses and ports have a connection, or had one a
//                  moment ago
//   ECONNRESET     the connection has ended in the meantime
//   ENOMEM

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "transport/iwarp/mpa/negotiation.h"
#include "transport/iwarp/options/options.h"
#include "transport/iwarp/qp/events.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/net/path.h"

namespace urnic::rdmacm {

// The implementation chooses the values.
enum class TcpListenerId : uintptr_t { kNone };
enum class TcpConnectionId : uintptr_t { kNone };

// Reads and atomics at a time: of the peer, and of this side.
struct ReadDepths {
  uint32_t ird = 0;
  uint32_t ord = 0;
};

struct TcpConnectRequest {
  uint32_t qpn = 0;
  uint16_t local_port = 0;
  uint16_t remote_port = 0;
  ReadDepths depths;
  std::span<const uint8_t> private_data;
  uint64_t user = 0;
};

// Spans are valid during the call only.
struct TcpEvent {
  iwarp::Event kind = iwarp::Event::kNone;
  TcpConnectionId connection = TcpConnectionId::kNone;
  uint64_t user = 0;         // of the connection; not in kRequest
  tcp::FourTuple addresses;  // in kRequest
  // In kFailed and kDisconnected.
  iwarp::Failure failure = iwarp::Failure::kNone;
  // In kConnected: the negotiated depths. In kRequest: the depths that the peer
  // has requested, from our point of view; none if it knows only revision 1.
  std::optional<ReadDepths> depths;
  // In kRequest, kRejected, and kConnected of the side that has connected.
  std::span<const uint8_t> private_data;
};

// Called with the token held, never in the middle of another call. A handler
// may call the TcpConnections; it must not wait, or enter an engine.
class TcpEvents {
 public:
  virtual void OnTcpEvent(const TcpEvent& event) = 0;

 protected:
  ~TcpEvents() = default;
};

class TcpConnections {
 public:
  virtual ~TcpConnections() = default;

  // The operator's options for the device.
  virtual const iwarp::Options& options() const = 0;

  // `events` gets all events, and lives as long as the process.
  virtual void Attach(TcpEvents& events) = 0;

  // `local`: zero for every address of the device. `backlog`: the limit of
  // unanswered requests; beyond that, peers have to wait.
  virtual int Listen(const wire::Gid& local, uint16_t port, uint32_t backlog,
                     const mpa::SetupOptions& setup, TcpListenerId& out) = 0;
  // Unanswered requests remain.
  virtual void Unlisten(TcpListenerId listener) = 0;

  virtual int Connect(const net::Path& path, const TcpConnectRequest& request,
                      const mpa::SetupOptions& setup, TcpConnectionId& out) = 0;
  // Gives a request its user. Without one, the next call must be Forget().
  virtual void Adopt(TcpConnectionId connection, uint64_t user) = 0;
  virtual int Accept(TcpConnectionId connection, uint32_t qpn,
                     const ReadDepths& depths,
                     std::span<const uint8_t> private_data) = 0;
  virtual int Reject(TcpConnectionId connection,
                     std::span<const uint8_t> private_data) = 0;
  // Its queue pair goes to ERR, and kDisconnected or kFailed follows.
  virtual void Disconnect(TcpConnectionId connection) = 0;
  // Ends the connection, or rejects the request, without further events. The id
  // becomes invalid.
  virtual void Forget(TcpConnectionId connection) = 0;

  // The reason of the last call that failed with `error`; OK: it is unknown, or
  // was taken already.
  virtual absl::Status TakeRefusal(int error) {
    static_cast<void>(error);
    return absl::OkStatus();
  }

  // The number of connections, including those that are ending, but not those
  // in TIME-WAIT.
  virtual uint32_t size() const = 0;
  // The number of those that are forgotten but not closed yet.
  virtual uint32_t farewells() const = 0;
};

}  // namespace urnic::rdmacm
