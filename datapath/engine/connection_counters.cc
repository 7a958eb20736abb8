// The counters of connections, and of segments that belong to none.

#include "datapath/engine/connection_table.h"

namespace urnic {

namespace {

void AddSender(const tcp::SenderCounters& from, IwarpCounters& to) {
  to.retrans_segs += from.retransmissions;
  to.timeouts += from.timeouts;
  to.loss_probes += from.tail_probes;
  to.window_probes += from.window_probes;
  to.fast_recoveries += from.recoveries;
  to.undone_recoveries += from.undone;
  to.dsacks_recv += from.dsacks;
  to.sack_discards += from.bad_sacks;
  to.sack_reneging += from.reneged;
  to.ecn_reductions += from.ecn_reductions;
}

void AddConnection(const IwarpConnection& connection, IwarpCounters& to) {
  const tcp::Connection& tcp = connection.endpoint().connection();
  AddSender(tcp.sender().counters(), to);
  const tcp::End end = tcp.ended();
  if (end == tcp::End::kReset || end == tcp::End::kRefused) ++to.in_rsts;
}

const cc::RoundTripCounts& RoundTripsOf(const IwarpConnection& connection) {
  return connection.endpoint().connection().sender().round_trips();
}

}  // namespace

void ConnectionTable::CountTerminate(const IwarpQp& qp,
                                     const ddp::StreamError& error,
                                     bool received) {
  const auto number =
      static_cast<uint16_t>(error.layer << 12 | error.type << 8 | error.code);
  parts_.history->Add(received ? HistoryEvent::kTerminateReceived
                               : HistoryEvent::kTerminateSent,
                      qp.qpn(), number, 0, /*iwarp=*/true);
  Failure failure = FailureOf(
      received ? ErrorCode::kPeerTerminated : ErrorCode::kWeTerminated, qp);
  failure.terminate = number;
  parts_.sink->OnFailed(failure);
  EngineCounters& counters = *parts_.counters;
  ++(received ? counters.iwarp.terminates_recv
              : counters.iwarp.terminates_sent);
  (received ? counters.terminates_received : counters.terminates_sent)
      .Count(number);
}

void ConnectionTable::CountEndpoint(const IwarpConnection& connection) {
  AddConnection(connection, parts_.counters->iwarp);
  ended_round_trips_.Add(RoundTripsOf(connection));
}

void ConnectionTable::TraceConnection(TracePoint point,
                                      const IwarpConnection& connection,
                                      uint64_t how, const TracePlace& place) {
  const IwarpQp* const qp = connection.qp();
  parts_.trace->Add(
      point, {.qpn = qp == nullptr ? 0 : qp->qpn(), .iwarp = true},
      {connection.tuple().local_port, connection.tuple().remote_port, how},
      place);
}

void ConnectionTable::AddRoundTrips(cc::RoundTripCounts& to) const {
  to.Add(ended_round_trips_);
  ForEach([&to](const IwarpConnection& connection) {
    to.Add(RoundTripsOf(connection));
  });
}

void ConnectionTable::CollectCounters() {
  EngineCounters& all = *parts_.counters;
  IwarpCounters& iwarp = all.iwarp;
  const auto count = [&all](RxVerdict verdict) {
    return all.verdicts[static_cast<size_t>(verdict)];
  };
  iwarp.challenge_acks = pools_.challenges_sent();
  iwarp.syn_cookies_sent += half_open_.TakeCookiesSent();
  iwarp.syn_cookies_recv += half_open_.TakeCookiesReturned();
  iwarp.time_wait_overflow += time_wait_.TakeEvicted();
  iwarp.fpdu_parts_held = pools_.pieces_held();
  iwarp.early_segs = count(RxVerdict::kTcpEarly);
  iwarp.out_of_order_segs = count(RxVerdict::kTcpKept) + iwarp.early_segs +
                            count(RxVerdict::kTcpNoRoom);
  iwarp.crc_errors = count(RxVerdict::kMpaBadCrc);
}

void ConnectionTable::AddLiving(IwarpCounters& to) const {
  ForEach([&to](const IwarpConnection& connection) {
    AddConnection(connection, to);
  });
}

}  // namespace urnic
