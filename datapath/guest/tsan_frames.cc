#include "datapath/guest/tsan_frames.h"

#if defined(__SANITIZE_THREAD__)

#include <rte_mempool.h>

#include <cstdio>
#include <cstring>

#include "transport/base/check.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace urnic {
namespace {

const rte_mempool_ops* g_base;

int Enqueue(rte_mempool* pool, void* const* objects, unsigned count) {
  for (unsigned i = 0; i < count; ++i) __tsan_release(objects[i]);
  return g_base->enqueue(pool, objects, count);
}

int Dequeue(rte_mempool* pool, void** objects, unsigned count) {
  const int result = g_base->dequeue(pool, objects, count);
  for (unsigned i = 0; result == 0 && i < count; ++i)
    __tsan_acquire(objects[i]);
  return result;
}

const rte_mempool_ops* FindBase() {
  for (unsigned i = 0; i < rte_mempool_ops_table.num_ops; ++i) {
    const rte_mempool_ops* ops = rte_mempool_get_ops(static_cast<int>(i));
    if (std::strcmp(ops->name, "ring_mp_mc") == 0) return ops;
  }
  return nullptr;
}

}  // namespace

void FramesLeaveThread(rte_mbuf* const* frames, unsigned count) {
  for (unsigned i = 0; i < count; ++i) __tsan_release(frames[i]);
}

void FramesEnterThread(rte_mbuf* const* frames, unsigned count) {
  for (unsigned i = 0; i < count; ++i) __tsan_acquire(frames[i]);
}

void PoolEndBegins() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
void PoolEndIsOver() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }

const char* PoolOperations() {
  static rte_mempool_ops operations = [] {
    g_base = FindBase();
    URNIC_CHECK(g_base != nullptr);
    rte_mempool_ops made = *g_base;
    std::snprintf(made.name, sizeof(made.name), "urnic_tsan");
    made.enqueue = Enqueue;
    made.dequeue = Dequeue;
    // An operation that would bypass these two is left out.
    made.dequeue_contig_blocks = nullptr;
    URNIC_CHECK(rte_mempool_register_ops(&made) >= 0);
    return made;
  }();
  return operations.name;
}

}  // namespace urnic

#endif
