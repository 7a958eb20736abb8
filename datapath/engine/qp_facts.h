#pragma once

// What the queue pairs of each service have sent and received, as facts for
// people (ras/facts). Thread: the holder of the engine's token.

#include "ras/facts/facts.h"
#include "ras/metrics/counters.h"
#include "transport/base/time.h"

namespace urnic {

namespace rc {
class Qp;
}
namespace uc {
class Qp;
}
namespace ud {
class Qp;
}
class IwarpConnection;

void DescribeWork(const rc::Qp& qp, Time now, FactWriter& facts);
void DescribeWork(const uc::Qp& qp, Time now, FactWriter& facts);
void DescribeWork(const ud::Qp& qp, Time now, FactWriter& facts);
// Of a TCP connection, without those of its queue pair.
void DescribeWork(const IwarpConnection& connection, Time now,
                  FactWriter& facts);

void AddCounters(const RequesterCounters& counters, FactWriter& facts);

}  // namespace urnic
