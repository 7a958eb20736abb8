#pragma once

/*
 * Endpoints: reliable, unordered RDMA between programs, over RUD
 * (docs/design/0014-rud.md).
 *
 * A program opens an endpoint and adds the endpoints of other programs as its
 * peers. With them it exchanges writes and reads of any size, and messages of
 * up to 16 MB, over one or several NICs and network paths. These may lose and
 * reorder packets: the endpoint retransmits what was lost. It is the upper
 * layer of RUD. Below it is one window per NIC (urnic_dv.h, which also explains
 * linking and errors).
 *
 *   urnic_ep_open()
 *   urnic_ep_address(): give this address to the peers, by any means
 *   urnic_ep_add_peer(): add a peer by its address; both ends must do so
 *   urnic_ep_register(): returns a PVO, by which all refer to the memory
 *   urnic_ep_write(), _read(), _send() ... urnic_ep_poll(): events
 *
 * Operations complete in any order, and messages are delivered in any order.
 * Each operation that was accepted ends with one event. A write is complete
 * when its bytes are in the peer's memory, a read when they are in ours, and a
 * message when all of it is in the peer's receive FIFO. The peer's program gets
 * each message once and whole. An operation that fails may have had a part of
 * its effect.
 *
 * An access to memory that is not registered harms more than its operation:
 *
 * - Our memory. If the RNIC may not access it, our window fails
 *   (URNIC_EP_BAD_LOCAL).
 * - Memory of the peer that was deregistered, or a remote PVO that was never
 *   valid. The window of the peer fails, as in document C, and cannot tell us.
 *   The peer is lost for us (URNIC_EP_PEER_LOST), and we are lost for the peer.
 *   Small writes in the same packet fail, too. If the PVO's table does not
 *   belong to the job, as after the job's last registration has ended, the
 *   peer's RNIC drops the packets silently instead. Then the operation does not
 *   end before the peer is removed or lost.
 * - Memory of the peer without the rights, or an access that crosses the end of
 *   a registration. Only the operation fails (URNIC_EP_REFUSED). But each
 *   packet is checked alone, and one that lies wholly behind the last page of
 *   the registration counts as an access to memory that was never registered.
 *
 * So make sure that all transfers have ended before you deregister memory. The
 * PVOs of operations without bytes are not checked.
 *
 * Thread: one at a time may use an endpoint. It must poll, or sleep in
 * urnic_ep_wait() and then poll: nothing is sent or received otherwise, and the
 * senders have to wait.
 */

#include "urnic_dv.h"

#ifdef __cplusplus
extern "C" {
#endif

struct urnic_ep;

struct urnic_ep_nic {
  struct ibv_context* context;
  int gid_index; /* -1: the first IPv4 address; without one, the first GID */
};

#define URNIC_EP_LEAST_ENTRIES 16u

/* Zero it first. 0 means the default, but `job` has none. */
struct urnic_ep_attr {
  uint64_t comp_mask;  /* must be 0 */
  uint32_t job;        /* only endpoints of the same job can talk; not 0 */
  uint32_t operations; /* outstanding at a time, up to 2^20; 0: 4096 */
  uint32_t paths;      /* UDP flows between two NICs, 1 to 8; 0: 4 */
  /* Units in flight to a peer, up to 4096; 0: 64. The peer grants them, perhaps
   * fewer. A unit is up to 16 packets of one operation, or one packet of small
   * writes. So this is also the limit for messages of one packet. */
  uint32_t lanes;
  /* Of each window, at least URNIC_EP_LEAST_ENTRIES; 0: 1024 and 4096. */
  uint32_t send_entries;
  uint32_t receive_entries;
  uint32_t dead_after_ms; /* a path is dead after this silence; 0: 50 */
  uint32_t lost_after_ms; /* a peer is lost without a path; 0: 30 000 */
};

/* Opens a window on each of at most 8 NICs. The windows belong to the endpoint.
 * NULL: errno. */
struct urnic_ep* urnic_ep_open(const struct urnic_ep_nic* nics, uint32_t count,
                               const struct urnic_ep_attr* attr);
/* Outstanding operations end without an event. Peers are told: they count the
 * endpoint as lost (URNIC_EP_PEER_LOST) after twice their dead_after_ms. A peer
 * that this message does not reach does so after its lost_after_ms. */
int urnic_ep_close(struct urnic_ep* endpoint);

/* What peers need to add this endpoint. `bytes`: room in, length out. ENOSPC:
 * `bytes` is how much is needed, at most URNIC_EP_ADDRESS_BYTES. */
#define URNIC_EP_ADDRESS_BYTES 512
int urnic_ep_address(struct urnic_ep* endpoint, void* address, size_t* bytes);
/* EINVAL: not an address. If none of our NICs has a route to one of the peer,
 * the error that urnic_dv_add_peer() gave our first NIC: ENETUNREACH, ETIMEDOUT
 * (after three seconds), ENOMEM, or EBUSY: it is already a peer. An address
 * does not contain the job: operations with a peer of another job end with
 * URNIC_EP_PEER_LOST. */
int urnic_ep_add_peer(struct urnic_ep* endpoint, const void* address,
                      size_t bytes, uint32_t* peer);
/* Operations with the peer end with URNIC_EP_CANCELED. The peer is told, as by
 * urnic_ep_close(). To talk again, both ends must remove and add each other.
 * EINVAL: no such peer. */
int urnic_ep_remove_peer(struct urnic_ep* endpoint, uint32_t peer);

/* As urnic_dv_register() and urnic_dv_deregister(), for the endpoint's job. */
int urnic_ep_register(struct urnic_ep* endpoint, void* addr, uint64_t bytes,
                      unsigned access, uint64_t* pvo);
int urnic_ep_deregister(struct urnic_ep* endpoint, uint64_t pvo);

/* These begin an operation. Its event returns `user`. Until then, the memory
 * belongs to the endpoint. Nothing is sent before the next urnic_ep_flush() or
 * urnic_ep_poll(). The clock is read once for all operations that leave
 * together, when the first of them begins.
 * EAGAIN: too many outstanding operations; poll. EMSGSIZE: a message longer
 * than the peer can take (16 MB), or more inline bytes than URNIC_RUD_INLINE.
 * EINVAL: no such peer. EHOSTUNREACH: the peer is lost, or all our windows have
 * failed; in that case open another endpoint. */
int urnic_ep_write(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                   uint64_t remote_pvo, uint64_t bytes, uint64_t user);
int urnic_ep_read(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                  uint64_t remote_pvo, uint64_t bytes, uint64_t user);
int urnic_ep_send(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                  uint64_t bytes, uint64_t user);
/* At most URNIC_RUD_INLINE bytes, which are copied at once. Writes that leave
 * together for the same peer share packets: 32 of them cost a fraction of 32
 * that are flushed one by one. */
int urnic_ep_write_inline(struct urnic_ep* endpoint, uint32_t peer,
                          const void* data, uint32_t bytes, uint64_t remote_pvo,
                          uint64_t user);
int urnic_ep_send_inline(struct urnic_ep* endpoint, uint32_t peer,
                         const void* data, uint32_t bytes, uint64_t user);
/* Sends the operations that have begun. */
int urnic_ep_flush(struct urnic_ep* endpoint);

enum urnic_ep_event_type {
  URNIC_EP_DONE = 0,    /* an operation has ended */
  URNIC_EP_MESSAGE = 1, /* a message from a peer */
};

enum urnic_ep_event_status {
  URNIC_EP_OK = 0,
  URNIC_EP_BAD_LOCAL = 4,     /* our RNIC may not access our memory */
  URNIC_EP_REFUSED = 5,       /* we may not access the peer's memory */
  URNIC_EP_WINDOW_FAILED = 6, /* the windows of all our NICs have failed */
  /* The peer has closed its endpoint or removed us, or no path to it worked for
   * lost_after_ms: perhaps its windows have failed. */
  URNIC_EP_PEER_LOST = 7,
  URNIC_EP_CANCELED = 8, /* the peer was removed */
  URNIC_EP_INVALID = 9,  /* the RNIC refuses the command */
};

struct urnic_ep_event {
  uint8_t type;   /* enum urnic_ep_event_type */
  uint8_t status; /* enum urnic_ep_event_status */
  uint16_t reserved;
  uint32_t peer;
  uint64_t user;  /* done: as given to the operation */
  uint64_t bytes; /* of the operation, or of the message */
  /* Message: its bytes, valid until the next poll. A message that fits into one
   * packet (max_payload of struct urnic_dv_window at the end with the smaller
   * one) is in the receive FIFO, aligned to 64 bytes. Longer ones are assembled
   * in memory that is aligned as by malloc(). */
  const void* data;
};

/* Runs the RNICs and the endpoint, and fills at most `most` events. Returns how
 * many. If a device fails, operations that only this device could execute end
 * with URNIC_EP_WINDOW_FAILED. */
uint32_t urnic_ep_poll(struct urnic_ep* endpoint, struct urnic_ep_event* events,
                       uint32_t most);

/* A path: one UDP flow between one of our NICs and one of a peer's. */
struct urnic_ep_path {
  uint8_t nic;      /* ours: its index in urnic_ep_open() */
  uint8_t peer_nic; /* the peer's: its index there */
  uint8_t path;     /* between these two, from 0 */
  uint8_t is_dead;
  uint32_t round_trip_ns; /* smoothed; 0: unknown */
  uint32_t window;        /* packets that may be in flight */
  uint32_t under_way;     /* packets in flight */
  uint64_t units;         /* sent on it, with retransmissions and probes */
};
/* `count`: room in; number of paths out. EINVAL: no such peer. */
int urnic_ep_query_paths(struct urnic_ep* endpoint, uint32_t peer,
                         struct urnic_ep_path* paths, uint32_t* count);

/* Since the endpoint was opened. */
struct urnic_ep_stats {
  uint64_t units;         /* complete */
  uint64_t commands;      /* posted */
  uint64_t shared;        /* writes that joined the packet of another one */
  uint64_t packets_again; /* retransmitted */
  uint64_t time_outs;
  uint64_t asked;      /* state requests, because something seemed lost */
  uint64_t early;      /* of these, nothing was lost */
  uint64_t dead_paths; /* times that a path died */
  uint64_t moved;      /* units that another NIC has taken over */
};
int urnic_ep_query_stats(struct urnic_ep* endpoint,
                         struct urnic_ep_stats* stats);

/* Sleeps until urnic_ep_poll() may have something to do. That may be work of
 * the endpoint that gives the program no event. Call this when a poll has
 * returned nothing, and poll after it:
 *
 *   while (urnic_ep_poll(endpoint, &event, 1) == 0)
 *     urnic_ep_wait(endpoint, -1);
 *
 * ETIMEDOUT: timeout_ms have passed; negative: wait forever. EINTR: a signal.
 * EMFILE or ENOMEM: no descriptor is left; the first call needs one. */
int urnic_ep_wait(struct urnic_ep* endpoint, int timeout_ms);

#ifdef __cplusplus
}
#endif
