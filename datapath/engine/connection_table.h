#pragma once

// The iWARP connections of an engine: listeners, handshakes, connections, and
// connections in TIME-WAIT. The table finds the connection of a segment,
// answers segments that belong to none, and carries out the calls of the
// connection manager.
//
// Thread: the holder of the engine's token. The connection manager makes its
// calls inside an Engine::ControlScope, or within OnConnectionEvent().

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datapath/engine/connection_limits.h"
#include "datapath/engine/connection_pools.h"
#include "datapath/engine/flow_scheduler.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/iwarp_connection.h"
#include "datapath/engine/network.h"
#include "datapath/engine/tcp_replies.h"
#include "datapath/engine/transmit_queue.h"
#include "ras/history/history.h"
#include "ras/metrics/counters.h"
#include "ras/metrics/rx_verdict.h"
#include "transport/base/hash_index.h"
#include "transport/iwarp/tcp/half_open.h"
#include "transport/iwarp/tcp/last_resets.h"
#include "transport/iwarp/tcp/time_wait.h"

namespace urnic {

struct ListenerConfig {
  wire::Gid local = {};  // zero: every address of the network
  uint16_t port = 0;
  // The largest number of connections whose request the program has not
  // answered. Beyond that, SYNs are dropped, and the peers repeat them.
  uint32_t backlog = 128;
  // `ird` and `ord` are not used: they are arguments of Accept().
  mpa::SetupOptions setup = {};
  ConnectionEvents* events = nullptr;  // of kRequest; required
  uint64_t user = 0;
};

class FrameCustody;

class IwarpListener {
 public:
  explicit IwarpListener(const ListenerConfig& config) : config_(config) {}

  const wire::Gid& local() const { return config_.local; }
  uint16_t port() const { return config_.port; }
  uint64_t user() const { return config_.user; }
  const ListenerConfig& config() const { return config_; }
  // Connections whose request the program has not answered.
  uint32_t unanswered() const { return unanswered_; }

 private:
  friend class ConnectionTable;

  bool full() const { return unanswered_ >= config_.backlog; }

  const ListenerConfig config_;
  uint32_t unanswered_ = 0;
  // The unanswered connections that have not sent a request, oldest first.
  std::list<IwarpConnection*> silent_;
};

struct ConnectConfig {
  net::Path path = {};      // to the peer (Network::Ask(), FindPath())
  uint16_t local_port = 0;  // leased by the caller (NumberSpace::kTcpPort)
  uint16_t remote_port = 0;
  mpa::SetupOptions setup = {};  // `ird` and `ord` are those below
  uint32_t ird = 0;              // reads and atomics at a time of the peer
  uint32_t ord = 0;              // and of ours
  ConnectionEvents* events = nullptr;
  uint64_t user = 0;

  tcp::FourTuple tuple() const {
    return {.local = path.local,
            .remote = path.remote,
            .local_port = local_port,
            .remote_port = remote_port};
  }
};

class ConnectionTable final : private net::PathUsers, private net::TcpReports {
 public:
  // The parts of the engine that the table uses. All outlive it.
  struct Parts {
    FlowScheduler* flows;
    FlowSink* sink;
    TransmitQueue* tx;
    FrameCustody* frames;
    EngineCounters* counters;
    History* history;
    Trace* trace;
    const Time* now;  // the current time of the engine
  };
  // The network outlives the table, and serves iWARP.
  ConnectionTable(const Parts& parts, Network* network);
  // Connections that still exist are deleted, and their peers are not told: see
  // AbortAll(). REQUIRES: no queue pair has a connection.
  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // --- The connection manager ------------------------------------------------

  // ALREADY_EXISTS: another listener has the port, at this address or at every
  // address (EADDRINUSE). INVALID_ARGUMENT: port 0.
  absl::StatusOr<IwarpListener*> Listen(const ListenerConfig& config);
  // Deletes the listener, and rejects the requests that it has not been told
  // of. All other connections remain, and their requests can still be answered.
  void Unlisten(IwarpListener* listener);

  // Begins a connection. INVALID_ARGUMENT: the private data are too long, the
  // queue pair is not in INIT or has a connection, or a depth is too large.
  // ALREADY_EXISTS (EADDRNOTAVAIL): these addresses and ports have a
  // connection, or had one within the last second, or the last minute if the
  // peer does not send timestamps. RESOURCE_EXHAUSTED: max_connections.
  //
  // The queue pair goes to RTS when the set-up is complete, and to ERR when the
  // connection ends. If the peer knows only revision 1 of MPA, the table
  // connects again from the same port; the owner is not told.
  absl::StatusOr<IwarpConnection*> Connect(
      IwarpQp& qp, const ConnectConfig& config,
      std::span<const uint8_t> private_data);
  // Accepts a request. FAILED_PRECONDITION: the connection has ended meanwhile
  // (ECONNRESET). INVALID_ARGUMENT: as for Connect(); the request can still be
  // answered.
  absl::Status Accept(IwarpConnection& connection, IwarpQp& qp, uint32_t ird,
                      uint32_t ord, std::span<const uint8_t> private_data);
  absl::Status Reject(IwarpConnection& connection,
                      std::span<const uint8_t> private_data);
  // Ends a connection with a FIN; the queue pair goes to ERR. Requests that
  // were sent arrive; requests that were only posted are flushed.
  void Disconnect(IwarpConnection& connection);
  // The owner gives up the pointer, and gets no more events. An unanswered
  // request is rejected; an established connection is disconnected.
  void Forget(IwarpConnection* connection);

  // Delivers the due events to the owners, and deletes connections that are
  // done and forgotten. Only the engine calls this, outside of all other calls.
  void DeliverEvents();
  bool events_due() const { return first_due_ != nullptr; }

  // --- Queue pairs -----------------------------------------------------------

  // The program has moved the queue pair of the connection to ERR.
  void OnQpFailed(IwarpConnection& connection) { Disconnect(connection); }
  // The queue pair is destroyed, or goes to RESET. Its connection closes
  // without it; `abort`: by a RST, not by a FIN.
  void DetachQp(IwarpConnection& connection, bool abort);

  // --- Images (connection_images.cc) -----------------------------------------

  // As QpTable::AppendImages(), for connections without a queue pair. The
  // counters follow the last one, if any of them is not zero.
  std::optional<uint32_t> AppendImages(uint32_t place, size_t enough,
                                       std::string& out) const;
  // The next two are for QpTable, which moves a connection with its queue pair.
  //
  // Deletes the connection without telling the peer, and returns its image. The
  // owner must not use the pointer any more. FAILED_PRECONDITION: the
  // connection cannot be moved before the next DeliverEvents(), or before it
  // connects again.
  absl::StatusOr<std::string> Extract(IwarpConnection& connection);
  // Only the path, the ports and the owner of `config` are used.
  // ALREADY_EXISTS: these addresses and ports have a connection.
  // RESOURCE_EXHAUSTED: max_connections. INVALID_ARGUMENT: the image is
  // refused, with the reason; the queue pair can only be destroyed.
  absl::StatusOr<IwarpConnection*> Insert(IwarpQp& qp,
                                          const ConnectConfig& config,
                                          std::span<const uint8_t> image);

  // --- Segments --------------------------------------------------------------

  // Null: there is no such connection.
  IwarpConnection* Find(const tcp::FourTuple& tuple);
  // Takes a segment for one of our addresses that belongs to no connection. If
  // it completes a handshake, this returns the new connection, and the caller
  // passes the segment to it. Otherwise the segment was answered or dropped,
  // and `verdict` is set.
  IwarpConnection* OnStray(const tcp::FourTuple& tuple,
                           const wire::TcpSegment& segment,
                           const wire::FrameView& view, Time now,
                           RxVerdict& verdict);
  // Answers by a RST a segment that its connection refuses (RxVerdict::kTcp).
  void Reset(const IwarpConnection& connection,
             const wire::TcpSegment& segment);

  // --- Time ------------------------------------------------------------------

  Time NextDeadline() const {
    return std::min({half_open_.NextDeadline(), time_wait_.NextDeadline(),
                     last_resets_.NextDeadline()});
  }
  void OnTimer(Time now);

  // The engine calls this in each iteration. If the MTU of the link has
  // changed, all connections follow it.
  void FollowLink() {
    if (__builtin_expect(parts_.tx->link_mtu() != link_mtu_, 0)) OnLinkMtu();
  }

  // Ends all connections by a RST. Their queue pairs go to ERR.
  void AbortAll();

  // --- Figures ---------------------------------------------------------------

  uint32_t size() const { return count_; }  // including those that are ending
  uint32_t half_open() const { return half_open_.size(); }
  uint32_t time_wait() const { return time_wait_.size(); }
  uint32_t listeners() const {
    return static_cast<uint32_t>(listeners_.size());
  }
  const ConnectionPools& pools() const { return pools_; }
  // Brings the engine's counters of iWARP up to date. They do not include the
  // counts of existing connections, which AddLiving() adds to a copy.
  void CollectCounters();
  void AddLiving(IwarpCounters& to) const;
  // Adds the round trips of all connections, including those that have ended.
  void AddRoundTrips(cc::RoundTripCounts& to) const;
  // Calls f(connection) for at most `most` connections, from `place` on.
  // Returns the place to continue from; none: there are no more.
  template <typename F>
  std::optional<uint32_t> Visit(uint32_t place, size_t most, F&& f) const {
    for (; place < connections_.size(); ++place) {
      if (connections_[place] == nullptr) continue;
      if (most-- == 0) return place;
      f(*connections_[place]);
    }
    return std::nullopt;
  }
  template <typename F>
  void ForEachListener(F&& f) const {
    for (const auto& listener : listeners_) f(*listener);
  }
  template <typename F>
  void ForEach(F&& f) const {
    for (const auto& connection : connections_) {
      if (connection != nullptr) f(*connection);
    }
  }

 private:
  friend class IwarpConnection;

  // Called by the network.
  void ForEachPath(const std::function<void(net::Path&)>& visit) override;
  void OnTooBig(const net::TcpTooBig& report, Time now) override;

  void OnLinkMtu();

  // Null: no listener has this address and port.
  IwarpListener* FindListener(const wire::Gid& local, uint16_t port) const;
  // True: the segment belonged to a connection in TIME-WAIT, and was handled.
  bool OnOldSegment(const tcp::FourTuple& tuple,
                    const wire::TcpSegment& segment,
                    const wire::FrameView& view, Time now,
                    std::optional<SeqNum>& after);
  IwarpConnection& Open(IwarpListener& listener, const tcp::FourTuple& tuple,
                        const tcp::HalfOpenTable::Accepted& accepted,
                        const wire::FrameView& view, Time now);

  // The largest IP packet that may be sent on this path, in bytes.
  uint32_t MtuOf(const net::Path& path) const {
    return std::min<uint32_t>(path.mtu, parts_.tx->link_mtu());
  }
  tcp::Offer OfferFor(const wire::Gid& local) const;
  tcp::ConnectionConfig ConfigFor(const tcp::FourTuple& tuple,
                                  const net::Path& path) const;
  uint64_t HashOf(const tcp::FourTuple& tuple) const {
    return SipHash(hash_key_, tuple.words());
  }
  bool full() const { return count_ >= limits_.max_connections; }
  absl::Status NoRoom() const;
  // Afterwards another connection may use its addresses and ports.
  void RemoveFromIndex(const IwarpConnection& connection);
  // REQUIRES: !full(), and no connection has these addresses and ports.
  IwarpConnection& Add(const tcp::FourTuple& tuple, const net::Path& path);
  // Begins to connect. REQUIRES: a queue pair is attached.
  void Start(IwarpConnection& connection, const mpa::SetupOptions& setup,
             const rdmap::Config& config, std::span<const uint8_t> private_data,
             SeqNum iss);
  // After a call of the connection manager: lets the endpoint take effect, as
  // after a burst.
  void Update(IwarpConnection& connection);
  // Rejects a request, or ends a connection that has not sent one yet.
  void Refuse(IwarpConnection& connection);
  // The connection no longer counts against the backlog of its listener.
  void Answered(IwarpConnection& connection);
  // The connection has sent a request, or ends: it leaves its listener's list.
  void LeaveSilent(IwarpConnection& connection);
  // Aborts the oldest connection that has not sent a request. REQUIRES: there
  // is one.
  void EvictSilent(IwarpListener& listener);

  void TraceConnection(TracePoint point, const IwarpConnection& connection,
                       uint64_t how = 0,
                       const TracePlace& place = TracePlace::Here());
  // Adds the counts of an endpoint that is about to be deleted.
  void CountEndpoint(const IwarpConnection& connection);
  // `received`: the peer has sent it. False: we have sent it.
  void CountTerminate(const IwarpQp& qp, const ddp::StreamError& error,
                      bool received);

  // After each call of the endpoint: collects its events.
  void NoteSettled(IwarpConnection& connection);
  void MarkDue(IwarpConnection& connection);
  void Deliver(IwarpConnection& connection);
  void DeliverOne(IwarpConnection& connection, iwarp::Event event);
  // The endpoint is done: frees its addresses, its ports and its queue pair.
  void Retire(IwarpConnection& connection);
  void ConnectAgain(IwarpConnection& connection);
  void GiveUpRetry(IwarpConnection& connection);
  void Destroy(IwarpConnection& connection);
  // Deletes a connection that continues elsewhere, or whose image was refused.
  // Its peer is not told.
  void Drop(IwarpConnection& connection);
  // An image does not carry retry_, because it follows from the request.
  void RestoreRetry(IwarpConnection& connection);
  void LetGoOfQp(IwarpConnection& connection);

  // Sends a segment that belongs to no connection. It is lost if the neighbour
  // is unknown.
  void SendTo(const tcp::FourTuple& tuple, const wire::TcpFields& fields,
              Time now);

  static constexpr uint32_t kLastResets = 256;  // at a time

  const Parts parts_;
  Network* const network_;
  const ConnectionLimits limits_;
  const NumberKey hash_key_;
  uint32_t link_mtu_;  // that connections obey
  ConnectionPools pools_;
  TcpReplies replies_;
  tcp::HalfOpenTable half_open_;
  tcp::TimeWaitTable time_wait_;
  tcp::LastResets last_resets_;
  cc::RoundTripCounts ended_round_trips_;
  std::vector<std::unique_ptr<IwarpListener>> listeners_;
  std::vector<std::unique_ptr<IwarpConnection>> connections_;  // by index
  std::vector<uint32_t> free_;  // indices below connections_.size()
  HashIndex index_;             // of connections that are not retired
  // The last result of Find(), while it is in the index. Saves the hash, 330
  // instructions.
  IwarpConnection* last_found_ = nullptr;
  uint32_t count_ = 0;
  IwarpConnection* first_due_ = nullptr;
  IwarpConnection* last_due_ = nullptr;
};

}  // namespace urnic
