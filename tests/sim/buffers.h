#pragma once

#include <cstdint>

struct rte_mempool;

namespace urnic::sim {

// The buffers of all runs of a program, shared by their hosts; DPDK and the
// guard of memory (datapath/memory/guarded_memory.h) are started with it. A
// program may have several.
class Buffers {
 public:
  static constexpr uint32_t kCount = 8191;

  // An engine keeps up to a quarter of `count` for itself (frame_custody.h).
  explicit Buffers(uint32_t count = kCount);
  rte_mempool* pool() const { return pool_; }
  unsigned lcore() const { return lcore_; }
  bool AllThere() const;

 private:
  rte_mempool* pool_;
  unsigned lcore_;
};

}  // namespace urnic::sim
