#pragma once

#include <span>

#include "bench/verbs_endpoint.h"

namespace urnic::bench {

struct WriteRate {
  uint64_t ops;
  double mops;  // millions per second
};

// Writes of `size` bytes for `seconds`, in lists of `post_list` for one queue
// pair after the other, with `depth` under way in all. They are connected to
// the peer of `here`, and complete to its queue; every cq_mod-th write does:
// with several queue pairs that divides a list.
WriteRate StreamWrites(Endpoint& here, std::span<ibv_qp* const> qps,
                       const BenchOptions& options);

}  // namespace urnic::bench
