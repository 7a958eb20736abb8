#include "bench/write_stream.h"

#include <cerrno>

namespace urnic::bench {

WriteStream::WriteStream(Endpoint& here, std::span<ibv_qp* const> qps,
                         const BenchOptions& o)
    : here_(here),
      qps_(qps),
      depth_(o.depth),
      cq_mod_(o.cq_mod),
      wrs_(o.post_list),
      sge_{reinterpret_cast<uint64_t>(here.memory()), o.size, here.lkey()} {
  for (size_t i = 0; i < wrs_.size(); ++i) {
    ibv_send_wr& wr = wrs_[i];
    wr.next = i + 1 < wrs_.size() ? &wrs_[i + 1] : nullptr;
    wr.sg_list = &sge_;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = here.peer().memory + here.half();
    wr.wr.rdma.rkey = here.peer().rkey;
  }
}

void WriteStream::PostList(ibv_qp* qp) {
  if (wrs_.size() % cq_mod_ != 0 || posted_ == 0) {
    uint64_t number = posted_;
    for (ibv_send_wr& wr : wrs_) {
      wr.send_flags = ++number % cq_mod_ == 0 ? IBV_SEND_SIGNALED : 0;
    }
  }
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(qp, wrs_.data(), &bad);
  if (errno != 0) Die("ibv_post_send");
  posted_ += wrs_.size();
}

void WriteStream::Advance() {
  while (posted_ - done_ + wrs_.size() <= depth_) {
    PostList(qps_[turn_of_]);
    if (++turn_of_ == qps_.size()) turn_of_ = 0;
  }
  ibv_wc wc[32];
  const int found = ibv_poll_cq(here_.cq(), 32, wc);
  if (found < 0) Die("ibv_poll_cq");
  for (int i = 0; i < found; ++i) {
    errno = 0;
    if (wc[i].status != IBV_WC_SUCCESS) Die(ibv_wc_status_str(wc[i].status));
  }
  done_ += static_cast<uint64_t>(found) * cq_mod_;
}

void WriteStream::Finish() {
  const auto left = static_cast<int>((posted_ - done_) / cq_mod_);
  here_.Await(left);
  done_ += static_cast<uint64_t>(left) * cq_mod_;
}

WriteRate StreamWrites(Endpoint& here, std::span<ibv_qp* const> qps,
                       const BenchOptions& o) {
  WriteStream stream(here, qps, o);
  const int64_t start = NowNs();
  const int64_t end = start + int64_t{o.seconds} * 1000000000;
  int64_t now = start;
  for (uint32_t turn = 0; now < end; ++turn) {
    stream.Advance();
    if (turn % 64 == 0) now = NowNs();
  }
  const double seconds = static_cast<double>(NowNs() - start) / 1e9;
  const uint64_t done = stream.done();
  stream.Finish();
  return {done, static_cast<double>(done) / seconds / 1e6};
}

}  // namespace urnic::bench
