/* What the examples share: a window with memory and a context, and functions
 * that use its FIFOs. An error ends the program. */

#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <urnic/urnic_dv.h>

enum {
  kGidIndex = 3, /* the first IPv4 address, as RoCEv2 */
  kJob = 1,
  kStride = 1024, /* bytes of a packet */
  kMemoryBytes = 65536,
  kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
};

struct end {
  struct ibv_qp* qp;
  struct urnic_dv_window at;
  uint64_t context;
  uint64_t pvo; /* of the memory */
  char memory[kMemoryBytes];
};

static inline void die(const char* what, int error) {
  fprintf(stderr, "%s: %s\n", what, strerror(error));
  exit(1);
}

static inline struct ibv_pd* open_device(void) {
  struct ibv_device** const list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) {
    fprintf(stderr, "no RDMA device: urnic run --port loop -- PROGRAM\n");
    exit(1);
  }
  struct ibv_context* const context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (context == NULL) die("ibv_open_device", errno);
  struct ibv_pd* const pd = ibv_alloc_pd(context);
  if (pd == NULL) die("ibv_alloc_pd", errno);
  return pd;
}

static inline void close_device(struct ibv_pd* pd) {
  struct ibv_context* const context = pd->context;
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
}

static inline uint64_t acquire(const struct end* end) {
  uint64_t context = 0;
  const int error = urnic_dv_acquire_contexts(end->qp, 1, &context);
  if (error != 0) die("urnic_dv_acquire_contexts", error);
  return context;
}

static inline void open_end(struct end* end, struct ibv_pd* pd) {
  struct urnic_dv_window_attr attr = {.job = kJob};
  end->qp = urnic_dv_create_window(pd, &attr, &end->at);
  if (end->qp == NULL) die("urnic_dv_create_window", errno);
  end->context = acquire(end);
  const int error = urnic_dv_register(pd->context, kJob, end->memory,
                                      kMemoryBytes, kAccess, &end->pvo);
  if (error != 0) die("urnic_dv_register", error);
}

static inline void close_end(struct end* end) {
  urnic_dv_deregister(end->qp->context, kJob, end->pvo);
  ibv_destroy_qp(end->qp);
}

/* Makes `other` a peer of `end`. Two programs would exchange what this needs:
 * the address, number and key of a window. Returns the number of the peer. */
static inline uint32_t introduce(const struct end* end,
                                 const struct end* other) {
  struct urnic_dv_peer_attr attr = {.window = other->at.number,
                                    .key = other->at.key};
  attr.ah.is_global = 1;
  attr.ah.port_num = 1;
  attr.ah.grh.sgid_index = kGidIndex;
  if (ibv_query_gid(other->qp->context, 1, kGidIndex, &attr.ah.grh.dgid) != 0)
    die("ibv_query_gid", errno);
  uint32_t peer = 0;
  const int error = urnic_dv_add_peer(end->qp, &attr, &peer);
  if (error != 0) die("urnic_dv_add_peer", error);
  return peer;
}

/* Does not check for room: no example posts more than the FIFO has entries. */
static inline void post(const struct end* end,
                        const struct urnic_rud_send* command) {
  struct urnic_queue_indices* const indices = end->at.send_indices;
  end->at.sends[indices->producer & (end->at.send_entries - 1)] = *command;
  atomic_store_explicit((_Atomic uint32_t*)&indices->producer,
                        indices->producer + 1, memory_order_release);
  const int error = urnic_dv_ring(end->qp);
  if (error != 0) die("urnic_dv_ring", error);
}

/* Takes the next entry of the receive FIFO, and copies its payload to `payload`
 * unless that is NULL. False: there is no entry. */
static inline int take(const struct end* end, struct urnic_rud_receive* got,
                       void* payload) {
  struct urnic_queue_indices* const indices = end->at.receive_indices;
  const uint32_t place = indices->consumer & (end->at.receive_entries - 1);
  struct urnic_rud_receive* const entry = &end->at.receives[place];
  if (atomic_load_explicit((_Atomic uint8_t*)&entry->type,
                           memory_order_acquire) == 0) {
    return 0;
  }
  *got = *entry;
  if (payload != NULL) {
    memcpy(payload, end->at.receive_slots + (size_t)place * end->at.slot_bytes,
           got->bytes);
  }
  entry->type = 0;
  atomic_store_explicit((_Atomic uint32_t*)&indices->consumer,
                        indices->consumer + 1, memory_order_release);
  return 1;
}

static inline void progress(const struct end* end) {
  const int error = urnic_dv_progress(end->qp);
  if (error != 0) die("urnic_dv_progress", error);
}

/* Waits for the next entry. If it is not of this type, the program ends. */
static inline struct urnic_rud_receive receive(const struct end* end,
                                               uint8_t type, void* payload) {
  struct urnic_rud_receive got;
  while (!take(end, &got, payload)) progress(end);
  if (got.type != type) {
    fprintf(stderr, "an entry of type %u, not %u\n", got.type, type);
    exit(1);
  }
  return got;
}

/* A packet for the receive FIFO of a peer. */
static inline struct urnic_rud_send packet_of(uint32_t peer,
                                              const struct end* to,
                                              const void* payload,
                                              uint32_t bytes) {
  struct urnic_rud_send packet = {.opcode = URNIC_RUD_PACKET,
                                  .flags = URNIC_RUD_INLINE_DATA,
                                  .peer = peer,
                                  .window = to->at.number,
                                  .bytes = bytes};
  memcpy(packet.data, payload, bytes);
  return packet;
}

/* All packets of a transfer. */
static inline uint64_t packets_of(uint32_t bytes) {
  const uint32_t count = bytes == 0 ? 1 : (bytes - 1) / kStride + 1;
  return ~(uint64_t)0 >> (URNIC_RUD_MAX_PACKETS - count);
}
