// Listeners and connections: the calls of the connection manager. Segments and
// timers are in connection_arrivals.cc, events and the end of a connection's
// life in connection_ends.cc, images in connection_images.cc.

#include "datapath/engine/connection_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/frame_custody.h"
#include "datapath/engine/network.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic {

namespace {

constexpr uint8_t kFailedBit = 1u
                               << static_cast<uint8_t>(iwarp::Event::kFailed);

// The purposes of the keys that are derived from the network's key.
enum KeyPurpose : uint64_t { kHashKey, kChallengeKey, kHandshakeKey, kOldKey };

// Sends and writes up to this length are copied, and complete when they have
// been sent. Without that they would wait for their acknowledgement, which
// Linux delays by up to 40 ms for a single segment.
constexpr uint32_t kKeepBytes = 256;

absl::Status TooLong(size_t bytes, size_t room) {
  return Refusal(ErrorCode::kPrivateData,
                 absl::StrCat("private data of ", bytes,
                              " bytes: this peer takes at most ", room));
}

absl::Status CheckQp(const IwarpQp& qp, uint32_t ird, uint32_t ord) {
  if (qp.core_state() != QpState::kInit) {
    return Refusal(
        ErrorCode::kQpNotIdle,
        absl::StrCat("queue pair ", qp.qpn(), " is not in state INIT"));
  }
  if (qp.connection() != nullptr) {
    return Refusal(ErrorCode::kQpNotIdle,
                   absl::StrCat("queue pair ", qp.qpn(), " has a connection"));
  }
  constexpr uint32_t kDepthLimit = wire::MpaEnhanced::kDepthNotNegotiated;
  if (ird >= kDepthLimit || ord >= kDepthLimit) {
    return Refusal(ErrorCode::kBadAttribute,
                   absl::StrCat("depths of reads ", ird, " and ", ord,
                                ": at most ", kDepthLimit - 1));
  }
  return absl::OkStatus();
}

rdmap::Config QpConfigFor(const IwarpQp& qp, uint32_t ird, uint32_t ord) {
  return {.access = MUTATION(device_gives_no_rights, qp.config().access, 0),
          .ird = ird,
          .ord = ord,
          .keep_bytes = kKeepBytes};
}

}  // namespace

ConnectionTable::ConnectionTable(const Parts& parts, Network* network)
    : parts_(parts),
      network_(network),
      limits_(network->connection_limits()),
      hash_key_(network->connection_key().For(kHashKey)),
      link_mtu_(parts.tx->link_mtu()),
      pools_(limits_, network->connection_key().For(kChallengeKey),
             network->host().mtu(), parts.frames),
      replies_(parts.tx, &parts.counters->iwarp),
      half_open_(network->connection_key().For(kHandshakeKey),
                 limits_.half_open, pools_.challenges()),
      time_wait_(network->connection_key().For(kOldKey), limits_.time_wait),
      last_resets_(kLastResets),
      index_(limits_.max_connections) {
  URNIC_CHECK(std::has_single_bit(limits_.kept_per_connection));
  network_->AddPathUsers(this);
  network_->ReportTcpTo(this);
}

ConnectionTable::~ConnectionTable() {
  network_->ReportTcpTo(nullptr);
  network_->RemovePathUsers(this);
  for (const auto& connection : connections_) {
    if (connection == nullptr) continue;
    URNIC_CHECK(connection->qp() == nullptr);
    parts_.flows->Remove(*connection);
  }
}

// --- Listeners ---------------------------------------------------------------

IwarpListener* ConnectionTable::FindListener(const wire::Gid& local,
                                             uint16_t port) const {
  IwarpListener* any = nullptr;
  for (const auto& listener : listeners_) {
    MUTATION_SKIPS(device_listens_at_every_port)
    if (listener->port() != port) continue;
    if (listener->local() == local) return listener.get();
    if (listener->local() == wire::Gid{}) any = listener.get();
  }
  return any;
}

absl::StatusOr<IwarpListener*> ConnectionTable::Listen(
    const ListenerConfig& config) {
  URNIC_CHECK(config.events != nullptr);
  if (config.port == 0) return Refusal(ErrorCode::kBadAttribute, "port 0");
  for (const auto& listener : listeners_) {
    if (listener->port() == config.port &&
        (listener->local() == config.local ||
         listener->local() == wire::Gid{} || config.local == wire::Gid{})) {
      return Refusal(ErrorCode::kTcpPortTaken,
                     absl::StrCat("TCP port ", config.port, " has a listener"));
    }
  }
  listeners_.push_back(std::make_unique<IwarpListener>(config));
  return listeners_.back().get();
}

void ConnectionTable::Unlisten(IwarpListener* listener) {
  ForEach([&](IwarpConnection& connection) {
    if (connection.listener_ != listener) return;
    LeaveSilent(connection);
    connection.listener_ = nullptr;
    if (!connection.unanswered_ || connection.owned_) return;
    connection.unanswered_ = false;
    Refuse(connection);
    Update(connection);
  });
  std::erase_if(listeners_,
                [&](const auto& other) { return other.get() == listener; });
}

void ConnectionTable::LeaveSilent(IwarpConnection& connection) {
  if (!std::exchange(connection.silent_, false)) return;
  connection.listener_->silent_.erase(connection.silent_at_);
}

void ConnectionTable::EvictSilent(IwarpListener& listener) {
  IwarpConnection& oldest = *listener.silent_.front();
  ++parts_.counters->iwarp.silent_evicted;
  Answered(oldest);
  oldest.endpoint_->Abort(*parts_.now);
  Update(oldest);
}

void ConnectionTable::Answered(IwarpConnection& connection) {
  LeaveSilent(connection);
  if (!std::exchange(connection.unanswered_, false)) return;
  if (connection.listener_ != nullptr) --connection.listener_->unanswered_;
}

// --- Beginnings --------------------------------------------------------------

tcp::Offer ConnectionTable::OfferFor(const wire::Gid& local) const {
  const bool ipv4 = local.is_ipv4();
  const uint32_t headers =
      (ipv4 ? sizeof(wire::Ipv4) : sizeof(wire::Ipv6)) + sizeof(wire::Tcp);
  return {
      .mss = static_cast<uint16_t>(parts_.tx->link_mtu() - headers),
      .default_mss = ipv4 ? wire::kTcpDefaultMssIpv4 : wire::kTcpDefaultMssIpv6,
      .ecn = network_->iwarp_options().ecn != iwarp::Ecn::kOff};
}

tcp::ConnectionConfig ConnectionTable::ConfigFor(const tcp::FourTuple& tuple,
                                                 const net::Path& path) const {
  tcp::ConnectionConfig config;
  config.local_port = tuple.local_port;
  config.remote_port = tuple.remote_port;
  config.timestamp_offset = half_open_.numbers().TimestampOffset(tuple);
  config.offer = OfferFor(tuple.local);
  config.ipv6 = !tuple.local.is_ipv4();
  config.path_mtu = MtuOf(path);
  config.window_bytes = limits_.window_bytes;
  const iwarp::Options& options = network_->iwarp_options();
  config.dctcp = options.ecn == iwarp::Ecn::kDctcp;
  if (options.timeout_seconds != 0) {
    // An idle peer is probed in the second half of the time.
    const int64_t seconds = options.timeout_seconds;
    config.user_timeout = Duration::Seconds(seconds);
    config.keepalive_idle = Duration::Milliseconds(seconds * 500);
    config.keepalive_interval = Duration::Milliseconds(seconds * 100);
    config.keepalive_probes = 5;
  }
  return config;
}

absl::Status ConnectionTable::NoRoom() const {
  return Refusal(
      ErrorCode::kNoPlace,
      absl::StrCat("all ", limits_.max_connections, " connections exist"));
}

IwarpConnection& ConnectionTable::Add(const tcp::FourTuple& tuple,
                                      const net::Path& path) {
  uint32_t index = static_cast<uint32_t>(connections_.size());
  if (free_.empty()) {
    connections_.emplace_back();
    index_.Grow(index + 1);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  ++count_;
  parts_.flows->Reserve(network_->iwarp_qps().size() + network_->qps().size() +
                        count_);
  connections_[index].reset(
      new IwarpConnection(this, tuple, path, limits_.kept_per_connection));
  IwarpConnection& connection = *connections_[index];
  connection.index_ = index;
  connection.known_mtu_ = MtuOf(path);
  connection.Begin(pools_.ForEndpoint());
  index_.Insert(HashOf(tuple), index);
  TraceConnection(TracePoint::kConnectionBegins, connection);
  network_->Adopt(connection.path_, *parts_.now);
  return connection;
}

void ConnectionTable::RemoveFromIndex(const IwarpConnection& connection) {
  index_.Remove(HashOf(connection.tuple_), connection.index_);
  if (last_found_ == &connection) last_found_ = nullptr;
}

absl::StatusOr<IwarpConnection*> ConnectionTable::Connect(
    IwarpQp& qp, const ConnectConfig& config,
    std::span<const uint8_t> private_data) {
  const absl::Status usable = CheckQp(qp, config.ird, config.ord);
  if (!usable.ok()) return usable;
  const uint32_t room = mpa::MaxPrivateData(config.setup.revision, false);
  if (private_data.size() > room) return TooLong(private_data.size(), room);
  const tcp::FourTuple tuple = config.tuple();
  const bool to_itself =
      tuple.local == tuple.remote && tuple.local_port == tuple.remote_port;
  if (full()) return NoRoom();
  std::optional<SeqNum> after;  // of an earlier connection
  if (to_itself || Find(tuple) != nullptr ||
      !time_wait_.TakeForNewConnection(tuple, *parts_.now, after)) {
    return Refusal(
        ErrorCode::kTcpPortTaken,
        absl::StrCat("TCP port ", config.local_port,
                     " has, or had a moment ago, a connection to this port of "
                     "the peer"));
  }
  mpa::SetupOptions setup = config.setup;
  setup.ird = static_cast<uint16_t>(config.ird);
  setup.ord = static_cast<uint16_t>(config.ord);
  IwarpConnection& connection = Add(tuple, config.path);
  connection.set_owner(config.events, config.user);
  connection.owned_ = true;
  qp.MakeRoomForReads(std::max<uint32_t>(config.ird, setup.max_ird));
  connection.Attach(&qp);
  TraceConnection(TracePoint::kConnectionServes, connection);
  const rdmap::Config qp_config = QpConfigFor(qp, config.ird, config.ord);
  if (setup.revision > 1) {
    connection.retry_ =
        std::make_unique<IwarpConnection::Retry>(IwarpConnection::Retry{
            .setup = setup,
            .config = qp_config,
            .private_data = {private_data.begin(), private_data.end()}});
  }
  const tcp::InitialNumbers& numbers = half_open_.numbers();
  Start(connection, setup, qp_config, private_data,
        after ? numbers.IsnAfter(tuple, *after, *parts_.now)
              : numbers.Isn(tuple, *parts_.now));
  return &connection;
}

void ConnectionTable::Start(IwarpConnection& connection,
                            const mpa::SetupOptions& setup,
                            const rdmap::Config& config,
                            std::span<const uint8_t> private_data, SeqNum iss) {
  ++parts_.counters->iwarp.active_opens;
  tcp::ConnectionConfig tcp = ConfigFor(connection.tuple_, connection.path_);
  tcp.iss = iss;
  connection.endpoint_->Connect(tcp, setup,
                                {&connection.qp_->mutable_core(), config},
                                private_data, *parts_.now);
  connection.FollowLog(*parts_.now);
  Update(connection);
}

// The peer has closed the connection of the first attempt, or has got a RST. So
// the same addresses and ports can be used again, if the new connection begins
// with greater sequence numbers.
void ConnectionTable::ConnectAgain(IwarpConnection& connection) {
  const auto retry = std::move(connection.retry_);
  retry->setup.revision = 1;
  const SeqNum last = connection.endpoint_->connection().sender().nxt();
  CountEndpoint(connection);
  connection.Begin(pools_.ForEndpoint());
  Start(connection, retry->setup, retry->config, retry->private_data,
        half_open_.numbers().IsnAfter(connection.tuple_, last, *parts_.now));
}

// --- Answers -----------------------------------------------------------------

absl::Status ConnectionTable::Accept(IwarpConnection& connection, IwarpQp& qp,
                                     uint32_t ird, uint32_t ord,
                                     std::span<const uint8_t> private_data) {
  const absl::Status usable = CheckQp(qp, ird, ord);
  if (!usable.ok()) return usable;
  if (!connection.unanswered_ || !connection.set_up().has_request()) {
    return Refusal(ErrorCode::kConnectionOver,
                   "the peer has closed the connection");
  }
  if (private_data.size() > connection.answer_room()) {
    return TooLong(private_data.size(), connection.answer_room());
  }
  const uint32_t max_ird = connection.set_up().responder().max_ird();
  qp.MakeRoomForReads(std::max(ird, max_ird));
  connection.Attach(&qp);
  TraceConnection(TracePoint::kConnectionServes, connection);
  const bool alive = connection.endpoint_->Accept(
      {&qp.mutable_core(), QpConfigFor(qp, ird, ord)}, private_data,
      *parts_.now);
  if (!alive) {
    connection.Attach(nullptr);
    return Refusal(ErrorCode::kConnectionOver, "the connection has ended");
  }
  connection.FollowLog(*parts_.now);
  Answered(connection);
  Update(connection);
  return absl::OkStatus();
}

absl::Status ConnectionTable::Reject(IwarpConnection& connection,
                                     std::span<const uint8_t> private_data) {
  if (!connection.unanswered_ || !connection.set_up().has_request()) {
    return Refusal(ErrorCode::kConnectionOver,
                   "the peer has closed the connection");
  }
  if (private_data.size() > connection.answer_room()) {
    return TooLong(private_data.size(), connection.answer_room());
  }
  const bool alive = connection.endpoint_->Reject(private_data, *parts_.now);
  Answered(connection);
  Update(connection);
  return alive
             ? absl::OkStatus()
             : Refusal(ErrorCode::kConnectionOver, "the connection has ended");
}

// --- Ends --------------------------------------------------------------------

void ConnectionTable::Disconnect(IwarpConnection& connection) {
  if (connection.retired_) return;
  GiveUpRetry(connection);
  connection.Calls([&](auto& calls) {
    MUTATION(device_disconnect_aborts, calls.Disconnect(*parts_.now),
             calls.Abort(*parts_.now));
  });
  Update(connection);
}

void ConnectionTable::Forget(IwarpConnection* connection) {
  connection->owned_ = false;
  MUTATION_SKIPS(device_tells_after_forget)
  connection->events_ = nullptr;
  if (connection->unanswered_) {
    Answered(*connection);
    Refuse(*connection);
    Update(*connection);
  } else {
    Disconnect(*connection);
  }
  MarkDue(*connection);
}

// Rejects by an MPA reply, as Linux does. After a RST the peer would try again,
// with revision 1 of MPA.
void ConnectionTable::Refuse(IwarpConnection& connection) {
  if (!connection.endpoint_->Reject({}, *parts_.now)) {
    connection.endpoint_->Abort(*parts_.now);
  }
}

void ConnectionTable::DetachQp(IwarpConnection& connection, bool abort) {
  GiveUpRetry(connection);
  connection.Calls([&](auto& calls) {
    if (abort) calls.Abort(*parts_.now);
    calls.Detach(*parts_.now);
  });
  connection.Attach(nullptr);
  Update(connection);
}

void ConnectionTable::AbortAll() {
  ForEach([&](IwarpConnection& connection) {
    if (connection.retired_) return;
    GiveUpRetry(connection);
    connection.Calls([&](auto& calls) { calls.Abort(*parts_.now); });
    Update(connection);
  });
}

// Between its two attempts a connection has no endpoint that could report the
// failure.
void ConnectionTable::GiveUpRetry(IwarpConnection& connection) {
  const auto retry = std::move(connection.retry_);
  if (retry == nullptr || !retry->due) return;
  connection.events_due_ |= kFailedBit;
}

void ConnectionTable::Update(IwarpConnection& connection) {
  // Within a burst, the receiver settles after the placements are executed.
  if (connection.in_burst_) return;
  MUTATION_SKIPS(device_does_not_settle_after_calls)
  parts_.flows->Apply(connection, connection.Settle(*parts_.sink));
}

void ConnectionTable::ForEachPath(
    const std::function<void(net::Path&)>& visit) {
  ForEach([&](IwarpConnection& connection) {
    if (!connection.retired_) visit(connection.path_);
  });
}

}  // namespace urnic
