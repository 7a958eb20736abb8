#pragma once

// For builds with ThreadSanitizer. DPDK's rings and pools order the accesses of
// one thread to a frame before those of the next. But they come from the
// distribution and are built without TSan, so these calls declare that order
// for each frame. In all other builds they do nothing.

struct rte_mbuf;

namespace urnic {

#if defined(__SANITIZE_THREAD__)

void FramesLeaveThread(rte_mbuf* const* frames, unsigned count);
void FramesEnterThread(rte_mbuf* const* frames, unsigned count);
// Enclose the destruction of a pool that has all its frames back. Some of these
// frames are in the cache of another thread: the pool counts them, but no call
// above has seen them.
void PoolEndBegins();
void PoolEndIsOver();
// The name of mempool operations that make both calls when one thread frees a
// frame and another allocates it.
const char* PoolOperations();

#else

inline void FramesLeaveThread(rte_mbuf* const*, unsigned) {}
inline void FramesEnterThread(rte_mbuf* const*, unsigned) {}
inline void PoolEndBegins() {}
inline void PoolEndIsOver() {}
inline const char* PoolOperations() { return nullptr; }  // DPDK's choice

#endif

}  // namespace urnic
