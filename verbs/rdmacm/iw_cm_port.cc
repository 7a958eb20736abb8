#include "verbs/rdmacm/iw_cm_port.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/base/check.h"
#include "verbs/rdmacm/qp_attributes.h"
#include "verbs/rdmacm/resolution.h"

namespace urnic::rdmacm {

namespace {

// The limit of requests that the program has not answered. (The program's
// backlog is the limit of requests that it has not read.) It is that of a TCP
// listener of Linux (net.core.somaxconn): beyond that, SYNs are dropped, and a
// peer repeats its SYN only after a second.
constexpr uint32_t kUnanswered = 4096;
// How long to wait for the neighbour of a path that was resolved some time ago.
// TCP would wait as long for the answer to its first SYNs.
constexpr Duration kPathTimeout = Duration::Seconds(10);

std::span<const uint8_t> PrivateData(const rdma_ucm_conn_param& params) {
  return {params.private_data, params.private_data_len};
}

// Programs get at most as many bytes as the length field of an event can hold.
void SetPrivateData(std::span<const uint8_t> data, rdma_ucm_conn_param& out) {
  const size_t bytes = std::min<size_t>(data.size(), UINT8_MAX);
  std::copy_n(data.begin(), bytes, out.private_data);
  out.private_data_len = static_cast<uint8_t>(bytes);
}

// The depths for a peer that does not state its own.
constexpr ReadDepths kAnyDepths = {UINT8_MAX, UINT8_MAX};

// As in the manual page of rdma_get_cm_event(): the responder resources in an
// event are for the reads of the peer of the program that gets it.
void SetDepths(const ReadDepths& depths, rdma_ucm_conn_param& out) {
  const auto limited = [](uint32_t depth) {
    return static_cast<uint8_t>(std::min<uint32_t>(depth, UINT8_MAX));
  };
  out.responder_resources = limited(depths.ird);
  out.initiator_depth = limited(depths.ord);
}

int ErrnoOf(iwarp::Failure failure) {
  switch (failure) {
    case iwarp::Failure::kRefused:
      return ECONNREFUSED;
    case iwarp::Failure::kTimedOut:
      return ETIMEDOUT;
    case iwarp::Failure::kReset:
      return ECONNRESET;
    case iwarp::Failure::kProtocol:
      return EPROTO;
    default:
      return ECONNABORTED;
  }
}

//= Linux cma_iw_handler(): the status decides which event the end of the set-up
//= is
EventType FailureEvent(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
      return EventType::kRejected;
    case ETIMEDOUT:
      return EventType::kUnreachable;
    default:
      return EventType::kConnectError;
  }
}

mpa::RtrKinds KindsOf(iwarp::Rtr rtr) {
  switch (rtr) {
    case iwarp::Rtr::kZero:
      return mpa::kRtrZeroFpdu;
    case iwarp::Rtr::kWrite:
      return mpa::kRtrWrite;
    case iwarp::Rtr::kRead:
      return mpa::kRtrRead;
    default:
      return mpa::kRtrAll;
  }
}

// Zero: every address.
wire::Gid LocalOf(const Listening& place) {
  return place.address.is_any() ? wire::Gid() : place.address.gid();
}

}  // namespace

mpa::SetupOptions SetupFor(const iwarp::Options& options) {
  mpa::SetupOptions setup;
  setup.revision = options.mpa_revision;
  setup.crc = options.crc;
  setup.markers = options.markers;
  // On the other side, the peer must offer it: siw does so only if its constant
  // peer_to_peer is set.
  setup.peer_to_peer = options.rtr != iwarp::Rtr::kNone;
  setup.rtr_kinds = KindsOf(options.rtr);
  // The program decides how many reads it allows. A peer that wants more gets
  // these.
  setup.max_ird = 0;
  setup.timeout = Duration::Seconds(30);
  return setup;
}

IwCmPort::IwCmPort(Rnic& rnic, TcpConnections& tcp, CmEvents& events)
    : CmPort(rnic, events), tcp_(tcp) {}

IwCmPort::Connection& IwCmPort::Add(State state) {
  do {
    ++last_handle_;
  } while (last_handle_ == 0 || connections_.contains(last_handle_));
  auto& place = connections_[last_handle_];
  place = std::make_unique<Connection>(*this, last_handle_);
  place->state = state;
  return *place;
}

IwCmPort::Connection* IwCmPort::Find(uint64_t handle) {
  const auto it = connections_.find(static_cast<uint32_t>(handle));
  return it == connections_.end() ? nullptr : it->second.get();
}

uint32_t IwCmPort::connections() const {
  const auto asking = std::count_if(
      connections_.begin(), connections_.end(),
      [](const auto& entry) { return entry.second->question != 0; });
  return tcp_.size() + static_cast<uint32_t>(asking);
}

// ----------------------------------------------------------------- listeners

std::vector<IwCmPort::Listener>::iterator IwCmPort::FindListener(
    const Listening& place) {
  const wire::Gid local = LocalOf(place);
  return std::find_if(
      listeners_.begin(), listeners_.end(), [&](const Listener& l) {
        return l.local == local && l.port == place.address.port();
      });
}

// Two ids may listen at every IPv4 address and at every IPv6 address of a port.
// They share a listener, and the device's events find the right id. (An id at
// every IPv4 address excludes one at a single IPv6 address, unlike in Linux.)
int IwCmPort::AddListener(const Listening& place) {
  if (place.space != PortSpace::kTcp) return EOPNOTSUPP;
  if (const auto it = FindListener(place); it != listeners_.end()) {
    ++it->uses;
    return 0;
  }
  Listener listener = {LocalOf(place), place.address.port(),
                       TcpListenerId::kNone, 1};
  const int error = tcp_.Listen(listener.local, listener.port, kUnanswered,
                                SetupFor(tcp_.options()), listener.tcp);
  if (error == 0) listeners_.push_back(listener);
  return error;
}

// Requests that the program knows do not end with their listener.
void IwCmPort::RemoveListener(const Listening& place) {
  const auto it = FindListener(place);
  URNIC_CHECK(it != listeners_.end());
  if (--it->uses > 0) return;
  tcp_.Unlisten(it->tcp);
  listeners_.erase(it);
}

// ---------------------------------------------------------------- connecting

int IwCmPort::Connect(const ConnectRequest& request, uint64_t user,
                      CmHandle& out) {
  // Linux looks for the queue pair of a datagram id, and does not find it.
  if (request.space != PortSpace::kTcp) return EINVAL;
  Connection& connection = Add(State::kConnecting);
  connection.user = user;
  connection.request = std::make_unique<const ConnectRequest>(request);
  asking_ = true;
  connection.question = rnic().AskPath(request.path, &connection, kPathTimeout);
  asking_ = false;
  const auto answer = std::exchange(at_once_, std::nullopt);
  int error = connection.question == 0 ? ENOMEM : 0;
  if (answer.has_value()) {
    connection.question = 0;
    error = *answer;
  }
  if (error != 0) {
    connections_.erase(connection.handle);
    return error;
  }
  out = {connection.handle};
  return 0;
}

void IwCmPort::OnPath(Connection& connection, net::PathStatus status,
                      const net::Path& path) {
  int error = ErrnoOf(status);
  if (error == 0) error = Start(connection, path);
  if (asking_) {
    at_once_ = error;
    return;
  }
  connection.question = 0;
  if (error == 0) return;
  connection.state = State::kIdle;
  CmEvent event;
  event.set_type(FailureEvent(error), -error);
  Tell(connection, event);
}

int IwCmPort::Start(Connection& connection, const net::Path& path) {
  const std::unique_ptr<const ConnectRequest> from =
      std::move(connection.request);
  TcpConnectRequest request;
  request.qpn = from->params.qp_num;
  request.local_port = from->source.port();
  request.remote_port = from->destination.port();
  request.depths = {from->params.responder_resources,
                    from->params.initiator_depth};
  request.private_data = PrivateData(from->params);
  request.user = connection.handle;
  return tcp_.Connect(path, request, SetupFor(tcp_.options()), connection.tcp);
}

// ------------------------------------------------------------------ answering

//= Linux iw_cm_accept(), iw_cm_reject(): EINVAL unless a request waits
int IwCmPort::Accept(CmHandle handle, const AcceptRequest& request) {
  Connection* const connection = Find(handle.value);
  if (connection == nullptr || connection->state != State::kRequested) {
    return EINVAL;
  }
  const ReadDepths depths = {request.params.responder_resources,
                             request.params.initiator_depth};
  const int error = tcp_.Accept(connection->tcp, request.qpn, depths,
                                PrivateData(request.params));
  if (error != 0) return error;
  connection->state = State::kAccepted;
  return 0;
}

int IwCmPort::Ready(CmHandle) { return EINVAL; }

int IwCmPort::Reject(CmHandle handle, uint8_t,
                     std::span<const uint8_t> private_data) {
  Connection* const connection = Find(handle.value);
  if (connection == nullptr || connection->state != State::kRequested) {
    return EINVAL;
  }
  const int error = tcp_.Reject(connection->tcp, private_data);
  if (error != 0) return error;
  connection->state = State::kIdle;
  return 0;
}

// -------------------------------------------------------------------- ending

//= Linux iw_cm_disconnect(): no error if the connection is over already, or if
//= its request is not answered
int IwCmPort::Disconnect(CmHandle handle) {
  Connection* const connection = Find(handle.value);
  if (connection == nullptr) return EINVAL;
  switch (connection->state) {
    case State::kConnecting:
    case State::kAccepted:
    case State::kEstablished:
      break;
    default:
      return 0;
  }
  if (connection->question != 0) {
    rnic().CancelPath(std::exchange(connection->question, 0));
    connection->state = State::kIdle;
    CmEvent event;
    event.set_type(EventType::kConnectError, -ECONNABORTED);
    Tell(*connection, event);
    return 0;
  }
  connection->state = State::kClosing;
  tcp_.Disconnect(connection->tcp);
  return 0;
}

//= Linux rdma_notify(): iWARP needs no help to establish a connection
int IwCmPort::Notify(CmHandle, uint32_t) { return 0; }

void IwCmPort::Destroy(CmHandle handle) {
  Connection* const connection = Find(handle.value);
  if (connection == nullptr) return;
  if (connection->question != 0) rnic().CancelPath(connection->question);
  if (connection->tcp != TcpConnectionId::kNone) tcp_.Forget(connection->tcp);
  connections_.erase(handle.value);
}

// ---------------------------------------------------------------- attributes

// Linux returns no rights here, and the side that connects never asks again.
// That is enough for its devices, which only check the rights of the memory.
// Our devices also check those of the queue pair. Linux never returns the right
// to atomics, because its devices have no atomics.
void IwCmPort::GetInitialAttributes(bool, ib_uverbs_qp_attr& out) const {
  out.qp_attr_mask = kState | kAccessFlags;
  out.qp_access_flags =
      kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
}

//= Linux iw_cm_init_qp_attr(): RTS needs no attributes, since the connection
//= moves the queue pair there
int IwCmPort::GetQpAttributes(CmHandle handle, ib_uverbs_qp_attr& out) {
  const Connection* const connection = Find(handle.value);
  if (connection == nullptr || connection->state == State::kClosing) {
    return EINVAL;
  }
  switch (out.qp_state) {
    case kInit:
    case kReadyToReceive:
      GetInitialAttributes(false, out);
      return 0;
    case kReadyToSend:
      out.qp_attr_mask = 0;
      return 0;
    default:
      return EINVAL;
  }
}

// -------------------------------------------------------------------- events

void IwCmPort::Tell(const Connection& connection, CmEvent& event) {
  event.handle = {connection.handle};
  event.user = connection.user;
  if (!events().OnEvent(*this, event)) Destroy(event.handle);
}

void IwCmPort::OnTcpEvent(const TcpEvent& event) {
  if (event.kind == iwarp::Event::kRequest) return OnRequest(event);
  Connection* const connection = Find(event.user);
  if (connection == nullptr) return;
  CmEvent out;
  rdma_ucm_conn_param& params = out.response.param.conn;
  switch (event.kind) {
    case iwarp::Event::kConnected:
      // The program has disconnected in the meantime.
      if (connection->state == State::kClosing) return;
      connection->state = State::kEstablished;
      out.set_type(EventType::kEstablished);
      SetPrivateData(event.private_data, params);
      SetDepths(event.depths.value_or(kAnyDepths), params);
      break;
    case iwarp::Event::kRejected:
      connection->state = State::kIdle;
      out.set_type(EventType::kRejected, -ECONNREFUSED);
      SetPrivateData(event.private_data, params);
      break;
    case iwarp::Event::kFailed: {
      // The program learns from its answer that a request is over.
      if (connection->state != State::kRequested) {
        connection->state = State::kIdle;
      }
      const int error = ErrnoOf(event.failure);
      out.set_type(FailureEvent(error), -error);
      break;
    }
    case iwarp::Event::kDisconnected:
      //= Linux cma_iw_handler(): the end of a connection has no status
      connection->state = State::kIdle;
      out.set_type(EventType::kDisconnected);
      break;
    default:
      return;
  }
  Tell(*connection, out);
}

//= Linux iw_conn_req_handler(): the addresses are those of the TCP connection
void IwCmPort::OnRequest(const TcpEvent& event) {
  const uint32_t scope = rnic().info().interface_index;
  const tcp::FourTuple& addresses = event.addresses;
  Connection& connection = Add(State::kRequested);
  connection.tcp = event.connection;
  CmRequest request;
  request.handle = {connection.handle};
  request.called =
      SocketAddress::FromGid(addresses.local, addresses.local_port, scope);
  request.caller =
      SocketAddress::FromGid(addresses.remote, addresses.remote_port, scope);
  rdma_ucm_conn_param& params = request.response.param.conn;
  SetPrivateData(event.private_data, params);
  SetDepths(event.depths.value_or(kAnyDepths), params);
  connection.user = events().OnRequest(*this, request);
  if (connection.user == 0) return Destroy(request.handle);
  tcp_.Adopt(connection.tcp, connection.handle);
}

}  // namespace urnic::rdmacm
