#include "datapath/memory/packet_pool.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datapath/guest/tsan_frames.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"

namespace urnic {
namespace {

constexpr uint32_t kEngineBuffers = 1024;

std::mutex g_mutex;
// Never destroyed: threads of ours outlive static objects.
std::vector<rte_mempool*>& Returned() {
  static auto* pools = new std::vector<rte_mempool*>;
  return *pools;
}

void FreeThoseThatAreWhole() {
  std::erase_if(Returned(), [](rte_mempool* pool) {
    if (!PoolIsWhole(pool)) return false;
    PoolEndBegins();
    rte_mempool_free(pool);
    PoolEndIsOver();
    return true;
  });
}

}  // namespace

uint32_t PoolSize(uint32_t rx_ring, uint32_t tx_ring) {
  // One less than a power of two fits the pool's own ring best.
  const uint32_t need = rx_ring + tx_ring + 2 * kPoolCache + kEngineBuffers;
  return std::bit_ceil(need + 1) - 1;
}

absl::StatusOr<rte_mempool*> TakePool(uint16_t data_room, uint32_t count) {
  static std::atomic<uint32_t> number;
  char name[32];
  std::snprintf(name, sizeof(name), "urnic_pool_%u", number.fetch_add(1));
  std::lock_guard lock(g_mutex);
  FreeThoseThatAreWhole();
  rte_mempool* pool = rte_pktmbuf_pool_create_by_ops(
      name, count, kPoolCache, 0, data_room, SOCKET_ID_ANY, PoolOperations());
  if (pool == nullptr) {
    const uint64_t mb =
        (uint64_t{count} * (data_room + sizeof(rte_mbuf) + 64) >> 20) + 1;
    return Refusal(ErrorCode::kNoMemory,
                   absl::StrCat("packet buffers: ", count, " of ", data_room,
                                " bytes need ", mb, " MB of DPDK memory: ",
                                rte_strerror(rte_errno)));
  }
  return pool;
}

bool PoolIsWhole(rte_mempool* pool) { return rte_mempool_full(pool) != 0; }

void ReturnPool(rte_mempool* pool) {
  URNIC_CHECK(pool != nullptr);
  std::lock_guard lock(g_mutex);
  Returned().push_back(pool);
  FreeThoseThatAreWhole();
}

}  // namespace urnic
