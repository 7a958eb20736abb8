#pragma once

// The TCP connections of iWARP devices that are joined by a wire: a model of
// the engine's ConnectionTable. Messages stay on the wire, and events in their
// devices, until the test delivers them.

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "verbs/rdmacm/tcp_connections.h"
#include "verbs/rdmacm/testing/fake_network.h"

namespace urnic::rdmacm {

class FakeTcp;

class FakeTcpWire {
 public:
  enum class Kind : uint8_t { kRequest, kReply, kReject, kRtr, kFin, kReset };
  struct Message {
    Kind kind = Kind::kRequest;
    tcp::FourTuple addresses;  // as its sender sees them
    bool peer_to_peer = false;
    ReadDepths depths;
    std::vector<uint8_t> data;
  };

  // Whether a message is lost. All arrive by default.
  std::function<bool(const Message&)> is_lost = [](const Message&) {
    return false;
  };

  void Attach(FakeTcp* end) { ends_.push_back(end); }
  void Detach(FakeTcp* end) { std::erase(ends_, end); }
  void Send(Message message) { wire_.push_back(std::move(message)); }
  // Delivers messages and events until there are none. Returns their number.
  inline int Deliver();
  // All who wait for an answer give up.
  inline void TimeOut();

 private:
  std::deque<Message> wire_;
  std::vector<FakeTcp*> ends_;
};

class FakeTcp final : public TcpConnections {
 public:
  using Kind = FakeTcpWire::Kind;

  FakeTcp(FakeTcpWire& wire, FakeRnic& rnic) : wire_(wire), rnic_(rnic) {
    wire_.Attach(this);
  }
  ~FakeTcp() override { wire_.Detach(this); }

  // The queue pairs in INIT, without a connection.
  std::set<uint32_t> queue_pairs;
  iwarp::Options chosen;
  size_t listeners() const { return listeners_.size(); }

  // --- TcpConnections
  const iwarp::Options& options() const override { return chosen; }
  void Attach(TcpEvents& events) override { events_ = &events; }
  int Listen(const wire::Gid& local, uint16_t port, uint32_t backlog,
             const mpa::SetupOptions&, TcpListenerId& out) override {
    for (const auto& [id, listener] : listeners_) {
      const bool overlaps = listener.local == local || local == wire::Gid() ||
                            listener.local == wire::Gid();
      if (listener.port == port && overlaps) return EADDRINUSE;
    }
    out = static_cast<TcpListenerId>(++last_id_);
    listeners_[out] = {local, port, backlog};
    return 0;
  }
  void Unlisten(TcpListenerId listener) override { listeners_.erase(listener); }
  int Connect(const net::Path& path, const TcpConnectRequest& request,
              const mpa::SetupOptions& setup, TcpConnectionId& out) override {
    if (!queue_pairs.contains(request.qpn)) return EINVAL;
    const tcp::FourTuple addresses = {path.local, path.remote,
                                      request.local_port, request.remote_port};
    if (Find(addresses) != connections_.end()) return EADDRNOTAVAIL;
    queue_pairs.erase(request.qpn);
    Connection& connection = Add(addresses, Phase::kConnecting, out);
    connection.user = request.user;
    connection.depths = request.depths;
    connection.peer_to_peer = setup.peer_to_peer;
    Send(Kind::kRequest, connection, request.private_data);
    return 0;
  }
  void Adopt(TcpConnectionId id, uint64_t user) override {
    connections_.at(id).user = user;
  }
  int Accept(TcpConnectionId id, uint32_t qpn, const ReadDepths& depths,
             std::span<const uint8_t> private_data) override {
    Connection& connection = connections_.at(id);
    if (connection.phase != Phase::kRequested) return ECONNRESET;
    if (!queue_pairs.contains(qpn)) return EINVAL;
    queue_pairs.erase(qpn);
    // What the peer asks for is there now.
    connection.depths = {depths.ird,
                         std::min(depths.ord, connection.depths.ord)};
    connection.phase = Phase::kAccepted;
    Send(Kind::kReply, connection, private_data);
    if (!connection.peer_to_peer) Connected(id, {});
    return 0;
  }
  int Reject(TcpConnectionId id,
             std::span<const uint8_t> private_data) override {
    Connection& connection = connections_.at(id);
    if (connection.phase != Phase::kRequested) return ECONNRESET;
    Send(Kind::kReject, connection, private_data);
    connection.phase = Phase::kEnded;
    return 0;
  }
  void Disconnect(TcpConnectionId id) override {
    Connection& connection = connections_.at(id);
    if (connection.phase == Phase::kEnded) return;
    if (connection.phase == Phase::kConnecting) {
      Send(Kind::kReset, connection);
      End(id, iwarp::Event::kFailed, iwarp::Failure::kAborted);
      return;
    }
    Send(Kind::kFin, connection);
    End(id, iwarp::Event::kDisconnected, iwarp::Failure::kNone);
  }
  void Forget(TcpConnectionId id) override {
    const auto it = connections_.find(id);
    URNIC_CHECK(it != connections_.end());
    switch (it->second.phase) {
      case Phase::kConnecting:
        Send(Kind::kReset, it->second);
        break;
      case Phase::kRequested:
        Send(Kind::kReject, it->second);
        break;
      case Phase::kAccepted:
      case Phase::kRunning:
        Send(Kind::kFin, it->second);
        break;
      case Phase::kEnded:
        break;
    }
    connections_.erase(it);
    std::erase_if(due_, [id](const Due& due) { return due.connection == id; });
  }
  uint32_t size() const override {
    return static_cast<uint32_t>(connections_.size());
  }

  // A farewell of the model needs no answer.
  uint32_t farewells() const override { return 0; }

  // --- FakeTcpWire
  bool HasGid(const wire::Gid& gid) const { return rnic_.HasGid(gid); }
  void Receive(const FakeTcpWire::Message& message) {
    const tcp::FourTuple& theirs = message.addresses;
    const tcp::FourTuple addresses = {theirs.remote, theirs.local,
                                      theirs.remote_port, theirs.local_port};
    const auto it = Find(addresses);
    if (it == connections_.end()) {
      if (message.kind == Kind::kRequest) OnRequest(message, addresses);
      return;
    }
    const auto [id, connection] = *it;
    switch (message.kind) {
      case Kind::kReply:
        if (connection.phase != Phase::kConnecting) return;
        it->second.depths.ord =
            std::min(connection.depths.ord, message.depths.ird);
        Connected(id, message.data);
        if (connection.peer_to_peer) Send(Kind::kRtr, connection);
        return;
      case Kind::kRtr:
        if (connection.phase == Phase::kAccepted) Connected(id, {});
        return;
      case Kind::kReject:
        it->second.data = message.data;
        End(id, iwarp::Event::kRejected, iwarp::Failure::kNone);
        return;
      case Kind::kFin:
        End(id, iwarp::Event::kDisconnected, iwarp::Failure::kNone);
        return;
      case Kind::kReset: {
        const bool refused =
            message.data.empty() && connection.phase == Phase::kConnecting;
        End(id, iwarp::Event::kFailed,
            refused ? iwarp::Failure::kRefused : iwarp::Failure::kReset);
        return;
      }
      default:
        return;
    }
  }
  void GiveUp() {
    for (auto& [id, connection] : connections_) {
      if (connection.phase != Phase::kConnecting) continue;
      End(id, iwarp::Event::kFailed, iwarp::Failure::kTimedOut);
    }
  }
  // Delivers the oldest event. False: there is none.
  bool DeliverOne() {
    if (due_.empty()) return false;
    rnic_.WithToken(
        [](void* self, Time) { static_cast<FakeTcp*>(self)->Tell(); }, this);
    return true;
  }

 private:
  enum class Phase : uint8_t {
    kConnecting,
    kRequested,
    kAccepted,
    kRunning,
    kEnded,
  };
  struct Connection {
    tcp::FourTuple addresses;
    Phase phase = Phase::kConnecting;
    uint64_t user = 0;
    bool peer_to_peer = false;
    ReadDepths depths;
    std::vector<uint8_t> data;  // of the peer
  };
  struct Listener {
    wire::Gid local;
    uint16_t port = 0;
    uint32_t backlog = 0;
  };
  struct Due {
    iwarp::Event kind;
    TcpConnectionId connection;
    iwarp::Failure failure;
  };
  using Connections = std::map<TcpConnectionId, Connection>;

  Connections::iterator Find(const tcp::FourTuple& addresses) {
    return std::find_if(connections_.begin(), connections_.end(),
                        [&](const auto& entry) {
                          return entry.second.phase != Phase::kEnded &&
                                 entry.second.addresses == addresses;
                        });
  }
  Connection& Add(const tcp::FourTuple& addresses, Phase phase,
                  TcpConnectionId& out) {
    out = static_cast<TcpConnectionId>(++last_id_);
    Connection& connection = connections_[out];
    connection.addresses = addresses;
    connection.phase = phase;
    return connection;
  }
  void Send(Kind kind, const Connection& connection,
            std::span<const uint8_t> data = {}) {
    FakeTcpWire::Message message;
    message.kind = kind;
    message.addresses = connection.addresses;
    message.peer_to_peer = connection.peer_to_peer;
    message.depths = connection.depths;
    message.data.assign(data.begin(), data.end());
    // A RST that answers a SYN is one without data in this model.
    if (kind == Kind::kReset) message.data.push_back(1);
    wire_.Send(std::move(message));
  }
  void OnRequest(const FakeTcpWire::Message& message,
                 const tcp::FourTuple& addresses) {
    for (const auto& [id, listener] : listeners_) {
      const bool hears =
          listener.local == addresses.local || listener.local == wire::Gid();
      if (listener.port != addresses.local_port || !hears) continue;
      TcpConnectionId created = TcpConnectionId::kNone;
      Connection& connection = Add(addresses, Phase::kRequested, created);
      connection.peer_to_peer = message.peer_to_peer;
      connection.depths = {message.depths.ord, message.depths.ird};
      connection.data = message.data;
      due_.push_back({iwarp::Event::kRequest, created, iwarp::Failure::kNone});
      return;
    }
    FakeTcpWire::Message reset;
    reset.kind = Kind::kReset;
    reset.addresses = addresses;
    wire_.Send(std::move(reset));
  }
  void Connected(TcpConnectionId id, const std::vector<uint8_t>& data) {
    connections_.at(id).phase = Phase::kRunning;
    connections_.at(id).data = data;
    due_.push_back({iwarp::Event::kConnected, id, iwarp::Failure::kNone});
  }
  void End(TcpConnectionId id, iwarp::Event event, iwarp::Failure failure) {
    connections_.at(id).phase = Phase::kEnded;
    due_.push_back({event, id, failure});
  }
  void Tell() {
    const Due due = due_.front();
    due_.pop_front();
    const Connection connection = connections_.at(due.connection);
    TcpEvent event;
    event.kind = due.kind;
    event.connection = due.connection;
    event.user = connection.user;
    event.addresses = connection.addresses;
    event.failure = due.failure;
    event.depths = connection.depths;
    event.private_data = connection.data;
    events_->OnTcpEvent(event);
  }

  FakeTcpWire& wire_;
  FakeRnic& rnic_;
  TcpEvents* events_ = nullptr;
  uintptr_t last_id_ = 0;
  std::map<TcpListenerId, Listener> listeners_;
  Connections connections_;
  std::deque<Due> due_;
};

inline int FakeTcpWire::Deliver() {
  int count = 0;
  for (;;) {
    while (!wire_.empty()) {
      const Message message = std::move(wire_.front());
      wire_.pop_front();
      if (is_lost(message)) continue;
      for (FakeTcp* end : ends_) {
        if (!end->HasGid(message.addresses.remote)) continue;
        end->Receive(message);
        ++count;
        break;
      }
    }
    const auto told = std::count_if(ends_.begin(), ends_.end(),
                                    [](FakeTcp* e) { return e->DeliverOne(); });
    if (told == 0 && wire_.empty()) return count;
    count += static_cast<int>(told);
  }
}

inline void FakeTcpWire::TimeOut() {
  for (FakeTcp* end : ends_) end->GiveUp();
  Deliver();
}

}  // namespace urnic::rdmacm
