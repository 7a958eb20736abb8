#include "tests/sim/buffers.h"

#include <cstdint>

#include "datapath/guest/eal.h"
#include "datapath/memory/guarded_memory.h"
#include "datapath/memory/packet_pool.h"
#include "datapath/port/port.h"
#include "transport/base/check.h"

namespace urnic::sim {

namespace {

constexpr uint16_t kRoom = 128 + kL2HeaderBytesMax + 4200;

}  // namespace

Buffers::Buffers(uint32_t count) {
  URNIC_CHECK(StartEal({.memory_mb = 160}).ok());
  auto pool = TakePool(kRoom, count);
  auto lcore = AllocateLcore();
  URNIC_CHECK(pool.ok() && lcore.ok());
  pool_ = *pool;
  lcore_ = *lcore;
  InstallMemoryGuard(nullptr, nullptr);
}

bool Buffers::AllThere() const { return PoolIsWhole(pool_); }

}  // namespace urnic::sim
