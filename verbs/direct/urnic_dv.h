#pragma once

/*
 * Direct verbs of uRNIC: what its devices have beyond libibverbs. So far that
 * is RUD, reliable and unordered RDMA over unreliable datagrams (document C;
 * docs/design/0014-rud.md). Link with -lurnic-dv, or ask pkg-config for
 * urnic-dv.
 *
 * A window is a queue pair of type IBV_QPT_DRIVER on a RoCE device of uRNIC.
 * ibv_query_qp(), ibv_destroy_qp() and asynchronous events work on it, and
 * ibv_modify_qp() to IBV_QPS_ERR closes it. Nothing is posted by
 * ibv_post_send(): the program writes commands to its send FIFO, and finds what
 * has arrived in its receive FIFO (verbs/abi/rud_abi.h, which is installed
 * beside this header).
 *
 * The RNIC never sends anything again: that is the work of an upper layer in
 * the program.
 *
 * Errors. Functions that return int return 0 or an errno; those that return a
 * pointer set errno. ENOTSUP: not a device of uRNIC, or one that has no RUD.
 * Others as in libibverbs: EINVAL, ENOMEM (a limit), EBUSY (the device
 * recovers), EIO (in a forked child). `urnic show error` says why.
 *
 * Threads. Any function at any time, but one thread at a time per FIFO.
 */

#include <infiniband/verbs.h>

#include "rud_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a new window. Zero it: fields that are added later mean "as before" then.
 */
struct urnic_dv_window_attr {
  uint64_t comp_mask;       /* must be 0 */
  uint32_t job;             /* who may talk to it: not 0 */
  uint32_t send_entries;    /* rounded up to a power of two; 0: 256 */
  uint32_t receive_entries; /* the same; 0: 1024 */
  uint32_t slot_bytes;      /* of a packet for a FIFO; 0: what the link takes;
                               at most URNIC_RUD_MAX_SLOT */
  void* qp_context;
};

/* What a program needs of a window. The memory belongs to the window, and is
 * unmapped with it. Entry i lies at (i & (entries - 1)), and its slot at that
 * times slot_bytes. */
struct urnic_dv_window {
  uint32_t number; /* qp->qp_num */
  uint32_t job;
  uint32_t key;         /* protection key: its peers must know it */
  uint32_t max_payload; /* the longest stride, in bytes */
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

/* Makes a window, which works at once (state RTS). Its protection key is random
 * each time. NULL: errno. */
struct ibv_qp* urnic_dv_create_window(struct ibv_pd* pd,
                                      const struct urnic_dv_window_attr* attr,
                                      struct urnic_dv_window* window);

/* A window of a peer, or a group. */
struct urnic_dv_peer_attr {
  uint64_t comp_mask;    /* must be 0 */
  struct ibv_ah_attr ah; /* with a GID of RoCE v2 */
  /* Its number and its key, as the peer has told them. A group, whose address
   * is ah.grh.dgid, has the number 0 and the key of urnic_dv_join_group(). */
  uint32_t window;
  uint32_t key;
};

/* From now on the window may send to that one, and takes its packets; those of
 * all others are dropped and counted. `peer` is for urnic_rud_send.peer. May
 * wait for the peer's MAC, for three seconds at most (ETIMEDOUT). EBUSY: it is
 * a peer already. */
int urnic_dv_add_peer(struct ibv_qp* window,
                      const struct urnic_dv_peer_attr* attr, uint32_t* peer);
int urnic_dv_remove_peer(struct ibv_qp* window, uint32_t peer);

/* Groups (the broadcast and multicast operations of document C). A source sends
 * each packet once, to the address of a group; its members are windows that
 * have joined it for this source. As their contexts and their memory differ,
 * packets name numbers that all members agree on: the place of a context in
 * `contexts`, and an offset from `pvo`. Reliability is the upper layer's, as
 * anywhere (verbs/abi/rud_abi.h): what a member has missed is sent to it alone.
 * Packets to a group carry the group's key, but no key of a context. So a
 * member that joins again with new contexts would take old packets: it first
 * raises their tids to the source's (URNIC_RUD_CANCEL), or all agree on a new
 * key. */
struct urnic_dv_group_attr {
  uint64_t comp_mask;  /* must be 0 */
  union ibv_gid group; /* an IP multicast address; IPv4 as ::ffff:239.1.2.3 */
  uint32_t peer;       /* the source, which is a peer of the window */
  uint32_t key;        /* that all members and the source have agreed on */
  uint32_t count;      /* of contexts; 0: the group is for packets only */
  const uint64_t* contexts; /* of the window */
  uint64_t pvo;             /* where offset 0 is .. */
  uint64_t bytes;           /* .. and how much of it; more is refused */
};
/* Tells the network, too (IGMP, MLD). EINVAL: not the address of a group, no
 * such peer, or a context that is not the window's. EBUSY: the window is in the
 * group for this source. ENOMEM: too many groups or contexts. */
int urnic_dv_join_group(struct ibv_qp* window,
                        const struct urnic_dv_group_attr* attr);
/* Removing the peer, or destroying the window, leaves the group, too. */
int urnic_dv_leave_group(struct ibv_qp* window, const union ibv_gid* group,
                         uint32_t peer);

/* Contexts (rCxt) from the RNIC's pool, all or none. ENOMEM: it has not so
 * many. They go back with the window at the latest. */
int urnic_dv_acquire_contexts(struct ibv_qp* window, uint32_t count,
                              uint64_t* contexts);
/* What the context was doing ends, and packets for it are dropped. */
int urnic_dv_release_context(struct ibv_qp* window, uint64_t context);

/* Lets windows of this job, on all NICs of the process, access this memory.
 * `access`: IBV_ACCESS_LOCAL_WRITE, _REMOTE_WRITE, _REMOTE_READ. `pvo` names
 * the first byte; add to it for those behind. Pins nothing. EFAULT: it is not
 * mapped. */
int urnic_dv_register(struct ibv_context* context, uint32_t job, void* addr,
                      uint64_t bytes, unsigned access, uint64_t* pvo);
/* When it returns, the memory is not touched any more. Fence its transfers
 * first: a late packet for it fails the window. */
int urnic_dv_deregister(struct ibv_context* context, uint32_t job,
                        uint64_t pvo);

/* The same without waiting (the snapshot interface of document C). What was
 * revoked cannot be accessed from now on, but an access that has begun may
 * still touch the memory, until urnic_dv_read_snapshot() gives zero. */
int urnic_dv_revoke(struct ibv_context* context, uint32_t job, uint64_t pvo);
/* All memory of the job. */
int urnic_dv_revoke_job(struct ibv_context* context, uint32_t job);
/* The NICs of the process that still touch memory which was revoked before, a
 * bit for each. */
int urnic_dv_read_snapshot(struct ibv_context* context, uint64_t* snapshot);

/* The program has written commands, and send_indices->producer. */
int urnic_dv_ring(struct ibv_qp* window);
/* Lets the RNIC run on this thread, if no other does: call it while waiting for
 * entries of the receive FIFO. EBUSY: the device has failed. */
int urnic_dv_progress(struct ibv_qp* window);

/* Sleeping (the interrupts of document C). Instead of polling, a program sleeps
 * in poll(2), or in an event loop, on the descriptor of a handler, until one of
 * the windows that the handler is bound to has something for it. A handler is
 * ready, or it is not: it is told once, and is then not ready until it is armed
 * again. If several handlers of a window are ready, the first of them is told,
 * in the order of urnic_dv_wake_attr; if none is, the next that is armed. So
 * nothing is lost if a program keeps this order:
 *
 *   for (;;) {
 *     take all entries of the receive FIFOs, and return them
 *     urnic_dv_arm_handler(handler);
 *     look once more: if there are entries, begin again
 *     poll() on handler->fd
 *   }
 *
 * While a program sleeps, a thread of the RNIC does its work, so the window
 * needs no urnic_dv_progress(). A handler may be told although the FIFO is
 * empty by the time it looks. A window that fails tells a handler that is
 * ready; ibv_get_async_event() says it in any case. */
struct urnic_dv_handler_attr {
  uint64_t comp_mask; /* must be 0 */
};
struct urnic_dv_handler {
  struct ibv_context* context;
  int fd; /* the handler's: readable when it was told, until it is armed */
};
/* Of one thread, or event loop. The device belongs to it only for errors: it
 * may be bound to windows of others. Destroy it before the device is closed.
 * NULL: errno; EMFILE or ENOMEM: no more descriptors. */
struct urnic_dv_handler* urnic_dv_create_handler(
    struct ibv_context* context, const struct urnic_dv_handler_attr* attr);
/* EBUSY: a window is bound to it. EINVAL, also in the functions below: it does
 * not exist. */
int urnic_dv_destroy_handler(struct urnic_dv_handler* handler);
/* Makes it ready, and its descriptor no longer readable. */
int urnic_dv_arm_handler(struct urnic_dv_handler* handler);
/* Makes it not ready. If it was told meanwhile, its descriptor is readable, and
 * nobody else will be told: it must look. */
int urnic_dv_disarm_handler(struct urnic_dv_handler* handler);

enum urnic_dv_wake_flags {
  /* Also when the first packet of a transfer with URNIC_RUD_NOTIFY_TARGET has
   * arrived, so that waking up and placing the rest overlap: the program polls
   * until URNIC_RUD_GOT_TRANSFER is there, and calls urnic_dv_progress()
   * meanwhile. It may never come, if packets are lost: poll for a while, and
   * sleep again. It is a hint, and tells only a handler that is ready. */
  URNIC_DV_WAKE_EARLY = 1 << 0,
};
struct urnic_dv_wake_attr {
  uint64_t comp_mask; /* must be 0 */
  uint32_t flags;     /* urnic_dv_wake_flags */
  /* Entries in the receive FIFO that the program has not returned: so many tell
   * a handler. 0: one. Not more than the FIFO holds. URNIC_DV_WAKE_NEVER: their
   * number does not count. */
  uint32_t entries;
  /* An entry waits no longer than this. 0: forever. */
  uint32_t delay_us;
  uint32_t count; /* of handlers; 0: the window tells nobody */
  struct urnic_dv_handler* const* handlers;
};
#define URNIC_DV_WAKE_NEVER 0xffffffffu
#define URNIC_DV_MAX_HANDLERS 16
/* Takes the place of what was set before. What the FIFO has already counts, and
 * may tell a handler at once. EINVAL: more than URNIC_DV_MAX_HANDLERS, one
 * twice, an unknown flag. A window that is destroyed is bound to none. */
int urnic_dv_bind_handlers(struct ibv_qp* window,
                           const struct urnic_dv_wake_attr* attr);

#ifdef __cplusplus
}
#endif
