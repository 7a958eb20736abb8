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
// Of a TCP connection, without those of its queue pair.
void DescribeWork(const IwarpConnection& connection, Time now,
                  FactWriter& facts);

// A TCP connection with the set-up of MPA, without its addresses.
void DescribeTcp(const IwarpConnection& connection, Time now,
                 FactWriter& facts);

// What only RC has of a requester.
void DescribeRequester(const rc::Qp& qp, Failure& failure);

// The queues of a queue pair of any transport.
struct WorkQueues {
  const QpLimits& limits;
  const mem::MrTable& mrs;
  const WorkQueueView& sq;
  uint32_t sq_head;  // the next request to complete
  const RecvQueue& rq;
};
// A work request has failed, which completes now: which operation it was, and
// its memory, as far as that is known.
void DescribeRequest(const WorkQueues& of, Failure& failure);
// An access of the peer was refused.
void DescribeRefused(const RefusedAccess& refused, const mem::MrTable& mrs,
                     Failure& failure);
// ... or an access of ours, by the peer.
void DescribeRefusedByPeer(const RefusedAccess& refused, Failure& failure);

// All counters of a list, as "rx-packets" for rx_packets.
template <typename Counters>
void AddCounters(const Counters& counters, FactWriter& facts) {
  ForEachCounter(counters, [&](std::string name, uint64_t value, const char*) {
    std::ranges::replace(name, '_', '-');
    facts.Add(name, value);
  });
}

}  // namespace urnic
