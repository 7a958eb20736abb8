#pragma once

#include <span>

#include "bench/verbs_endpoint.h"

namespace urnic::bench {

struct WriteRate {
  uint64_t ops;
  double mops;  // millions per second
};

// Writes of `size` bytes for `seconds`, in lists of `post_list`, for one queue
// pair after another, with `depth` under way in total. The queue pairs are
// connected to the peer of `here`, and complete to its queue. Every cq_mod-th
// write completes; with several queue pairs, cq_mod divides a list.
WriteRate StreamWrites(Endpoint& here, std::span<ibv_qp* const> qps,
                       const BenchOptions& options);

}  // namespace urnic::bench
