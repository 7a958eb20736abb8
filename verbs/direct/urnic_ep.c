/* Each function calls the endpoint's table; see endpoint_table.h. */

#include "verbs/direct/urnic_ep.h"

#include <errno.h>
#include <stddef.h>

#include "verbs/direct/endpoint_table.h"
#include "verbs/direct/find_table.h"

struct urnic_ep* urnic_ep_open(const struct urnic_ep_nic* nics, uint32_t count,
                               const struct urnic_ep_attr* attr) {
  if (count == 0) {
    errno = EINVAL;
    return NULL;
  }
  const struct urnic_ep_table* const table =
      urnic_find_table(nics[0].context, URNIC_EP_TABLE);
  if (table == NULL) {
    errno = ENOTSUP;
    return NULL;
  }
  return table->open(nics, count, attr);
}

int urnic_ep_close(struct urnic_ep* endpoint) {
  return endpoint->table->close(endpoint);
}

int urnic_ep_address(struct urnic_ep* endpoint, void* address, size_t* bytes) {
  return endpoint->table->address(endpoint, address, bytes);
}

int urnic_ep_add_peer(struct urnic_ep* endpoint, const void* address,
                      size_t bytes, uint32_t* peer) {
  return endpoint->table->add_peer(endpoint, address, bytes, peer);
}

int urnic_ep_remove_peer(struct urnic_ep* endpoint, uint32_t peer) {
  return endpoint->table->remove_peer(endpoint, peer);
}

int urnic_ep_register(struct urnic_ep* endpoint, void* addr, uint64_t bytes,
                      unsigned access, uint64_t* pvo) {
  return endpoint->table->register_memory(endpoint, addr, bytes, access, pvo);
}

int urnic_ep_deregister(struct urnic_ep* endpoint, uint64_t pvo) {
  return endpoint->table->deregister(endpoint, pvo);
}

int urnic_ep_write(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                   uint64_t remote_pvo, uint64_t bytes, uint64_t user) {
  return endpoint->table->write(endpoint, peer, local_pvo, remote_pvo, bytes,
                                user);
}

int urnic_ep_read(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                  uint64_t remote_pvo, uint64_t bytes, uint64_t user) {
  return endpoint->table->read(endpoint, peer, local_pvo, remote_pvo, bytes,
                               user);
}

int urnic_ep_send(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                  uint64_t bytes, uint64_t user) {
  return endpoint->table->send(endpoint, peer, local_pvo, bytes, user);
}

int urnic_ep_write_inline(struct urnic_ep* endpoint, uint32_t peer,
                          const void* data, uint32_t bytes, uint64_t remote_pvo,
                          uint64_t user) {
  return endpoint->table->write_inline(endpoint, peer, data, bytes, remote_pvo,
                                       user);
}

int urnic_ep_send_inline(struct urnic_ep* endpoint, uint32_t peer,
                         const void* data, uint32_t bytes, uint64_t user) {
  return endpoint->table->send_inline(endpoint, peer, data, bytes, user);
}

int urnic_ep_flush(struct urnic_ep* endpoint) {
  return endpoint->table->flush(endpoint);
}

uint32_t urnic_ep_poll(struct urnic_ep* endpoint, struct urnic_ep_event* events,
                       uint32_t most) {
  return endpoint->table->poll(endpoint, events, most);
}

int urnic_ep_query_paths(struct urnic_ep* endpoint, uint32_t peer,
                         struct urnic_ep_path* paths, uint32_t* count) {
  return endpoint->table->query_paths(endpoint, peer, paths, count);
}

int urnic_ep_query_stats(struct urnic_ep* endpoint,
                         struct urnic_ep_stats* stats) {
  return endpoint->table->query_stats(endpoint, stats);
}

int urnic_ep_wait(struct urnic_ep* endpoint, int timeout_ms) {
  if (endpoint->table->bytes <= offsetof(struct urnic_ep_table, wait))
    return ENOTSUP;
  return endpoint->table->wait(endpoint, timeout_ms);
}
