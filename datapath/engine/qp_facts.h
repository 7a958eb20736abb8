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

// Also which access has failed.
void DescribeRequester(const rc::Qp& qp, Failure& failure);

// All counters of a list, as "rx-packets" for rx_packets.
template <typename Counters>
void AddCounters(const Counters& counters, FactWriter& facts) {
  ForEachCounter(counters, [&](std::string name, uint64_t value, const char*) {
    std::ranges::replace(name, '_', '-');
    facts.Add(name, value);
  });
}

}  // namespace urnic
