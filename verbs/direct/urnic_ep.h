#pragma once

/*
 * Reliable, unordered RDMA between programs, over RUD
 * (docs/design/0014-rud.md): writes, reads and messages of any size, over one
 * or several NICs and paths, which may lose and reorder packets. This is the
 * upper layer; the windows below it are those of urnic_dv.h, which see for
 * linking and errors.
 *
 *   urnic_ep_open() ... urnic_ep_address(): give it to the peers, by any means
 *   urnic_ep_add_peer(): theirs; both ends must do so
 *   urnic_ep_register(): memory; its PVO names it, here and to peers
 *   urnic_ep_write(), _read(), _send() ... urnic_ep_poll(): events
 *
 * Operations end in any order, and messages arrive in any order. Each operation
 * that was accepted ends with one event. A write is done when its bytes are in
 * the peer's memory, a read when they are in ours, and a message when all of it
 * is in the peer's FIFO: its program gets it once and whole. An operation that
 * fails may have had a part of its effect.
 *
 * Memory that is not registered (any more) ends more than the operation. A PVO
 * whose memory was deregistered, or that never was one, fails the window that
 * it is aimed at, as document C has it: ours for a local one, that of the peer
 * for a remote one, which then is lost for us (URNIC_EP_PEER_LOST), as we are
 * for it, and with it all small writes that share a packet with that one. So
 * agree on the end of transfers before you deregister. An access that begins
 * inside a registration and crosses its end, and missing rights, only end the
 * operation (URNIC_EP_REFUSED). But packets are judged one by one: one that
 * lies wholly beyond the registration names memory that never was one.
 * Operations of no bytes name no memory.
 *
 * Thread: one at a time uses an endpoint. It must poll, or sleep in
 * urnic_ep_wait() and then poll, for anything to move: a peer that does not
 * holds back what is sent to it.
 */

#include "urnic_dv.h"

#ifdef __cplusplus
extern "C" {
#endif

struct urnic_ep;

struct urnic_ep_nic {
  struct ibv_context* context;
  int gid_index; /* -1: the first that is an IPv4 address, else the first */
};

#define URNIC_EP_LEAST_ENTRIES 16u

/* Zero it; 0 always means the default. */
struct urnic_ep_attr {
  uint64_t comp_mask;  /* must be 0 */
  uint32_t job;        /* who may talk to each other: not 0 */
  uint32_t operations; /* accepted at a time; 0: 4096 */
  uint32_t paths;      /* UDP flows between two NICs, 1 to 8; 0: 4 */
  /* Units under way to a peer, which grants them; 0: 64. A unit is up to 16
   * packets of one operation, or a packet of small writes; so of messages of
   * one packet, no more than this are under way. */
  uint32_t lanes;
  /* Of each window, at least URNIC_EP_LEAST_ENTRIES; 0: 1024 and 4096. */
  uint32_t send_entries;
  uint32_t receive_entries;
  uint32_t dead_after_ms; /* without an answer a path is dead; 0: 50 */
  uint32_t lost_after_ms; /* without a path a peer is lost; 0: 30 000 */
};

/* Opens a window on each NIC: at most 8, which all belong to the endpoint.
 * NULL: errno. */
struct urnic_ep* urnic_ep_open(const struct urnic_ep_nic* nics, uint32_t count,
                               const struct urnic_ep_attr* attr);
/* Operations under way end without an event. Peers are told, and for them this
 * endpoint is lost (URNIC_EP_PEER_LOST) after twice their dead_after_ms; if
 * that message does not arrive, after lost_after_ms. */
int urnic_ep_close(struct urnic_ep* endpoint);

/* What peers need. `bytes`: room in, length out. ENOSPC: `bytes` says how much
 * is needed, which is at most URNIC_EP_ADDRESS_BYTES. */
#define URNIC_EP_ADDRESS_BYTES 512
int urnic_ep_address(struct urnic_ep* endpoint, void* address, size_t* bytes);
/* EINVAL: not an address. Otherwise, if no NIC of ours has a way to one of the
 * peer, the error of urnic_dv_add_peer() for the first: ENETUNREACH, ETIMEDOUT
 * (after three seconds), ENOMEM, or EBUSY: it is a peer already. An address
 * does not say of which job it is: with a peer of another one, operations end
 * with URNIC_EP_PEER_LOST. */
int urnic_ep_add_peer(struct urnic_ep* endpoint, const void* address,
                      size_t bytes, uint32_t* peer);
/* Operations with it end with URNIC_EP_CANCELED, and it is told, as at the end
 * of an endpoint. To go on with it, both ends remove and add each other. */
int urnic_ep_remove_peer(struct urnic_ep* endpoint, uint32_t peer);

/* As urnic_dv_register() and urnic_dv_deregister(), for the endpoint's job. */
int urnic_ep_register(struct urnic_ep* endpoint, void* addr, uint64_t bytes,
                      unsigned access, uint64_t* pvo);
int urnic_ep_deregister(struct urnic_ep* endpoint, uint64_t pvo);

/* Begin an operation. `user` is returned by its event. The memory belongs to
 * the endpoint until then. Nothing leaves before the next urnic_ep_flush() or
 * urnic_ep_poll(); the clock is read once for all that leave together, when the
 * first of them begins. EAGAIN: too many operations; poll.
 * EMSGSIZE: more than the peer can take as a message (16 MB), or than
 * URNIC_RUD_INLINE.
 * EINVAL: no such peer. EHOSTUNREACH: the peer is lost, or all our windows have
 * failed; then open another endpoint. */
int urnic_ep_write(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                   uint64_t remote_pvo, uint64_t bytes, uint64_t user);
int urnic_ep_read(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                  uint64_t remote_pvo, uint64_t bytes, uint64_t user);
int urnic_ep_send(struct urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
                  uint64_t bytes, uint64_t user);
/* Of up to URNIC_RUD_INLINE bytes, which are copied at once. Writes that leave
 * together for the same peer share packets: a list of 32 costs a fraction of 32
 * that are flushed one by one. */
int urnic_ep_write_inline(struct urnic_ep* endpoint, uint32_t peer,
                          const void* data, uint32_t bytes, uint64_t remote_pvo,
                          uint64_t user);
int urnic_ep_send_inline(struct urnic_ep* endpoint, uint32_t peer,
                         const void* data, uint32_t bytes, uint64_t user);
/* Lets what was begun leave. */
int urnic_ep_flush(struct urnic_ep* endpoint);

enum urnic_ep_event_type {
  URNIC_EP_DONE = 0,    /* an operation has ended */
  URNIC_EP_MESSAGE = 1, /* from a peer */
};

enum urnic_ep_event_status {
  URNIC_EP_OK = 0,
  URNIC_EP_BAD_LOCAL = 4,     /* memory of ours that we may not access */
  URNIC_EP_REFUSED = 5,       /* memory of the peer that we may not access */
  URNIC_EP_WINDOW_FAILED = 6, /* of all our NICs */
  /* It has ended or removed us, or no path to it worked for lost_after_ms: its
   * windows may have failed. */
  URNIC_EP_PEER_LOST = 7,
  URNIC_EP_CANCELED = 8, /* the peer was removed */
  URNIC_EP_INVALID = 9,  /* the RNIC does not execute the command */
};

struct urnic_ep_event {
  uint8_t type;   /* enum urnic_ep_event_type */
  uint8_t status; /* enum urnic_ep_event_status */
  uint16_t reserved;
  uint32_t peer;
  uint64_t user;  /* done: of the operation */
  uint64_t bytes; /* of the operation, or of the message */
  /* Message: until the next poll. One that fits into a packet (max_payload of
   * struct urnic_dv_window at the end whose link is shorter) lies in the
   * receive FIFO, aligned to 64 bytes if that is a multiple of 64. Others were
   * put together in memory that is aligned as malloc()'s. */
  const void* data;
};

/* Runs the RNICs and the endpoint, and fills events: at most `most`. Returns
 * how many. If a device fails, operations that it alone could do end with
 * URNIC_EP_WINDOW_FAILED. */
uint32_t urnic_ep_poll(struct urnic_ep* endpoint, struct urnic_ep_event* events,
                       uint32_t most);

/* A path: one UDP flow between a NIC of ours and one of a peer. */
struct urnic_ep_path {
  uint8_t nic;      /* ours, by its place in urnic_ep_open() */
  uint8_t peer_nic; /* the same, of the peer */
  uint8_t path;     /* between them, from 0 */
  uint8_t is_dead;
  uint32_t round_trip_ns; /* smoothed; 0: not known yet */
  uint32_t window;        /* packets that may be under way */
  uint32_t under_way;     /* packets that are */
  uint64_t units;         /* of at most 16 packets, sent on it */
};
/* `count`: room in; how many there are, out. EINVAL: no such peer. */
int urnic_ep_query_paths(struct urnic_ep* endpoint, uint32_t peer,
                         struct urnic_ep_path* paths, uint32_t* count);

/* Since the endpoint was opened. */
struct urnic_ep_stats {
  uint64_t units;         /* complete */
  uint64_t commands;      /* posted */
  uint64_t shared;        /* writes that went in the packet of another one */
  uint64_t packets_again; /* sent again */
  uint64_t time_outs;
  uint64_t asked;      /* what had arrived, because something seemed lost */
  uint64_t early;      /* of these, nothing was lost */
  uint64_t dead_paths; /* how often one died */
  uint64_t moved;      /* units, to another NIC */
};
int urnic_ep_query_stats(struct urnic_ep* endpoint,
                         struct urnic_ep_stats* stats);

/* Sleeps until urnic_ep_poll() may have something to do: an event, or work of
 * the endpoint, which has none for the program. Call it when a poll has given
 * nothing, and poll after it:
 *
 *   while (urnic_ep_poll(endpoint, &event, 1) == 0)
 *     urnic_ep_wait(endpoint, -1);
 *
 * ETIMEDOUT: nothing for timeout_ms; negative: forever. EINTR: a signal.
 * EMFILE or ENOMEM: no descriptor is left; the first call makes one. */
int urnic_ep_wait(struct urnic_ep* endpoint, int timeout_ms);

#ifdef __cplusplus
}
#endif
