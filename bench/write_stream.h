#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/verbs_endpoint.h"

namespace urnic::bench {

struct WriteRate {
  uint64_t ops;
  double mops;  // millions per second
};

// Keeps `depth` writes of `size` bytes under way, in lists of `post_list`, for
// one queue pair after another. The queue pairs are connected to the peer of
// `here`, and complete to its queue. Every cq_mod-th write completes; with
// several queue pairs, cq_mod divides a list.
class WriteStream {
 public:
  WriteStream(Endpoint& here, std::span<ibv_qp* const> qps,
              const BenchOptions& options);
  WriteStream(const WriteStream&) = delete;
  WriteStream& operator=(const WriteStream&) = delete;

  // Posts what there is room for, and polls once.
  void Advance();
  // Writes that have completed.
  uint64_t done() const { return done_; }
  // Spins until all have completed.
  void Finish();

 private:
  void PostList(ibv_qp* qp);

  Endpoint& here_;
  std::span<ibv_qp* const> qps_;
  uint32_t depth_;
  uint32_t cq_mod_;
  std::vector<ibv_send_wr> wrs_;  // a list, posted again and again
  ibv_sge sge_;
  size_t turn_of_ = 0;  // of which queue pair
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
};

// Such a stream for `seconds`.
WriteRate StreamWrites(Endpoint& here, std::span<ibv_qp* const> qps,
                       const BenchOptions& options);

}  // namespace urnic::bench
