#pragma once

// What queue pairs have sent and received, as facts for people (ras/facts).
// Thread: the holder of the engine's token.

#include <algorithm>
#include <cstdint>
#include <string>

#include "datapath/engine/failures.h"
#include "ras/facts/facts.h"
#include "ras/metrics/counters.h"
#include "transport/base/time.h"
#include "transport/mem/mr_table.h"
#include "transport/work/recv_queue.h"
#include "transport/work/refused_access.h"
#include "transport/work/types.h"
#include "transport/work/work_queue.h"

namespace urnic {

namespace rc {
class Qp;
}
class IwarpConnection;

void DescribeWork(const rc::Qp& qp, Time now, FactWriter& facts);
// The facts of a TCP connection, without those of its queue pair.
void DescribeWork(const IwarpConnection& connection, Time now,
                  FactWriter& facts);

// Describes a TCP connection and the set-up of MPA, without its addresses.
void DescribeTcp(const IwarpConnection& connection, Time now,
                 FactWriter& facts);

// Adds the members of Failure that only an RC requester has.
void DescribeRequester(const rc::Qp& qp, Failure& failure);

// The queues of a queue pair of any transport.
struct WorkQueues {
  const QpLimits& limits;
  const mem::MrTable& mrs;
  const WorkQueueView& sq;
  uint32_t sq_head;  // the next request to complete
  const RecvQueue& rq;
};
// Describes the work request that has failed and completes now: its operation,
// and its memory if that is known.
void DescribeRequest(const WorkQueues& of, Failure& failure);
// Describes an access of the peer that this host has refused.
void DescribeRefused(const RefusedAccess& refused, const mem::MrTable& mrs,
                     Failure& failure);
// Describes an access of this host that the peer has refused.
void DescribeRefusedByPeer(const RefusedAccess& refused, Failure& failure);

// Adds all counters of a list, rx_packets as "rx-packets".
template <typename Counters>
void AddCounters(const Counters& counters, FactWriter& facts) {
  ForEachCounter(counters, [&](std::string name, uint64_t value, const char*) {
    std::ranges::replace(name, '_', '-');
    facts.Add(name, value);
  });
}

}  // namespace urnic
