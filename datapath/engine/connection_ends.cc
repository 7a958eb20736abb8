// The events of connections, and the end of a connection's life.

#include <algorithm>
#include <bit>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/network.h"
#include "transport/base/mutation.h"

namespace urnic {

namespace {

// The state of a connection that TIME-WAIT keeps.
tcp::TimeWaitTable::Ended EndedOf(const tcp::Connection& tcp,
                                  uint8_t window_shift) {
  const tcp::Receiver& receiver = tcp.receiver();
  const uint32_t window = receiver.window_bytes() >> window_shift;
  return {
      .snd_nxt = tcp.sender().nxt(),
      .rcv_nxt = receiver.next(),
      .ts_recent = receiver.ts_recent(),
      .timestamps = tcp.agreed().timestamps,
      .window = static_cast<uint16_t>(std::min<uint32_t>(window, UINT16_MAX))};
}

}  // namespace

// --- Events ------------------------------------------------------------------

void ConnectionTable::NoteSettled(IwarpConnection& connection) {
  iwarp::Event event;
  while ((event = connection.TakeEvent()) != iwarp::Event::kNone) {
    connection.events_due_ |=
        static_cast<uint8_t>(1u << static_cast<uint8_t>(event));
  }
  const uint32_t mtu = connection.endpoint_->path_mtu();
  if (__builtin_expect(mtu != 0 && mtu < connection.known_mtu_, 0)) {
    connection.known_mtu_ = mtu;
    network_->LearnPathMtu(connection.tuple_.remote, mtu, *parts_.now);
  }
  if (connection.events_due_ != 0 ||
      (connection.endpoint_->done() && !connection.retired_)) {
    MarkDue(connection);
  }
}

void ConnectionTable::MarkDue(IwarpConnection& connection) {
  if (std::exchange(connection.due_, true)) return;
  (first_due_ == nullptr ? first_due_ : last_due_->next_due_) = &connection;
  last_due_ = &connection;
}

void ConnectionTable::DeliverEvents() {
  while (first_due_ != nullptr) {
    IwarpConnection& connection = *first_due_;
    first_due_ = std::exchange(connection.next_due_, nullptr);
    connection.due_ = false;
    Deliver(connection);
  }
}

// The handler of an event may make other events due, also of this connection.
void ConnectionTable::Deliver(IwarpConnection& connection) {
  while (connection.events_due_ != 0) {
    const int bit = std::countr_zero(connection.events_due_);
    connection.events_due_ &= static_cast<uint8_t>(~(1u << bit));
    MUTATION_ADDS(device_loses_events, if (bit % 2 != 0) continue;)
    DeliverOne(connection, static_cast<iwarp::Event>(bit));
  }
  if (connection.due_) return;  // DeliverEvents() comes to it again
  if (!connection.endpoint_->done()) return;
  if (connection.retry_ != nullptr && connection.retry_->due) {
    return ConnectAgain(connection);
  }
  Retire(connection);
  MUTATION_SKIPS(device_never_destroys)
  if (!connection.owned_) Destroy(connection);
}

void ConnectionTable::DeliverOne(IwarpConnection& connection,
                                 iwarp::Event event) {
  if (event == iwarp::Event::kRequest) {
    LeaveSilent(connection);
    if (connection.listener_ == nullptr) return;  // it was aborted
    connection.owned_ = true;
    const ListenerConfig& config = connection.listener_->config();
    config.events->OnConnectionEvent(connection, event);
    return;
  }
  if (event == iwarp::Event::kRetryRevision1 && connection.retry_ != nullptr) {
    connection.retry_->due = true;
    connection.Calls([&](auto& calls) { calls.Abort(*parts_.now); });
    return Update(connection);
  }
  if (event != iwarp::Event::kConnected) Answered(connection);
  if (event == iwarp::Event::kConnected) connection.retry_.reset();
  if (connection.events_ != nullptr) {
    connection.events_->OnConnectionEvent(connection, event);
  }
}

// --- The end of its life -----------------------------------------------------

void ConnectionTable::Retire(IwarpConnection& connection) {
  if (std::exchange(connection.retired_, true)) return;
  Answered(connection);
  LetGoOfQp(connection);
  parts_.flows->Remove(connection);
  RemoveFromIndex(connection);
  const tcp::Connection& tcp = connection.endpoint_->connection();
  if (tcp.state() == tcp::State::kTimeWait) {
    const uint8_t shift =
        tcp.agreed().window_shift
            ? ConfigFor(connection.tuple_, connection.path_).window_shift()
            : uint8_t{0};
    time_wait_.Add(connection.tuple_, EndedOf(tcp, shift), *parts_.now);
  }
  if (const auto reset = tcp.sent_reset(*parts_.now)) {
    last_resets_.Add({connection.tuple_, *reset}, *parts_.now);
  }
}

void ConnectionTable::LetGoOfQp(IwarpConnection& connection) {
  IwarpQp* const qp = connection.qp_;
  if (qp == nullptr) return;
  const tcp::Connection& tcp = connection.endpoint_->connection();
  parts_.history->Add(
      HistoryEvent::kConnectionEnded, qp->qpn(),
      static_cast<uint32_t>(tcp.ended()),
      static_cast<uint32_t>(tcp.sender().counters().retransmissions),
      /*iwarp=*/true);
  if (tcp.ended() == tcp::End::kTimedOut) {
    parts_.sink->OnFailed(FailureOf(ErrorCode::kConnectionTimedOut, *qp));
  } else if (tcp.ended() == tcp::End::kReset) {
    parts_.sink->OnFailed(FailureOf(ErrorCode::kConnectionReset, *qp));
  }
  connection.Attach(nullptr);
  // From now on the queue pair flushes itself.
  parts_.flows->PassLateLooks(connection, *qp);
  parts_.flows->Apply(*qp, qp->Settle(*parts_.sink));
}

void ConnectionTable::Destroy(IwarpConnection& connection) {
  CountEndpoint(connection);
  TraceConnection(
      TracePoint::kConnectionEnds, connection,
      static_cast<uint64_t>(connection.endpoint().connection().ended()));
  const uint32_t index = connection.index_;
  connections_[index].reset();
  free_.push_back(index);
  --count_;
}

}  // namespace urnic
