#pragma once

struct rte_mempool;

namespace urnic::sim {

// The buffers of all runs of a program; DPDK and the guard of
// memory (datapath/memory/guarded_memory.h) are started with it.
class Buffers {
 public:
  Buffers();
  rte_mempool* pool() const { return pool_; }
  unsigned lcore() const { return lcore_; }
  bool AllThere() const;

 private:
  rte_mempool* pool_;
  unsigned lcore_;
};

}  // namespace urnic::sim
