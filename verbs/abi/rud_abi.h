#pragma once

/*
 * The rings of a RUD window (docs/design/0014-rud.md): the boundary between the
 * RNIC and a program that uses RUD. The program posts commands in the send
 * FIFO, and reads what has happened from the receive FIFO. The rules of
 * rnic_abi.h hold here, too: plain C, free-running indices, entry i is at (i &
 * (entries - 1)), and neither side trusts the other.
 *
 * Send FIFO. The program writes entries, and then the producer index. When the
 * RNIC no longer needs an entry and its slot, it writes the entry's `status`,
 * and then the consumer index. This does not mean that anything was delivered.
 *
 * Receive FIFO. An entry's payload is in the slot with the same index. The RNIC
 * writes the payload first and the entry's `type`, which is not 0, last. The
 * program polls `type` of the next entry. When it has read the entry, it sets
 * `type` to 0 and then writes the consumer index. What arrives while the FIFO
 * is full is dropped and counted.
 *
 * A context is written as 64 bits: its number in the low 32, its key in the
 * high 32. A tid identifies a transfer (high 56 bits) and an attempt at it (low
 * 8 bits): a retransmission is another attempt, and has a larger tid.
 */

/* The two headers are in the same folder, here and where they are installed. */
#include "rnic_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of payload that fit into the entry itself. */
#define URNIC_RUD_INLINE 32u
/* Largest slot, in bytes: what the longest UDP packet can carry besides our
 * headers, rounded down to whole cache lines. */
#define URNIC_RUD_MAX_SLOT 65408u
/* Packets of one transfer, at most. */
#define URNIC_RUD_MAX_PACKETS 64u
/* Writes in one packet (URNIC_RUD_LIST), at most. */
#define URNIC_RUD_MAX_WRITES 64u
/* A window has the counters 1 to URNIC_RUD_COUNTERS - 1, with the initial value
 * 0. Number 0 means "no counter". */
#define URNIC_RUD_COUNTERS 64u
/* Commands of a window that may wait for counters at a time. */
#define URNIC_RUD_MAX_HELD 64u

/* urnic_rud_send.opcode */
enum urnic_rud_opcode {
  /* Sends a packet to the receive FIFO of `window`. It may be as long as a slot
   * of both ends. If the link's packets are shorter, it is sent in IP
   * fragments, and the loss of one fragment loses it. */
  URNIC_RUD_PACKET = 1,
  URNIC_RUD_WRITE = 2,
  URNIC_RUD_READ = 3,
  /* Asks the target which packets of a transfer have arrived. From then on, the
   * target drops packets with an older tid. */
  URNIC_RUD_ASK_STATE = 4,
  /* Asks `peer` to send from its memory to a third window, which is a peer of
   * both. */
  URNIC_RUD_THIRD_READ = 5,
  URNIC_RUD_SET_COUNTER = 6, /* sets `counter` to `value` */
  URNIC_RUD_ASK_COUNTER = 7, /* answered by URNIC_RUD_GOT_COUNTER */
  /* From now on `counter` counts the transfers that other windows complete to
   * `local_context`. With URNIC_RUD_TO_FIFO, it counts the URNIC_RUD_PACKETs
   * that arrive in the receive FIFO instead. Counter 0 ends the counting. */
  URNIC_RUD_COUNT_ARRIVALS = 8,
  URNIC_RUD_DROP_HELD = 9, /* drops commands that wait for `counter` */
  /* Ends what `local_context` is doing. Nobody is told. Packets for it with
   * this tid or a smaller one are dropped. */
  URNIC_RUD_CANCEL = 10,
};

/* urnic_rud_send.flags */
enum {
  /* The payload is in the entry. Without this flag it is in the slot
   * (URNIC_RUD_PACKET) or at `local_pvo`. */
  URNIC_RUD_INLINE_DATA = 1 << 0,
  /* Write: to the receive FIFO of the target, instead of its memory. If
   * `notify` is not 0, the target's context tracks the packets, and one that
   * finds the FIFO full has not arrived; otherwise no context is used. Read: to
   * the receive FIFO of the window that reads; its entries contain `local_pvo`,
   * which may be any value. */
  URNIC_RUD_TO_FIFO = 1 << 1,
  /* Write, third-party read: the completion only increases `counter`, without
   * an entry in the receive FIFO. */
  URNIC_RUD_COUNT_ONLY = 1 << 2,
  /* Write (half-RDMA of document C): the command sends one packet of the
   * transfer, whose payload is in the slot, to its own `remote_pvo`. The
   * commands for the packets of a transfer have the same tid, and may come in
   * any order. So the data may be scattered at both ends. Such a command cannot
   * wait for a counter. */
  URNIC_RUD_SLOT_DATA = 1 << 3,
  /* Write, with URNIC_RUD_SLOT_DATA: the slot contains a list of 1 to
   * URNIC_RUD_MAX_WRITES writes. Each is a struct urnic_rud_list_entry followed
   * by its bytes, without padding; the last one ends with the packet.
   * `remote_pvo` must be 0. The target executes all writes of a packet or, if
   * it may not execute one of them, none; then its notice contains the PVO of
   * the first one that it refuses. Not to a FIFO, and not to a group. */
  URNIC_RUD_LIST = 1 << 4,
};

/* As on the wire: the most significant byte first. */
struct urnic_rud_list_entry {
  uint8_t pvo[8];
  uint8_t bytes[2];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rud_list_entry) == 10);

/* urnic_rud_send.notify: who is told that the transfer is complete. Data goes
 * from the source to the target: a window that reads is the target, and gets
 * URNIC_RUD_GOT_TRANSFER. The third party is the window that has posted
 * URNIC_RUD_THIRD_READ; the target sends it a completion
 * (URNIC_RUD_GOT_COMPLETION). */
enum {
  URNIC_RUD_NOTIFY_SOURCE = 1 << 0,
  URNIC_RUD_NOTIFY_TARGET = 1 << 1,
  URNIC_RUD_NOTIFY_THIRD = 1 << 2,
};

/* urnic_rud_send.status */
enum urnic_rud_status {
  URNIC_RUD_WAITS = 0, /* written by the program */
  URNIC_RUD_SENT = 1,
  URNIC_RUD_BAD_REQUEST = 2, /* a wrong opcode, flag or length */
  URNIC_RUD_BAD_CONTEXT = 3, /* the window may not use it now */
  URNIC_RUD_OLD_TID = 4,     /* not larger than that of local_context */
  URNIC_RUD_BAD_PVO = 5,     /* local_pvo; the window has failed */
  URNIC_RUD_FLUSHED = 6,     /* the window had failed before it */
  URNIC_RUD_BUSY = 7,        /* local_context answers a read */
  URNIC_RUD_HELD = 8,        /* it waits for a counter, see below */
  URNIC_RUD_NO_ROOM = 9,     /* too many wait, or receive FIFO full */
};

/* A new ring is zeroed. Leave fields that you do not know at 0: a field that a
 * later version adds then has no effect.
 *
 * A command with a `condition` is executed when the counter of this number has
 * reached `value`. Until then the RNIC keeps a copy of it (URNIC_RUD_HELD). If
 * the command then turns out to be wrong, an entry says so
 * (URNIC_RUD_GOT_UNSENT). A packet that waits must have its payload in the
 * entry. Commands about counters cannot wait.
 *
 * Packets and writes can go to a group (urnic_dv_join_group()). Then `context`
 * is an index into the members' contexts, and `remote_pvo` an offset in their
 * memory; both are the same for all members. If the write notifies the source,
 * each member sends a completion, perhaps more than once; `peer` of the entry
 * says from which one it is. The RNIC does not know the number of members, so
 * the local context remains in use until it begins another transfer or is
 * canceled, and no counter counts. To retransmit what a member has missed,
 * write to the member's own window, with its own context and PVO, from the same
 * local context, with a larger tid of the same transfer. A member's answer to
 * URNIC_RUD_ASK_STATE has the tid of the question. From then on the member
 * drops packets with a smaller tid.
 *
 * When the transfer of a command completes, its `counter` increases by one:
 * once per transfer, however many attempts it takes. This goes for reads, and
 * for writes and third-party reads that notify the window that posts them. */
struct urnic_rud_send {
  uint8_t opcode; /* enum urnic_rud_opcode */
  uint8_t flags;
  uint8_t path; /* number of the UDP flow */
  uint8_t notify;
  uint32_t status;  /* enum urnic_rud_status */
  uint32_t peer;    /* its number from urnic_dv_add_peer() */
  uint32_t window;  /* the peer's window; 0: a group */
  uint64_t context; /* of the peer */
  uint64_t local_context;
  uint64_t tid;
  uint64_t local_pvo; /* third-party read: the target's */
  uint64_t remote_pvo;
  uint32_t bytes;  /* of the transfer, or of the packet */
  uint16_t stride; /* payload of a full packet */
  uint8_t counter;
  uint8_t condition;
  uint64_t packets; /* to send, of the transfer: a bit for each */
  union {
    uint8_t tag[16]; /* packet: for the upper layer of the peer */
    struct {         /* third-party read: where the data goes */
      uint32_t target_peer;
      uint32_t target_window;
      uint64_t target_context;
    };
  };
  uint8_t data[URNIC_RUD_INLINE];
  uint64_t value; /* of a counter */
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rud_send) == 2 * URNIC_ABI_LINE);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, context) == 16);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, packets) == 64);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, tag) == 72);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, target_context) == 80);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_send, data) == 88);

/* urnic_rud_receive.type */
enum urnic_rud_entry {
  URNIC_RUD_GOT_PACKET = 1,
  URNIC_RUD_GOT_DATA = 2,       /* a packet of a write or read to the FIFO */
  URNIC_RUD_GOT_COMPLETION = 3, /* our write or third-party read is complete */
  URNIC_RUD_GOT_TRANSFER = 4,   /* a transfer to this window is complete */
  URNIC_RUD_GOT_STATE = 5,      /* the answer to URNIC_RUD_ASK_STATE */
  URNIC_RUD_GOT_REFUSAL = 6,    /* memory was refused: the transfer has ended */
  URNIC_RUD_GOT_UNSENT = 7,     /* a held command turned out to be wrong */
  URNIC_RUD_GOT_COUNTER = 8,
};

/* urnic_rud_receive.flags */
enum {
  URNIC_RUD_MARKED = 1 << 0, /* by ECN: it, or what it answers */
};

struct urnic_rud_receive {
  uint8_t type; /* enum urnic_rud_entry, written last */
  uint8_t flags;
  uint8_t path;   /* that of the packet, or of what it answers */
  uint8_t number; /* data: of the packet; else of the counter or condition */
  uint16_t bytes; /* of payload, in the slot */
  uint16_t stride;
  uint32_t source_window;
  uint32_t peer;
  union {
    uint8_t tag[16]; /* packet */
    struct {
      uint64_t context; /* the local one; data: that of the source */
      uint64_t tid;
    };
  };
  union {
    struct { /* data, transfer */
      uint32_t total;
      uint32_t offset;
    };
    uint64_t arrived; /* state, refusal: packets, a bit for each */
    uint64_t value;   /* counter: its value; unsent: urnic_rud_status */
  };
  union {
    /* Data: `remote_pvo` of the write, or `local_pvo` of the read. Refusal:
     * what was refused: a PVO, or the offset of a write to a group, or 0. */
    uint64_t pvo;
    uint64_t held; /* counter: how many commands wait for it */
  };
  uint64_t reserved[2];
};
URNIC_ABI_ASSERT(sizeof(struct urnic_rud_receive) == URNIC_ABI_LINE);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_receive, tag) == 16);
URNIC_ABI_ASSERT(offsetof(struct urnic_rud_receive, arrived) == 32);

#ifdef __cplusplus
} /* extern "C" */
#endif
