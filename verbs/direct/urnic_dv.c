/* Each function calls the provider that has opened the device; see
 * provider_table.h. */

#include "verbs/direct/urnic_dv.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "verbs/direct/find_table.h"
#include "verbs/direct/provider_table.h"

typedef const struct urnic_dv_table* Table;

/* A process has one provider, and one more copy of it for each nested fork. */
enum { kProviders = 8 };
static struct {
  _Atomic(const void*) operation; /* of its devices; written last */
  Table table;
} known[kProviders];
static pthread_mutex_t known_mutex = PTHREAD_MUTEX_INITIALIZER;

static void Remember(const void* operation, Table table) {
  pthread_mutex_lock(&known_mutex);
  int i = 0;
  while (i < kProviders && known[i].operation != NULL &&
         known[i].operation != operation) {
    ++i;
  }
  if (i < kProviders && known[i].operation == NULL) {
    known[i].table = table;
    atomic_store_explicit(&known[i].operation, operation, memory_order_release);
  }
  pthread_mutex_unlock(&known_mutex);
}

static Table TableOf(struct ibv_context* context) {
  const void* const operation = (const void*)context->ops.poll_cq;
  for (int i = 0; i < kProviders; ++i) {
    const void* const at =
        atomic_load_explicit(&known[i].operation, memory_order_acquire);
    if (at == operation) return known[i].table;
    if (at == NULL) break;
  }
  const Table table = urnic_find_table(context, URNIC_DV_TABLE);
  if (table != NULL) Remember(operation, table);
  return table;
}

/* A function of the table that an older provider may not have. */
#define CALL(context, function, ...)                              \
  do {                                                            \
    const Table table = TableOf(context);                         \
    if (table != NULL &&                                          \
        table->bytes > offsetof(struct urnic_dv_table, function)) \
      return table->function(__VA_ARGS__);                        \
  } while (0)

struct ibv_qp* urnic_dv_create_window(struct ibv_pd* pd,
                                      const struct urnic_dv_window_attr* attr,
                                      struct urnic_dv_window* window) {
  CALL(pd->context, create_window, pd, attr, window);
  errno = ENOTSUP;
  return NULL;
}

int urnic_dv_add_peer(struct ibv_qp* window,
                      const struct urnic_dv_peer_attr* attr, uint32_t* peer) {
  CALL(window->context, add_peer, window, attr, peer);
  return ENOTSUP;
}

int urnic_dv_remove_peer(struct ibv_qp* window, uint32_t peer) {
  CALL(window->context, remove_peer, window, peer);
  return ENOTSUP;
}

int urnic_dv_join_group(struct ibv_qp* window,
                        const struct urnic_dv_group_attr* attr) {
  CALL(window->context, join_group, window, attr);
  return ENOTSUP;
}

int urnic_dv_leave_group(struct ibv_qp* window, const union ibv_gid* group,
                         uint32_t peer) {
  CALL(window->context, leave_group, window, group, peer);
  return ENOTSUP;
}

int urnic_dv_acquire_contexts(struct ibv_qp* window, uint32_t count,
                              uint64_t* contexts) {
  CALL(window->context, acquire_contexts, window, count, contexts);
  return ENOTSUP;
}

int urnic_dv_release_context(struct ibv_qp* window, uint64_t context) {
  CALL(window->context, release_context, window, context);
  return ENOTSUP;
}

int urnic_dv_register(struct ibv_context* context, uint32_t job, void* addr,
                      uint64_t bytes, unsigned access, uint64_t* pvo) {
  CALL(context, register_memory, context, job, addr, bytes, access, pvo);
  return ENOTSUP;
}

int urnic_dv_deregister(struct ibv_context* context, uint32_t job,
                        uint64_t pvo) {
  CALL(context, deregister, context, job, pvo);
  return ENOTSUP;
}

int urnic_dv_ring(struct ibv_qp* window) {
  CALL(window->context, ring, window);
  return ENOTSUP;
}

int urnic_dv_progress(struct ibv_qp* window) {
  CALL(window->context, progress, window);
  return ENOTSUP;
}

int urnic_dv_revoke(struct ibv_context* context, uint32_t job, uint64_t pvo) {
  CALL(context, revoke, context, job, pvo);
  return ENOTSUP;
}

int urnic_dv_revoke_job(struct ibv_context* context, uint32_t job) {
  CALL(context, revoke_job, context, job);
  return ENOTSUP;
}

int urnic_dv_read_snapshot(struct ibv_context* context, uint64_t* snapshot) {
  CALL(context, read_snapshot, context, snapshot);
  return ENOTSUP;
}

struct urnic_dv_handler* urnic_dv_create_handler(
    struct ibv_context* context, const struct urnic_dv_handler_attr* attr) {
  CALL(context, create_handler, context, attr);
  errno = ENOTSUP;
  return NULL;
}

int urnic_dv_destroy_handler(struct urnic_dv_handler* handler) {
  CALL(handler->context, destroy_handler, handler->context, handler);
  return ENOTSUP;
}

int urnic_dv_arm_handler(struct urnic_dv_handler* handler) {
  CALL(handler->context, arm_handler, handler->context, handler);
  return ENOTSUP;
}

int urnic_dv_disarm_handler(struct urnic_dv_handler* handler) {
  CALL(handler->context, disarm_handler, handler->context, handler);
  return ENOTSUP;
}

int urnic_dv_bind_handlers(struct ibv_qp* window,
                           const struct urnic_dv_wake_attr* attr) {
  CALL(window->context, bind_handlers, window, attr);
  return ENOTSUP;
}
