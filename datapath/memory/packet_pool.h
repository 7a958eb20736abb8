#pragma once

// Pools of packet buffers. All memory is allocated when a pool is created, so
// the packet path never allocates.

#include <cstdint>

#include "absl/status/statusor.h"

struct rte_mempool;

namespace urnic {

// How many buffers the pool caches for each lcore id (TakeLcore()), outside of
// the shared ring.
inline constexpr uint32_t kPoolCache = 256;

// The number of buffers that a port needs never to run dry: for full rings, for
// the caches of both directions, and for what an engine holds back.
uint32_t PoolSize(uint32_t rx_ring, uint32_t tx_ring);

// A pool of `count` buffers with `data_room` bytes each, headroom included.
// Any thread. REQUIRES: EalUsable().
// RESOURCE_EXHAUSTED: the message says how much memory is missing.
absl::StatusOr<rte_mempool*> TakePool(uint16_t data_room, uint32_t count);

// True if all its buffers are back in the pool.
bool PoolIsWhole(rte_mempool* pool);

// Releases a pool. A buffer that is still in use (for example in the ring of a
// peer in this process) keeps the pool alive until it is freed; a later
// TakePool() reclaims the memory.
void ReturnPool(rte_mempool* pool);

}  // namespace urnic
