#include "datapath/engine/qp_facts.h"

#include <algorithm>

#include "datapath/engine/iwarp_connection.h"
#include "transport/rc/qp.h"

namespace urnic {
namespace {

// Until it expires. Not there: the timer is not running.
void AddTimer(Time due, Time now, FactWriter& facts) {
  if (due.IsInfinite()) return;
  facts.Add("timer-us", std::max<int64_t>((due - now).ns(), 0) / 1000);
}

void AddPath(const cc::SharedPath& path, FactWriter& facts) {
  if (path.round_trip.known())
    facts.Add("rtt-ns", path.round_trip.smoothed().ns());
  facts.Add("path-users", path.users);
  facts.Add("path-window", path.cc.window());
  facts.Add("path-under-way", path.under_way);
  facts.Add("path-waiting", path.waiting);
}

}  // namespace

void DescribeWork(const rc::Qp& qp, Time now, FactWriter& facts) {
  const rc::SendState& s = qp.send_state();
  facts.Add("unacked-requests", s.assigned - s.una);
  facts.Add("unacked-packets", s.sent_psn - s.una_psn);
  facts.Add("reads-under-way", s.reads_in_flight);
  facts.Add("una-psn", s.una_psn.value());
  facts.Add("msn", qp.responder().msn());
  facts.Add("retries-left", s.retries_left);
  facts.Add("rnr-retries-left", s.rnr_retries_left);
  facts.Add("rnr-waiting", s.rnr_waiting ? "yes" : "no");
  AddTimer(qp.NextDeadline(), now, facts);
  AddCounters(s.counters, facts);
  if (s.path != nullptr) AddPath(*s.path, facts);
}

void DescribeRequester(const rc::Qp& qp, Failure& failure) {
  const rc::SendState& s = qp.send_state();
  failure.has_requester = true;
  failure.psn = s.una_psn.value();
  failure.retries = s.config.retry_count;
  failure.rnr_retries = s.config.rnr_retry;
  failure.timeout = s.config.timeout;
  if (s.path != nullptr) failure.answered_at = s.path->answered_at;
  failure.timeouts = s.counters.timeouts;
  failure.sequence_naks = s.counters.sequence_naks;
  failure.rnr_naks = s.counters.rnr_naks;
}

void DescribeWork(const IwarpConnection& connection, Time now,
                  FactWriter& facts) {
  const tcp::Connection& tcp = connection.endpoint().connection();
  AddTimer(tcp.deadline(), now, facts);
  if (tcp.state() <= tcp::State::kSynSent) return;
  const auto& sender = tcp.sender();
  facts.Add("unacked-bytes", sender.nxt() - sender.una());
  facts.Add("cwnd", sender.cc.window());
  facts.Add("mss", sender.mss());
  facts.Add("rtt-ns", sender.smoothed_round_trip().ns());
}

}  // namespace urnic
