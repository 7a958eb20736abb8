#include "bench/write_stream.h"

#include <cerrno>
#include <cstring>
#include <vector>

namespace urnic::bench {
namespace {

// A list of writes that is posted again and again; every cq_mod-th write is
// signaled.
class WriteList {
 public:
  WriteList(Endpoint& from, const BenchOptions& o)
      : cq_mod_(o.cq_mod), wrs_(o.post_list), sge_{} {
    sge_ = {reinterpret_cast<uint64_t>(from.memory()), o.size, from.lkey()};
    for (size_t i = 0; i < wrs_.size(); ++i) {
      ibv_send_wr& wr = wrs_[i];
      std::memset(&wr, 0, sizeof(wr));
      wr.next = i + 1 < wrs_.size() ? &wrs_[i + 1] : nullptr;
      wr.sg_list = &sge_;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.wr.rdma.remote_addr = from.peer().memory + from.half();
      wr.wr.rdma.rkey = from.peer().rkey;
    }
  }
  WriteList(const WriteList&) = delete;
  WriteList& operator=(const WriteList&) = delete;

  void Post(ibv_qp* qp) {
    if (wrs_.size() % cq_mod_ != 0 || posted_ == 0) {
      for (ibv_send_wr& wr : wrs_) {
        wr.send_flags = ++posted_ % cq_mod_ == 0 ? IBV_SEND_SIGNALED : 0;
      }
    }
    ibv_send_wr* bad = nullptr;
    errno = ibv_post_send(qp, wrs_.data(), &bad);
    if (errno != 0) Die("ibv_post_send");
  }

 private:
  uint32_t cq_mod_;
  uint64_t posted_ = 0;
  std::vector<ibv_send_wr> wrs_;
  ibv_sge sge_;
};

}  // namespace

WriteRate StreamWrites(Endpoint& here, std::span<ibv_qp* const> qps,
                       const BenchOptions& o) {
  WriteList list(here, o);
  size_t turn_of = 0;
  uint64_t posted = 0;
  uint64_t done = 0;
  ibv_wc wc[32];
  const int64_t start = NowNs();
  const int64_t end = start + int64_t{o.seconds} * 1000000000;
  int64_t now = start;
  for (uint32_t turn = 0; now < end; ++turn) {
    while (posted - done + o.post_list <= o.depth) {
      list.Post(qps[turn_of]);
      if (++turn_of == qps.size()) turn_of = 0;
      posted += o.post_list;
    }
    const int found = ibv_poll_cq(here.cq(), 32, wc);
    if (found < 0) Die("ibv_poll_cq");
    for (int i = 0; i < found; ++i) {
      errno = 0;
      if (wc[i].status != IBV_WC_SUCCESS) Die(ibv_wc_status_str(wc[i].status));
    }
    done += static_cast<uint64_t>(found) * o.cq_mod;
    if (turn % 64 == 0) now = NowNs();
  }
  const double seconds = static_cast<double>(NowNs() - start) / 1e9;
  const WriteRate rate = {done, static_cast<double>(done) / seconds / 1e6};
  here.Await(static_cast<int>((posted - done) / o.cq_mod));
  return rate;
}

}  // namespace urnic::bench
