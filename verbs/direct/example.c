/* Two windows of RUD on one device: one writes 4000 bytes into the memory of
 * the other, and sends it a packet that says so. There is no upper layer:
 * nothing is sent again if it is lost.
 *
 *   cc -o example example.c $(pkg-config --cflags --libs urnic-dv)
 *   urnic run --port loop --addr 10.9.0.1/24 -- ./example
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <urnic/urnic_dv.h>

enum {
  kGidIndex = 3, /* the first IPv4 address, as RoCEv2 */
  kJob = 1,
  kBytes = 4000,
  kStride = 1024, /* bytes of a packet */
  kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
};

static void die(const char* what, int error) {
  fprintf(stderr, "%s: %s\n", what, strerror(error));
  exit(1);
}

struct end {
  struct ibv_qp* qp;
  struct urnic_dv_window at;
  uint32_t peer;    /* the other window */
  uint64_t context; /* of this window, for the one transfer */
  uint64_t pvo;
  char memory[kBytes];
};

static void open_end(struct end* end, struct ibv_pd* pd) {
  struct urnic_dv_window_attr attr = {.job = kJob};
  end->qp = urnic_dv_create_window(pd, &attr, &end->at);
  if (end->qp == NULL) die("urnic_dv_create_window", errno);
  int error = urnic_dv_acquire_contexts(end->qp, 1, &end->context);
  if (error != 0) die("urnic_dv_acquire_contexts", error);
  error = urnic_dv_register(pd->context, kJob, end->memory, kBytes, kAccess,
                            &end->pvo);
  if (error != 0) die("urnic_dv_register", error);
}

/* What two programs tell each other: address, number and key of a window. */
static void introduce(struct end* end, const struct end* other) {
  struct urnic_dv_peer_attr attr = {.window = other->at.number,
                                    .key = other->at.key};
  attr.ah.is_global = 1;
  attr.ah.port_num = 1;
  attr.ah.grh.sgid_index = kGidIndex;
  if (ibv_query_gid(other->qp->context, 1, kGidIndex, &attr.ah.grh.dgid) != 0)
    die("ibv_query_gid", errno);
  const int error = urnic_dv_add_peer(end->qp, &attr, &end->peer);
  if (error != 0) die("urnic_dv_add_peer", error);
}

/* The FIFO has room: each end posts two commands in all. */
static void post(struct end* end, const struct urnic_rud_send* command) {
  struct urnic_queue_indices* const indices = end->at.send_indices;
  end->at.sends[indices->producer & (end->at.send_entries - 1)] = *command;
  atomic_store_explicit((_Atomic uint32_t*)&indices->producer,
                        indices->producer + 1, memory_order_release);
  const int error = urnic_dv_ring(end->qp);
  if (error != 0) die("urnic_dv_ring", error);
}

/* Waits for the next entry of the receive FIFO. */
static struct urnic_rud_receive receive(struct end* end) {
  struct urnic_queue_indices* const indices = end->at.receive_indices;
  struct urnic_rud_receive* const entry =
      &end->at.receives[indices->consumer & (end->at.receive_entries - 1)];
  while (atomic_load_explicit((_Atomic uint8_t*)&entry->type,
                              memory_order_acquire) == 0) {
    const int error = urnic_dv_progress(end->qp);
    if (error != 0) die("urnic_dv_progress", error);
  }
  const struct urnic_rud_receive got = *entry;
  entry->type = 0;
  atomic_store_explicit((_Atomic uint32_t*)&indices->consumer,
                        indices->consumer + 1, memory_order_release);
  return got;
}

static struct urnic_rud_send command_to(const struct end* from,
                                        const struct end* to, uint8_t opcode) {
  return (struct urnic_rud_send){
      .opcode = opcode, .peer = from->peer, .window = to->at.number};
}

int main(void) {
  static struct end a, b;
  struct ibv_device** const list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) {
    fprintf(stderr, "no RDMA device: urnic run --port loop -- ./example\n");
    return 1;
  }
  struct ibv_context* const context = ibv_open_device(list[0]);
  if (context == NULL) die("ibv_open_device", errno);
  struct ibv_pd* const pd = ibv_alloc_pd(context);
  if (pd == NULL) die("ibv_alloc_pd", errno);
  open_end(&a, pd);
  open_end(&b, pd);
  introduce(&a, &b);
  introduce(&b, &a);

  memset(a.memory, 'x', kBytes);
  struct urnic_rud_send write = command_to(&a, &b, URNIC_RUD_WRITE);
  write.notify = URNIC_RUD_NOTIFY_SOURCE;
  write.local_context = a.context;
  write.context = b.context;
  write.tid = 1 << 8; /* the first transfer on these contexts */
  write.local_pvo = a.pvo;
  write.remote_pvo = b.pvo;
  write.bytes = kBytes;
  write.stride = kStride;
  write.packets = 0xf; /* four, all */
  post(&a, &write);
  const struct urnic_rud_receive done = receive(&a);
  if (done.type != URNIC_RUD_GOT_COMPLETION ||
      memcmp(a.memory, b.memory, kBytes) != 0) {
    fprintf(stderr, "entry of type %u, and not all bytes\n", done.type);
    return 1;
  }
  printf("wrote %d bytes in 4 packets\n", kBytes);

  struct urnic_rud_send packet = command_to(&a, &b, URNIC_RUD_PACKET);
  packet.flags = URNIC_RUD_INLINE_DATA;
  packet.bytes = sizeof("there they are");
  memcpy(packet.data, "there they are", packet.bytes);
  post(&a, &packet);
  const uint32_t slot = b.at.receive_indices->consumer;
  const struct urnic_rud_receive got = receive(&b);
  printf("a packet of %u bytes: %s\n", got.bytes,
         (const char*)b.at.receive_slots +
             (size_t)(slot & (b.at.receive_entries - 1)) * b.at.slot_bytes);

  urnic_dv_deregister(context, kJob, a.pvo);
  urnic_dv_deregister(context, kJob, b.pvo);
  ibv_destroy_qp(a.qp);
  ibv_destroy_qp(b.qp);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(list);
  return 0;
}
