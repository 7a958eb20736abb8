#include "datapath/engine/iwarp_connection.h"

#include <new>
#include <type_traits>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/traced_sink.h"
#include "transport/base/check.h"
#include "transport/iwarp/qp/image.h"

namespace urnic {

IwarpConnection::IwarpConnection(ConnectionTable* table,
                                 const tcp::FourTuple& tuple,
                                 const net::Path& path, uint32_t kept_fpdus)
    : Flow(Kind::kConnection),
      table_(table),
      tuple_(tuple),
      path_(path),
      kept_count_(kept_fpdus),
      kept_(static_cast<iwarp::KeptFpdu*>(
          ::operator new(kept_fpdus * sizeof(iwarp::KeptFpdu)))) {
  // The records are written as a whole before they are read.
  static_assert(std::is_trivially_destructible_v<iwarp::KeptFpdu> &&
                std::is_trivially_copyable_v<iwarp::KeptFpdu>);
}

void IwarpConnection::Begin(const iwarp::EndpointPools& pools) {
  endpoint_.emplace(pools, std::span(kept_.get(), kept_count_));
}

void IwarpConnection::Attach(IwarpQp* qp) {
  if (qp_ != nullptr) qp_->set_connection(nullptr);
  is_logged_ = false;  // until FollowLog()
  qp_ = qp;
  if (qp_ != nullptr) qp_->set_connection(this);
}

void IwarpConnection::AppendImage(Time now, std::string& out) const {
  AppendImageTo(out, [&](std::span<uint8_t> to) {
    return iwarp::ExtractImage(*endpoint_, tuple_, now, to);
  });
}

void IwarpConnection::FollowLog(Time now) {
  is_logged_ = qp_->tap() != nullptr;
  if (is_logged_) tap().Begin(&*endpoint_, tuple_, now);
}

// --- The packet path ---------------------------------------------------------

template <typename Sink>
void IwarpConnection::BurstSink<Sink>::Complete(const RecvCompletion& done) {
  if (__builtin_expect(sink.full(), 0)) connection.WriteReceives(sink);
  sink.Complete(done);
}

// For iwarp_logged.cc.
template void IwarpConnection::BurstSink<FlowSink>::Complete(
    const RecvCompletion&);
template void IwarpConnection::BurstSink<TracedSink>::Complete(
    const RecvCompletion&);

template <typename Sink>
void IwarpConnection::WriteReceives(Sink& sink) {
  if (is_logged_) return WriteLoggedReceives(sink);
  sink.Execute(*endpoint_);
  IwarpQp::Writer<Sink> writer{qp_, sink};
  endpoint_->Deliver(sink.receives(), writer);
  sink.ForgetReceives();
}

template <typename Sink>
RxVerdict IwarpConnection::OnSegment(const wire::TcpSegment& segment,
                                     const ReceivedFrame& frame, Time now,
                                     Sink& sink) {
  in_burst_ = true;
  if (__builtin_expect(is_logged_, 0))
    return OnLoggedSegment(segment, frame, now, sink);
  BurstSink<Sink> burst{*this, sink};
  return endpoint_->OnSegment(segment, frame, now, burst);
}

template RxVerdict IwarpConnection::OnSegment(const wire::TcpSegment&,
                                              const ReceivedFrame&, Time,
                                              FlowSink&);
template RxVerdict IwarpConnection::OnSegment(const wire::TcpSegment&,
                                              const ReceivedFrame&, Time,
                                              TracedSink&);

template <typename Sink>
FlowResult IwarpConnection::FinishBurst(Sink& sink) {
  in_burst_ = false;
  Calls([&](auto& calls) { sink.Execute(calls); });
  // The queue pair may have gone since.
  if (qp_ == nullptr) sink.ForgetReceives();
  return SettleWith(sink.receives(), sink);
}

template FlowResult IwarpConnection::FinishBurst(FlowSink&);
template FlowResult IwarpConnection::FinishBurst(TracedSink&);

FlowResult IwarpConnection::OnTimer(Time now, FlowSink& sink) {
  Calls([now](auto& calls) { calls.OnTimer(now); });
  return Settle(sink);
}

void IwarpConnection::OnOutage(Time now) {
  Calls([now](auto& calls) { calls.OnOutage(now); });
}

template <typename Sink>
FlowResult IwarpConnection::SettleWith(std::span<const RecvCompletion> receives,
                                       Sink& sink) {
  IwarpQp::Writer<Sink> writer{qp_, sink};
  const FlowResult result = __builtin_expect(is_logged_, 0)
                                ? SettleLogged(receives, sink)
                                : endpoint_->Settle(receives, writer);
  // Queries read the state from the queue pair.
  if (qp_ != nullptr) {
    qp_->Note(result);
    if (__builtin_expect(result.state == QpState::kErr, 0)) CountTerminates();
  }
  table_->NoteSettled(*this);
  return result;
}

template FlowResult IwarpConnection::SettleWith(std::span<const RecvCompletion>,
                                                FlowSink&);
template FlowResult IwarpConnection::SettleWith(std::span<const RecvCompletion>,
                                                TracedSink&);

void IwarpConnection::CountTerminates() {
  const ddp::StreamError sent = qp_->core().sent_error();
  const ddp::StreamError received = qp_->core().peers_error();
  if (sent && !std::exchange(sent_counted_, true)) {
    table_->CountTerminate(*qp_, sent, /*received=*/false);
  }
  if (received && !std::exchange(received_counted_, true)) {
    table_->CountTerminate(*qp_, received, /*received=*/true);
  }
}

RequesterCounters IwarpConnection::counters() const {
  const tcp::SenderCounters& sender =
      endpoint_->connection().sender().counters();
  RequesterCounters counters;
  counters.requests_sent = sender.segments;
  counters.requests_resent = sender.retransmissions;
  counters.bytes_acked = sender.bytes_acked;
  counters.timeouts = sender.timeouts;
  return counters;
}

}  // namespace urnic
