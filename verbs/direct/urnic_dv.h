#pragma once

/*
 * Direct verbs of uRNIC: what its devices can do beyond libibverbs. So far this
 * is RUD: reliable, unordered RDMA over unreliable datagrams (document C;
 * docs/design/0014-rud.md). Link with -lurnic-dv, or ask pkg-config for
 * urnic-dv.
 *
 * A window is a queue pair of type IBV_QPT_DRIVER on a RoCE device of uRNIC. It
 * supports ibv_query_qp(), ibv_destroy_qp() and asynchronous events;
 * ibv_modify_qp() to IBV_QPS_ERR closes it. ibv_post_send() does not work.
 * Instead, the program writes commands to the window's send FIFO, and reads
 * what has arrived from its receive FIFO (verbs/abi/rud_abi.h, which is
 * installed beside this header).
 *
 * The RNIC never retransmits. An upper layer in the program does: urnic_ep.h,
 * or one of its own.
 *
 * Errors. Functions that return int return 0 or an errno; those that return a
 * pointer set errno. ENOTSUP: not a device of uRNIC, or one without RUD. Others
 * are as in libibverbs: EINVAL, ENOMEM (a limit), EBUSY (the device recovers),
 * EIO (in a forked child). `urnic show error` explains the last one.
 *
 * Threads. Any thread may call any function at any time, but only one thread at
 * a time may use a FIFO.
 */

#include <infiniband/verbs.h>

#include "rud_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A new window. Zero it first: a zero in a field that a later version adds
 * means "as before". */
struct urnic_dv_window_attr {
  uint64_t comp_mask;       /* must be 0 */
  uint32_t job;             /* only windows of the same job can talk; not 0 */
  uint32_t send_entries;    /* rounded up to a power of two; 0: 256 */
  uint32_t receive_entries; /* the same; 0: 1024 */
  uint32_t slot_bytes;      /* payload that a slot holds, at most
                               URNIC_RUD_MAX_SLOT; 0: max_payload */
  void* qp_context;
};

/* What a program needs to use a window. The memory belongs to the window, which
 * unmaps it at its end. Entry i is at index (i & (entries - 1)); its slot is at
 * that index times slot_bytes. */
struct urnic_dv_window {
  uint32_t number; /* qp->qp_num */
  uint32_t job;
  uint32_t key; /* protection key: peers need it to send to the window */
  uint32_t max_payload; /* of a packet, in bytes; the largest stride */
  uint32_t slot_bytes;
  uint32_t send_entries;
  uint32_t receive_entries;
  int32_t gid_index; /* for peers: the first IPv4 address, else the first GID */
  struct urnic_rud_send* sends;
  struct urnic_queue_indices* send_indices;
  uint8_t* send_slots;
  struct urnic_rud_receive* receives;
  struct urnic_queue_indices* receive_indices;
  uint8_t* receive_slots;
};

/* Creates a window that works at once (state RTS). Each window has a new,
 * random protection key. NULL: errno. */
struct ibv_qp* urnic_dv_create_window(struct ibv_pd* pd,
                                      const struct urnic_dv_window_attr* attr,
                                      struct urnic_dv_window* window);

/* A window of a peer, or a group. */
struct urnic_dv_peer_attr {
  uint64_t comp_mask;    /* must be 0 */
  struct ibv_ah_attr ah; /* with a GID of RoCE v2 */
  /* A window: its number and key, as its program has told them. A group: 0, and
   * the key of urnic_dv_join_group(); ah.grh.dgid is the group's address. */
  uint32_t window;
  uint32_t key;
};

/* Allows the window to send to this peer and to receive from it. Packets from
 * other windows are dropped and counted. `peer` is for urnic_rud_send.peer. May
 * wait for the peer's MAC address, for at most three seconds (ETIMEDOUT).
 * EBUSY: it is already a peer. */
int urnic_dv_add_peer(struct ibv_qp* window,
                      const struct urnic_dv_peer_attr* attr, uint32_t* peer);
int urnic_dv_remove_peer(struct ibv_qp* window, uint32_t peer);

/* Groups: broadcast and multicast (document C). A source sends each packet once
 * to the address of a group. The members of the group are windows that have
 * joined it for this source. Each member has its own contexts and memory, so a
 * packet contains numbers that are the same for all members: an index into
 * `contexts`, and an offset from `pvo`. As everywhere in RUD, the upper layer
 * makes it reliable (verbs/abi/rud_abi.h): it retransmits what a member has
 * missed to this member alone.
 *
 * Packets to a group carry the group's key, but not the key of a context. So a
 * member that joins again with new contexts would accept old packets. To
 * prevent this, it first raises the tids of these contexts to that of the
 * source (URNIC_RUD_CANCEL), or all agree on a new key. */
struct urnic_dv_group_attr {
  uint64_t comp_mask;  /* must be 0 */
  union ibv_gid group; /* an IP multicast address; IPv4 as ::ffff:239.1.2.3 */
  uint32_t peer;       /* the source, which is a peer of the window */
  uint32_t key;        /* on which all members and the source have agreed */
  uint32_t count;      /* of contexts; 0: the group is for packets only */
  const uint64_t* contexts; /* of the window */
  uint64_t pvo;             /* memory of the group: offset 0, .. */
  uint64_t bytes;           /* .. and its length; accesses beyond are refused */
};
/* Tells the network, too (IGMP, MLD). EINVAL: not the address of a group, no
 * such peer, or a context that does not belong to the window. EBUSY: the window
 * is already in the group for this source. ENOMEM: too many groups or
 * contexts. */
int urnic_dv_join_group(struct ibv_qp* window,
                        const struct urnic_dv_group_attr* attr);
/* A window also leaves when the peer is removed or the window is destroyed. */
int urnic_dv_leave_group(struct ibv_qp* window, const union ibv_gid* group,
                         uint32_t peer);

/* Takes contexts (rCxt) from the RNIC's pool: all or none. ENOMEM: fewer are
 * free. They return to the pool with the window, if not before. */
int urnic_dv_acquire_contexts(struct ibv_qp* window, uint32_t count,
                              uint64_t* contexts);
/* Ends what the context is doing. Packets for it are dropped from now on. */
int urnic_dv_release_context(struct ibv_qp* window, uint64_t context);

/* Allows windows of this job, on all NICs of the process, to access this
 * memory. `access`: IBV_ACCESS_LOCAL_WRITE, _REMOTE_WRITE, _REMOTE_READ. `pvo`
 * refers to the first byte, and pvo + n to byte n. Pins nothing. EFAULT: the
 * memory is not mapped. */
int urnic_dv_register(struct ibv_context* context, uint32_t job, void* addr,
                      uint64_t bytes, unsigned access, uint64_t* pvo);
/* When it returns, the memory is no longer accessed. Fence transfers to the
 * memory before: a packet that arrives later makes the window fail. */
int urnic_dv_deregister(struct ibv_context* context, uint32_t job,
                        uint64_t pvo);

/* The same without waiting (the snapshot interface of document C). No access to
 * the memory can begin from now on, but one that has begun may continue until
 * urnic_dv_read_snapshot() returns zero. */
int urnic_dv_revoke(struct ibv_context* context, uint32_t job, uint64_t pvo);
/* All memory of the job. */
int urnic_dv_revoke_job(struct ibv_context* context, uint32_t job);
/* The NICs of the process that may still access revoked memory: a bit for
 * each. */
int urnic_dv_read_snapshot(struct ibv_context* context, uint64_t* snapshot);

/* Call this after writing commands and send_indices->producer. */
int urnic_dv_ring(struct ibv_qp* window);
/* Runs the RNIC on this thread, if no other thread does. Call it while you wait
 * for entries of the receive FIFO. EBUSY: the device has failed. */
int urnic_dv_progress(struct ibv_qp* window);

/* Sleeping (the interrupts of document C). A program that does not want to poll
 * binds its windows to a handler, and sleeps on the handler's descriptor in
 * poll(2) or in an event loop. A window wakes the handler when there is
 * something in the receive FIFO.
 *
 * A handler is ready or not. Arming makes it ready. Only a ready handler can be
 * woken: then its descriptor is readable, and it is not ready until it is armed
 * again. A window with several handlers wakes only one: the first ready one, in
 * the order of urnic_dv_wake_attr. If none is ready, it wakes the next one that
 * is armed. A program does not miss anything if it keeps this order:
 *
 *   for (;;) {
 *     read all entries of the receive FIFOs, and return them
 *     urnic_dv_arm_handler(handler);
 *     look once more: if there are entries, start again
 *     poll() on handler->fd
 *   }
 *
 * While a program sleeps, a thread of the RNIC does its work, so there is no
 * need for urnic_dv_progress(). A handler may be woken although the FIFO is
 * empty when the program looks. A window that fails wakes a ready handler; in
 * any case, ibv_get_async_event() reports the failure. */
struct urnic_dv_handler_attr {
  uint64_t comp_mask; /* must be 0 */
};
struct urnic_dv_handler {
  struct ibv_context* context;
  int fd; /* the handler's; readable from when it is woken until it is armed */
};
/* Creates a handler for one thread or event loop. `context` is used only to
 * report errors: windows of other devices may be bound to the handler. Destroy
 * it before this device is closed. NULL: errno; EMFILE or ENOMEM: no more
 * descriptors. */
struct urnic_dv_handler* urnic_dv_create_handler(
    struct ibv_context* context, const struct urnic_dv_handler_attr* attr);
/* EBUSY: a window is bound to it. EINVAL, also from the functions below: no
 * such handler. */
int urnic_dv_destroy_handler(struct urnic_dv_handler* handler);
/* Makes it ready, and its descriptor no longer readable. */
int urnic_dv_arm_handler(struct urnic_dv_handler* handler);
/* Makes it not ready. If it was woken before, its descriptor is still readable.
 * Nobody else is woken in its place, so the program must look at the FIFOs. */
int urnic_dv_disarm_handler(struct urnic_dv_handler* handler);

enum urnic_dv_wake_flags {
  /* Wakes a handler also when the first packet of a transfer with
   * URNIC_RUD_NOTIFY_TARGET arrives. The program wakes up while the rest is
   * still being placed: it polls for URNIC_RUD_GOT_TRANSFER, and calls
   * urnic_dv_progress() meanwhile. If packets are lost, that entry may never
   * come: poll only for a while, and sleep again. This is a hint: if no handler
   * is ready, none is woken later. */
  URNIC_DV_WAKE_EARLY = 1 << 0,
};
struct urnic_dv_wake_attr {
  uint64_t comp_mask; /* must be 0 */
  uint32_t flags;     /* urnic_dv_wake_flags */
  /* Wakes a handler when the receive FIFO has this many entries that the
   * program has not returned; 0: one. More than the FIFO holds means a full
   * FIFO. URNIC_DV_WAKE_NEVER: their number does not matter. */
  uint32_t entries;
  /* Wakes a handler when an entry has waited for this time; 0: never. */
  uint32_t delay_us;
  uint32_t count; /* of handlers; 0: the window wakes none */
  struct urnic_dv_handler* const* handlers;
};
#define URNIC_DV_WAKE_NEVER 0xffffffffu
#define URNIC_DV_MAX_HANDLERS 16
/* Replaces what was set before. Entries that are already in the FIFO count, and
 * may wake a handler at once. EINVAL: more than URNIC_DV_MAX_HANDLERS, the same
 * handler twice, an unknown flag. Destroying a window unbinds it. */
int urnic_dv_bind_handlers(struct ibv_qp* window,
                           const struct urnic_dv_wake_attr* attr);

#ifdef __cplusplus
}
#endif
