#include "datapath/engine/qp_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datapath/engine/iwarp_connection.h"
#include "transport/rc/qp.h"
#include "transport/work/request.h"

namespace urnic {
namespace {

// Adds the time until the timer expires; no fact if it is not running.
void AddTimer(Time due, Time now, FactWriter& facts) {
  if (due.IsInfinite()) return;
  facts.Add("timer-us", std::max<int64_t>((due - now).ns(), 0) / 1000);
}

// "8-16us:120 16-32us:3": 120 round trips took 8 to 16 us. No fact if none was
// measured.
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

// The scatter/gather list of a request, and the domain for which its keys must
// be valid.
struct MemoryList {
  std::span<const urnic_sge> sges;
  uint32_t rights = 0;
  uint32_t pd = 0;
  const mem::MrTable& mrs;
};

mem::MemFault FaultOf(const MemoryList& list, const urnic_sge& sge) {
  return list.mrs
      .CheckLocal(MrKey{sge.lkey}, list.pd, sge.addr, sge.length, list.rights)
      .fault;
}

FailedAccess ElementOf(const MemoryList& list, size_t index,
                       mem::MemFault fault) {
  const urnic_sge& sge = list.sges[index];
  FailedAccess access{.element = static_cast<uint32_t>(index + 1),
                      .elements = static_cast<uint32_t>(list.sges.size()),
                      .key = sge.lkey,
                      .address = sge.addr,
                      .length = sge.length};
  AddFault(list.mrs, fault, access);
  return access;
}

// The first element whose key does not allow the access.
std::optional<FailedAccess> WrongElement(const MemoryList& list) {
  for (size_t i = 0; i != list.sges.size(); ++i) {
    if (list.sges[i].length == 0) continue;
    const mem::MemFault fault = FaultOf(list, list.sges[i]);
    if (fault != mem::MemFault::kNone) return ElementOf(list, i, fault);
  }
  return std::nullopt;
}

// If all keys allow the access, the memory itself cannot be accessed. In a list
// of several elements it is unknown which one.
std::optional<FailedAccess> FailedElement(const MemoryList& list) {
  if (const auto wrong = WrongElement(list)) return wrong;
  if (list.sges.size() != 1) return std::nullopt;
  return ElementOf(list, 0, mem::MemFault::kNone);
}

std::vector<urnic_sge> ListOf(const WorkQueues& of, const urnic_sq_wqe& wqe,
                              uint32_t index) {
  std::vector<urnic_sge> list;
  const bool is_inline = (wqe.flags & URNIC_SEND_INLINE) != 0;
  if (is_inline || wqe.num_sge > of.limits.max_sge_send) return list;
  for (uint32_t i = 0; i < wqe.num_sge; ++i)
    list.push_back(of.sq.ReadSge<urnic_sq_wqe>(index, i));
  return list;
}

void AddKeys(std::span<const urnic_sge> list, Failure& failure) {
  for (const urnic_sge& sge : list) failure.keys.push_back(sge.lkey);
}

// The memory of the peer that the request names; none for a send.
std::optional<FailedAccess> RemoteAccess(const RequestKind& kind,
                                         const urnic_sq_wqe& wqe,
                                         std::span<const urnic_sge> list) {
  if (kind.family == RequestFamily::kSend) return std::nullopt;
  FailedAccess access{.key = wqe.rkey, .address = wqe.remote_addr};
  if (kind.family == RequestFamily::kFlush) {
    access.length = wqe.swap;
  } else if ((wqe.flags & URNIC_SEND_INLINE) != 0) {
    access.length = wqe.inline_bytes;
  } else {
    for (const urnic_sge& sge : list) access.length += sge.length;
  }
  return access;
}

// Describes the send request that has just completed.
void DescribeSend(const WorkQueues& of, Failure& failure) {
  const uint32_t index = of.sq_head - 1;
  const auto wqe = of.sq.Read<urnic_sq_wqe>(index);
  const RequestKind* const kind = FindRequest(wqe.opcode);
  // The program may already have posted another request in its place.
  if (wqe.wr_id != failure.wr_id || kind == nullptr) return;
  failure.operation = kind->name;
  const std::vector<urnic_sge> list = ListOf(of, wqe, index);
  AddKeys(list, failure);
  const uint32_t rights = kind->scatters() ? mem::kLocalWrite : mem::kLocalRead;
  switch (failure.code) {
    case ErrorCode::kLocalProtection:
      failure.access = FailedElement({list, rights, of.limits.pd, of.mrs});
      return;
    case ErrorCode::kRemoteAccess:
    case ErrorCode::kRemoteInvalidRequest:
    case ErrorCode::kRemoteOperation:
      failure.access = RemoteAccess(*kind, wqe, list);
      return;
    default:
      return;
  }
}

// Describes the receive request that was taken last, if it is the failed one.
void DescribeReceive(const WorkQueues& of, Failure& failure) {
  failure.operation = "receive";
  if (of.rq.last_wr_id() != failure.wr_id || of.rq.ring() == nullptr) return;
  AddKeys(of.rq.last(), failure);
  const uint32_t pd = of.limits.xrc ? of.rq.ring()->pd() : of.limits.pd;
  // If all keys allow the access, another request with this wr_id may have
  // failed.
  if (failure.code == ErrorCode::kLocalProtection)
    failure.access = WrongElement({of.rq.last(), mem::kLocalWrite, pd, of.mrs});
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
  failure.psn = s.una_psn.value();
  failure.retries = s.config.retry_count;
  failure.rnr_retries = s.config.rnr_retry;
  failure.timeout = s.config.timeout;
  if (s.path != nullptr) failure.answered_at = s.path->answered_at;
  failure.timeouts = s.counters.timeouts;
  failure.sequence_naks = s.counters.sequence_naks;
  failure.rnr_naks = s.counters.rnr_naks;
}

void DescribeRequest(const WorkQueues& of, Failure& failure) {
  if (!failure.has_request) return;
  if (failure.is_send) {
    DescribeSend(of, failure);
  } else {
    DescribeReceive(of, failure);
  }
}

void DescribeRefusedByPeer(const RefusedAccess& refused, Failure& failure) {
  const RequestKind* const kind = FindRequest(refused.request);
  if (kind != nullptr) failure.operation = kind->name;
  const RemoteRange& range = refused.range;
  if (range.key == MrKey{} && range.length == 0) return;
  failure.access = FailedAccess{
      .key = range.key.value, .address = range.address, .length = range.length};
}

void DescribeRefused(const RefusedAccess& refused, const mem::MrTable& mrs,
                     Failure& failure) {
  DescribeRefusedByPeer(refused, failure);
  if (!failure.access.has_value()) return;
  FailedAccess& access = *failure.access;
  AddFault(mrs, refused.fault, access);
  access.by_queue_pair = refused.by_queue_pair;
  if (access.key != 0) failure.keys.push_back(access.key);
}

namespace {

// Adds what both sides have negotiated.
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
