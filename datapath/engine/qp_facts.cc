#include "datapath/engine/qp_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "datapath/engine/iwarp_connection.h"
#include "transport/rc/qp.h"
#include "transport/work/request.h"

namespace urnic {
namespace {

// Until it expires. Not there: the timer is not running.
void AddTimer(Time due, Time now, FactWriter& facts) {
  if (due.IsInfinite()) return;
  facts.Add("timer-us", std::max<int64_t>((due - now).ns(), 0) / 1000);
}

// "8-16us:120 16-32us:3": so many took so long. Not there: none was measured.
void AddRoundTrips(const cc::RoundTripCounts& trips, FactWriter& facts) {
  std::string text;
  for (size_t i = 0; i != trips.counts.size(); ++i) {
    if (trips.counts[i] == 0) continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(i == 0 ? 0 : uint64_t{1} << (i - 1));
    if (i + 1 != trips.counts.size())
      text += "-" + std::to_string(uint64_t{1} << i);
    text += "us:" + std::to_string(trips.counts[i]);
  }
  if (!text.empty()) facts.Add("round-trips", text);
}

void AddPath(const cc::SharedPath& path, FactWriter& facts) {
  if (path.round_trip.known())
    facts.Add("rtt-ns", path.round_trip.smoothed().ns());
  facts.Add("path-users", path.users);
  facts.Add("path-window", path.cc.window());
  facts.Add("path-under-way", path.under_way);
  facts.Add("path-waiting", path.waiting);
  AddRoundTrips(path.round_trips, facts);
}

void AddFault(const mem::MrTable& mrs, mem::MemFault fault,
              FailedAccess& access) {
  access.fault = fault;
  if (fault != mem::MemFault::kRange) return;
  const mem::MemoryRegion* region = mrs.Find(MrKey{access.key});
  access.region_address = region->iova;
  access.region_length = region->length;
}

// The first element of the list whose key is at fault. Without one, the memory
// cannot be accessed; in a list of several, it is not known which.
std::optional<FailedAccess> FailedElement(const rc::SendState& s,
                                          const urnic_sq_wqe& wqe,
                                          uint32_t index) {
  const bool is_inline = (wqe.flags & URNIC_SEND_INLINE) != 0;
  if (is_inline || wqe.num_sge > s.limits.max_sge_send) return std::nullopt;
  const uint32_t rights = Contains(kScatteringRequests, wqe.opcode)
                              ? mem::kLocalWrite
                              : mem::kLocalRead;
  for (uint32_t i = 0; i < wqe.num_sge; ++i) {
    const auto sge = s.sq.ReadSge<urnic_sq_wqe>(index, i);
    if (sge.length == 0) continue;
    const mem::Translation at = s.mrs->CheckLocal(MrKey{sge.lkey}, s.limits.pd,
                                                  sge.addr, sge.length, rights);
    if (at.ok() && wqe.num_sge != 1) continue;
    FailedAccess access{.element = i + 1,
                        .elements = wqe.num_sge,
                        .key = sge.lkey,
                        .address = sge.addr,
                        .length = sge.length};
    AddFault(*s.mrs, at.fault, access);
    return access;
  }
  return std::nullopt;
}

// What the peer was asked for, unless it was a send.
std::optional<FailedAccess> RemoteAccess(const rc::SendRecord& record,
                                         const urnic_sq_wqe& wqe) {
  const RequestKind* kind = FindRequest(record.opcode);
  if (kind == nullptr || kind->family == RequestFamily::kSend)
    return std::nullopt;
  const bool is_flush = kind->family == RequestFamily::kFlush;
  return FailedAccess{.operation = kind->name,
                      .key = wqe.rkey,
                      .address = wqe.remote_addr,
                      .length = is_flush ? wqe.swap : record.length};
}

// Of the send request whose completion was taken last.
std::optional<FailedAccess> AccessOfRequest(const rc::SendState& s,
                                            const Failure& failure) {
  const uint32_t index = s.head - 1;
  const auto wqe = s.sq.Read<urnic_sq_wqe>(index);
  // The program may already have posted another one in its place.
  if (wqe.wr_id != failure.wr_id) return std::nullopt;
  switch (failure.code) {
    case ErrorCode::kLocalProtection:
      return FailedElement(s, wqe, index);
    case ErrorCode::kRemoteAccess:
    case ErrorCode::kRemoteInvalidRequest:
    case ErrorCode::kRemoteOperation:
      return RemoteAccess(s.RecordOf(index), wqe);
    default:
      return std::nullopt;
  }
}

// Of the peer. None: it named no memory.
std::optional<FailedAccess> RefusedAccess(const rc::Qp& qp) {
  const rc::RemoteRange& range = qp.responder().refused();
  if (range.key == MrKey{}) return std::nullopt;
  FailedAccess access{
      .key = range.key.value, .address = range.address, .length = range.length};
  AddFault(*qp.send_state().mrs, qp.responder().FaultOfRefused(), access);
  return access;
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
  if (s.path == nullptr) return;
  AddPath(*s.path, facts);
  facts.Add("path-charged", s.charged);
  facts.Add("path-granted", s.granted);
  facts.Add("paced", s.pace_waiting ? "yes" : "no");
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
  if (failure.is_send) failure.access = AccessOfRequest(s, failure);
  if (failure.code == ErrorCode::kQpAccess) failure.access = RefusedAccess(qp);
}

namespace {

// What both sides agreed on.
void AddSetUp(const iwarp::SetUp& set_up, FactWriter& facts) {
  const mpa::Agreement& agreed = set_up.agreement();
  facts.Add("mpa-revision", agreed.revision);
  facts.Add("crc", agreed.crc ? "yes" : "no");
  facts.Add("sends-markers", agreed.send_markers ? "yes" : "no");
  facts.Add("receives-markers", agreed.receive_markers ? "yes" : "no");
  facts.Add("may-send", set_up.may_send() ? "yes" : "no");
}

void AddSender(const tcp::SenderCounters& counters, FactWriter& facts) {
  facts.Add("segments-sent", counters.segments);
  facts.Add("segments-resent", counters.retransmissions);
  facts.Add("bytes-acked", counters.bytes_acked);
  facts.Add("timeouts", counters.timeouts);
  facts.Add("fast-recoveries", counters.recoveries);
  facts.Add("undone-recoveries", counters.undone);
  facts.Add("loss-probes", counters.tail_probes);
  facts.Add("window-probes", counters.window_probes);
  facts.Add("ecn-reductions", counters.ecn_reductions);
}

}  // namespace

void DescribeTcp(const IwarpConnection& connection, Time now,
                 FactWriter& facts) {
  const iwarp::Endpoint& endpoint = connection.endpoint();
  const tcp::Connection& tcp = endpoint.connection();
  if (endpoint.set_up().agreed()) AddSetUp(endpoint.set_up(), facts);
  DescribeWork(connection, now, facts);
  AddSender(tcp.sender().counters(), facts);
  if (tcp.state() <= tcp::State::kSynSent) return;
  facts.Add("peer-window", tcp.sender().peer_window());
  facts.Add("window", tcp.receiver().window_bytes());
  facts.Add("frames-held", tcp.receiver().frames_kept());
  facts.Add("gaps", tcp.receiver().range_count());
  facts.Add("ecn", tcp.agreed().ecn ? "yes" : "no");
  facts.Add("sack", tcp.agreed().sack ? "yes" : "no");
  facts.Add("timestamps", tcp.agreed().timestamps ? "yes" : "no");
  facts.Add("peer-is-urnic", tcp.peer_is_urnic() ? "yes" : "no");
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
  AddRoundTrips(sender.round_trips(), facts);
}

}  // namespace urnic
