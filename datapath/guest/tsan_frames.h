#pragma once

// For builds with ThreadSanitizer. DPDK's rings and pools order what one
// thread did to a frame before what the next one does, but they are the
// distribution's, built without it: these calls say so, for each frame. In all
// other builds they are nothing.

struct rte_mbuf;

namespace urnic {

#if defined(__SANITIZE_THREAD__)

void FramesLeaveThread(rte_mbuf* const* frames, unsigned count);
void FramesEnterThread(rte_mbuf* const* frames, unsigned count);
// Around the end of a pool that has all its frames back: some lie in the cache
// of another thread, which the pool counts and no call above has seen.
void PoolEndBegins();
void PoolEndIsOver();
// The name of mempool operations that do both where a frame is freed by one
// thread and allocated by another.
const char* PoolOperations();

#else

inline void FramesLeaveThread(rte_mbuf* const*, unsigned) {}
inline void FramesEnterThread(rte_mbuf* const*, unsigned) {}
inline void PoolEndBegins() {}
inline void PoolEndIsOver() {}
inline const char* PoolOperations() { return nullptr; }  // DPDK's choice

#endif

}  // namespace urnic
